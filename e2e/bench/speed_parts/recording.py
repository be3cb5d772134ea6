"""What does recording cost? The same streamed load with the journal and without, in turn.

The paced streams are what the bar is for; the row without pacing shows the other end, where a reply is one
write and recording it weighs most. Bodies repeat, so that counting tokens plays no part in either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import msgspec

from bench.speed_parts import profiles
from bench.speed_parts.closed_loop import Round, one_round
from bench.speed_parts.ratios import Plan, Say, disturbance, least_us
from bench.speed_parts.servers import NotThere, Server, absorber
from bench.speed_parts.table import Bar, Row, absent, barred

WITHOUT = ("--no-recording",)
BAR = Bar(10, "%")


class Load(msgspec.Struct, frozen=True):
    """A profile, how many connections stream at the same time, and whether the bar is for it."""

    key: str
    what: str
    profile: dict[str, object]
    connections: int
    bar: Bar | None = None


LOADS = (
    Load("recording", "256 streams, TTFT 20 ms, ITL 5 ms, 16 tokens", {"ttft_s": 0.02, "itl_s": 0.005}, 256, BAR),
    Load("recording-unpaced", "16 tokens streamed, no delay", {}, 64),
)


def measure(plan: Plan, say: Say) -> list[Row]:
    """Return a row a load."""
    return [_row(plan, say, load) for load in LOADS]


def _row(plan: Plan, say: Say, load: Load) -> Row:
    what = f"recording, CPU of the loop it adds: {load.what}"
    with ExitStack() as stack:
        try:
            bare = _start(stack, plan, load, *WITHOUT)
        except NotThere as reason:
            return absent(load.key, what, str(reason), load.bar)
        pair = {"without": bare, "with": _start(stack, plan, load)}
        rounds: dict[str, list[Round]] = {name: [] for name in pair}
        for number in range(plan.rounds):
            for name, server in pair.items():
                made = _round(plan, load, server)
                rounds[name].append(made)
                say(f"{load.key} {number + 1}/{plan.rounds} {name}: {made.per_request_us(made.use.loop):.1f} us a "
                    f"request{disturbance([made])}")  # fmt: skip
        row = _judged(load, what, rounds)
        if plan.profiles and row.missed:

            def sampled(sampler: profiles.Sampler, said: profiles.Said) -> None:
                with sampler(pair["with"].pid, said):
                    _round(plan, load, pair["with"])

            say(f"profile of {load.key}: {profiles.write(plan.profiles, load.key, sampled)}")
    return row


def _round(plan: Plan, load: Load, server: Server) -> Round:
    return one_round(server.url, server.pid, cores=plan.cores, seconds=plan.seconds, stream=True, seed=plan.seed,
                     connections=load.connections, fresh=False)  # fmt: skip


def _judged(load: Load, what: str, rounds: Mapping[str, Sequence[Round]]) -> Row:
    recorded, bare_us = least_us(rounds["with"]), least_us(rounds["without"])
    added = (recorded / bare_us - 1) * 100
    beside = f"{recorded:.1f} us a request with the journal, {bare_us:.1f} without"
    machine = disturbance([*rounds["with"], *rounds["without"]]).strip(" ,")
    if load.bar is None:
        return Row(key=load.key, what=what, measured=f"{added:.1f} %", beside=beside, machine=machine)
    return barred(load.key, what, added, load.bar, beside=beside, machine=machine)


def _start(stack: ExitStack, plan: Plan, load: Load, *options: str) -> Server:
    folder = plan.folder / "-".join([load.key, *(option.strip("-") for option in options)])
    running = absorber(folder, core=plan.cores.server, profile=load.profile, options=options,
                       keep_journal=False)  # fmt: skip
    return stack.enter_context(running)
