"""Why did llm-d-inference-sim end before it was ready?

Method: its log, since its exit code is 0 whatever went wrong. The last error line of klog says why, as `err="..."`.
It shows its configuration once it has accepted all of its arguments, so an error before that is about an argument.
"""

from __future__ import annotations

import re
from pathlib import Path

from loadproof.ended import Ended
from loadproof.log_tail import tail
from loadproof.simulators.problems import NAME, SimExitedEarly, SimPortInUse, SimProblem, SimRejectedFlag

_ERROR = re.compile(r'^\s*E\d{4} .*? err="(.*?)"?$', re.MULTILINE)
_ARGUMENTS_ACCEPTED = b'"Configuration:"'
_HEAD_BYTES = 64 * 1024


def why_it_ended(ended: Ended, stderr: Path) -> SimProblem:
    """Return the problem, to be raised: SimPortInUse, SimRejectedFlag, or SimExitedEarly for all else."""
    last_lines = tail(stderr)
    errors = _ERROR.findall(last_lines)
    error = errors[-1].replace('\\"', '"') if errors else ""
    if "address already in use" in error:
        return SimPortInUse(f"{NAME}: {error}\n{last_lines}")
    if error and not _shows_configuration(stderr):
        return SimRejectedFlag(f"{NAME} rejected its arguments: {error}; it was started as {' '.join(ended.argv)}\n"
                               f"{last_lines}")  # fmt: skip
    return SimExitedEarly(f"{NAME} {ended.says()}, before it was ready{f': {error}' if error else ''}\n{last_lines}")


def _shows_configuration(log: Path) -> bool:
    with log.open("rb") as file:
        return _ARGUMENTS_ACCEPTED in file.read(_HEAD_BYTES)
