"""How is an absorber driven with paced streams, once?

A scenario is data: a profile, requests, and when each is sent. Every run has an absorber of its own, whose
journal is there when it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from bench.speed_parts.closed_loop import own_ns
from bench.speed_parts.machine import Quiet, moment, quiet_between, threads_ns
from bench.speed_parts.ratios import Plan
from bench.speed_parts.servers import Server, absorber
from bench.speed_parts.streams import Driver, Exchange, request_bytes

TTFT_S = 0.1


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What to drive: request k leaves at `times_ns[k]`, and again after each reply until `again_s`."""

    profile: dict[str, object]
    requests: Sequence[bytes]
    times_ns: Sequence[int]
    lasts_s: float
    again_s: float = 0


class Driven(msgspec.Struct, frozen=True):
    """One run: its journal, the replies as the client saw them, the machine meanwhile, the server's CPU."""

    journal: Path
    exchanges: list[Exchange]
    quiet: Quiet
    server_ns: int
    span_ns: int

    @property
    def busy(self) -> float:
        """Share of its core that the server's process used."""
        return self.server_ns / self.span_ns

    def machine(self) -> str:
        """Return the mark of a machine that was not quiet, or nothing."""
        return f"NOT QUIET ({self.quiet.says()})" if self.quiet.disturbed else ""


def long_streams(plan: Plan, itl: object, itl_s: float, times_ns: Sequence[int]) -> Scenario:
    """Return streams long enough that all of them are open for `plan.seconds`; `itl` is the law, `itl_s` its middle."""
    ramp_s = max(times_ns) / 1e9
    tokens = round((ramp_s + plan.seconds) / itl_s)
    requests = [request_bytes(i, tokens, plan.seed) for i in range(len(times_ns))]
    profile: dict[str, object] = {"ttft_s": TTFT_S, "itl_s": itl, "seed": plan.seed}
    return Scenario(profile=profile, requests=requests, times_ns=times_ns, lasts_s=ramp_s + TTFT_S + tokens * itl_s)


def drive(
    plan: Plan, name: str, scenario: Scenario, around: Callable[[int], AbstractContextManager[None]] | None = None
) -> Driven:
    """Run an absorber, drive the scenario through it within `around(pid)`, and end it so that its journal is there."""
    folder = plan.folder / name
    with absorber(folder, core=plan.cores.server, profile=scenario.profile) as server:
        driver = Driver(server, scenario.requests, scenario.times_ns, again_s=scenario.again_s)
        with around(server.pid) if around else nullcontext():
            return _watched(server, driver, scenario.lasts_s, folder)


def _watched(server: Server, driver: Driver, lasts_s: float, folder: Path) -> Driven:
    before, used, own = moment(), sum(threads_ns(server.pid).values()), own_ns()
    exchanges = driver.run(lasts_s)
    after, server_ns = moment(), sum(threads_ns(server.pid).values()) - used
    quiet = quiet_between(before, after, server_ns + own_ns() - own)
    return Driven(folder, exchanges, quiet, server_ns, after.at - before.at)
