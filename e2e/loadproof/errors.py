"""Which kinds of things go wrong, and with which exit code does each end?

Two kinds leave our own code: the person asked for something that cannot be done (`UsageProblem`,
nothing was started), and something that was started did not end as it must (`BrokenRun`). Everything
else that is raised is our own defect and is reported as broken too. Findings are not errors: they are
values, in `loadproof.verdict`.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every `loadproof` command; 2 is `unclear`, so usage is sysexits' 64."""

    CLEAN = 0
    FAIL = 1
    UNCLEAR = 2
    BROKEN = 3
    USAGE = 64


class LoadproofError(Exception):
    """Something to tell the person in full; the message says what to do next.

    `exit_code` is what the command line ends with.
    """

    exit_code: Exit = Exit.BROKEN


class UsageProblem(LoadproofError):
    """What was asked for cannot be done; nothing was started and nothing was written."""

    exit_code = Exit.USAGE


class BrokenRun(LoadproofError):
    """Something was started and did not end as it must; what it left is kept and named."""

    exit_code = Exit.BROKEN
