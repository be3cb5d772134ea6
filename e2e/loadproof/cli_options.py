"""Which options do several commands share? Written once, with their help, as typer reads them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loadproof.interruptible import to_the_end
from loadproof.placement import Placement, read_cpus
from loadproof.process import try_isolation
from loadproof.requirements import SIMULATOR
from loadproof.run_folder import ABSORBER


class Isolation(StrEnum):
    """What `--isolate` takes."""

    PID = "pid"


class Levels(StrEnum):
    """What `--level` takes."""

    FULL = "full"
    LIGHT = "light"


Cases = Annotated[list[Path], typer.Argument(metavar="CASE...", help="Case folders.")]
ToolNames = Annotated[list[str] | None, typer.Option("--tool", help="Only this tool; may be repeated.")]
Out = Annotated[Path | None, typer.Option("--out", help="Where run folders go; a new folder in runs/ by default.")]
Server = Annotated[
    str, typer.Option("--server", metavar=f"{ABSORBER}|{SIMULATOR}", help="What the tool runs against. A simulator "
                      "keeps no journal: there only the tool's own report is judged.")
]  # fmt: skip
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of everything that is drawn.")]
ProfileFile = Annotated[
    str | None, typer.Option("--profile", metavar="FILE|NAME", help="The absorber's profile: a YAML file, or one of "
                             "max-throughput, variable-response.")
]  # fmt: skip
Ttft = Annotated[float | None, typer.Option("--ttft-s", help="Time to first token, in seconds.")]
Itl = Annotated[float | None, typer.Option("--itl-s", help="Time between tokens, in seconds.")]
Tokens = Annotated[int | None, typer.Option("--output-tokens", help="Where the model stops by itself.")]
Cpus = Annotated[
    tuple[str, str] | None, typer.Option("--cpus", metavar="tool=CORES absorber=CORES", help="Pin both, as in "
                                         "--cpus tool=1 absorber=0; CORES as in 0-2,4.")
]  # fmt: skip
Isolate = Annotated[
    Isolation | None, typer.Option("--isolate", help="Give tool and absorber a PID namespace each, so that nothing "
                                   "outlives us even if we and their wardens are killed in the same instant.")
]  # fmt: skip
Level = Annotated[
    Levels, typer.Option("--level", help="light: no prompt is counted and no usage sent; bodies are read when the "
                         "journal is sealed.")
]  # fmt: skip
Workers = Annotated[
    int, typer.Option("--workers", min=1, metavar="N", help="Serve with N processes, to find out what a tool can do; "
                      "judging uses one.")
]  # fmt: skip


def placed(cpus: tuple[str, str] | None, isolate: str | None) -> Placement:
    """Return where to run. Raises UsageProblem for cores that are not ours, or isolation that the system refuses."""
    if isolate:
        to_the_end(try_isolation())
    return Placement(cpus=read_cpus(cpus) if cpus else {}, isolate=isolate or "")
