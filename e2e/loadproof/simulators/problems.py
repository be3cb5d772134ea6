"""In which ways can a simulator fail us? One type each, so that a test can ask for exactly one of them."""

from __future__ import annotations

from loadproof.errors import Exit, LoadproofError

NAME = "llm-d-inference-sim"
HOW_TO_GET = "put llm-d-inference-sim v0.6.1 on PATH; the flake builds it from source (`nix develop`)"


class SimProblem(LoadproofError):
    """Any of them; the message says what to do next and, where there is a log, quotes its end."""


class SimMissing(SimProblem):
    """The executable is not there, or cannot be run here, or is something else; nothing was left running."""

    exit_code = Exit.USAGE


class SimCannotExpress(SimProblem):
    """An amount that was asked for cannot be told to this simulator; `option` is its name. Nothing was started."""

    exit_code = Exit.USAGE

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


class SimRejectedFlag(SimProblem):
    """It does not know a flag (told before it is started), or not its value (told from its log)."""


class SimPortInUse(SimProblem):
    """Every port that was tried had been taken meanwhile by somebody else."""


class SimExitedEarly(SimProblem):
    """It ended before it was ready, whatever its exit code."""


class SimNotReady(SimProblem):
    """It runs, and did not answer before the deadline; what was last seen of it is in the message."""


class SimWrongTokenizer(SimProblem):
    """It counts tokens otherwise than we do, or cannot count."""


class SimDied(SimProblem):
    """It ended in the middle of a run, without being asked to end; or it was killed, and the run came to its end."""
