"""Which options do several commands share? Written once, with their help, as typer reads them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Isolation(StrEnum):
    """What `--isolate` takes."""

    PID = "pid"


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
