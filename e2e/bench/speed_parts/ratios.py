"""How much does a request cost the absorber, against nginx and against an aiohttp recorder?

All servers run at the same time on one core and only one of them is loaded at a time, in turn: nginx, ours,
nginx, ours ... A cost is the least of all rounds, a ratio is of two such costs of the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.speed_parts import profiles
from bench.speed_parts.closed_loop import Round, one_round
from bench.speed_parts.machine import Cores
from bench.speed_parts.servers import NotThere, Server, absorber, nginx, recorder, reply_size
from bench.speed_parts.table import Bar, Row, absent, barred, shown

LIGHT = ("--level", "light")
FULL_BAR, LIGHT_BAR, STREAM_BAR = Bar(2.5, "x nginx"), Bar(1.6, "x nginx"), Bar(8, "x aiohttp", at_least=True)

type Say = Callable[[str], None]


class Plan(msgspec.Struct, frozen=True):
    """How long and how often (rounds of whole seconds); where profiles go, if anywhere; targets, if not all."""

    cores: Cores
    seconds: int
    rounds: int
    seed: int
    folder: Path
    profiles: Path | None = None
    targets: frozenset[str] = frozenset()


class Target(msgspec.Struct, frozen=True):
    """One of those that take turns: a server, whether it is asked to stream, whether no body comes twice."""

    name: str
    server: str
    stream: bool
    fresh: bool = True


TARGETS = (
    Target("nginx", "nginx", stream=False),
    Target("full", "full", stream=False),
    Target("full-seen", "full", stream=False, fresh=False),
    Target("light", "light", stream=False),
    Target("max-throughput", "max-throughput", stream=False),
    Target("aiohttp-streamed", "aiohttp", stream=True),
    Target("full-streamed", "full", stream=True),
    Target("light-streamed", "light", stream=True),
)
YARDSTICKS = ("nginx", "aiohttp-streamed")
OURS: Mapping[str, tuple[Sequence[str], dict[str, object]]] = {
    "full": ((), {}),
    "light": (LIGHT, {}),
    "max-throughput": (LIGHT, {"precompiled": True, "output_tokens": 16}),
}


def start(stack: ExitStack, plan: Plan, names: Sequence[str]) -> tuple[dict[str, Server], dict[str, str]]:
    """Start the servers that these names need; return those that run, and why the others do not."""
    servers: dict[str, Server] = {}
    missing: dict[str, str] = {}
    core = plan.cores.server
    for name, (options, profile) in OURS.items():
        if name not in names:
            continue
        try:
            ours = absorber(plan.folder / name, core=core, profile=profile, options=options, keep_journal=False)
            servers[name] = stack.enter_context(ours)
        except NotThere as reason:
            missing[name] = str(reason)
    first = next(iter(servers.values()), None)
    reply_bytes = reply_size(first, stream=False) if first else 345
    servers["nginx"] = stack.enter_context(nginx(plan.folder, core=core, reply_bytes=reply_bytes))
    servers["aiohttp"] = stack.enter_context(recorder(plan.folder, core=core))
    return servers, missing


def measure(plan: Plan, say: Say) -> list[Row]:
    """Run all rounds and return the rows."""
    targets = [target for target in TARGETS if not plan.targets or target.name in plan.targets | set(YARDSTICKS)]
    with ExitStack() as stack:
        servers, missing = start(stack, plan, [target.server for target in targets])
        rounds: dict[str, list[Round]] = {target.name: [] for target in TARGETS}
        for number in range(plan.rounds):
            for target in targets:
                if target.server in servers:
                    made = _round(plan, servers, target, number)
                    rounds[target.name].append(made)
                    say(f"round {number + 1}/{plan.rounds} {target.name}: {made.per_request_us(made.use.loop):.1f} us "
                        f"a request, {made.rate_per_s:,.0f} a second{disturbance([made])}")  # fmt: skip
        rows = [row for row in _rows(rounds, missing) if not plan.targets or row.key in plan.targets | set(YARDSTICKS)]
        _profile_missed(plan, servers, rows, say)
    return rows


def _round(plan: Plan, servers: Mapping[str, Server], target: Target, number: int, *, settles: bool = True) -> Round:
    server = servers[target.server]
    return one_round(server.url, server.pid, cores=plan.cores, seconds=plan.seconds, stream=target.stream,
                     seed=plan.seed + number, fresh=target.fresh, settles=settles)  # fmt: skip


def _profile_missed(plan: Plan, servers: Mapping[str, Server], rows: Sequence[Row], say: Say) -> None:
    for target in TARGETS:
        if plan.profiles and any(row.missed and row.key == target.name for row in rows):

            def load(sampler: profiles.Sampler, said: profiles.Said, target: Target = target) -> None:
                with sampler(servers[target.server].pid, said):
                    _round(plan, servers, target, 0, settles=False)

            say(f"profile of {target.name}: {profiles.write(plan.profiles, target.name, load)}")


def _rows(rounds: Mapping[str, Sequence[Round]], missing: Mapping[str, str]) -> list[Row]:
    rows = [_plain("nginx", "nginx `return 200`, the yardstick", rounds["nginx"])]
    bodies = "never-seen bodies"
    for name, bar in (("full", FULL_BAR), ("light", LIGHT_BAR), ("max-throughput", LIGHT_BAR)):
        what = f"loop's thread a request, `{name}`{' at level `light`' if name == 'max-throughput' else ''}, {bodies}"
        if not rounds[name]:
            rows.append(absent(name, what, missing.get(name, "not asked for"), bar))
            continue
        value = least_us(rounds[name]) / least_us(rounds["nginx"])
        rows.append(barred(name, what, value, bar, beside=_costs(rounds[name]), machine=_machine(rounds, name)))
        if name == "full":
            rows.append(_counting(rounds[name]))
            if rounds["full-seen"]:
                rows.append(_seen(rounds))
    rows.append(
        _plain("aiohttp-streamed", "aiohttp recorder, 16 tokens streamed, no delay", rounds["aiohttp-streamed"])
    )
    return [*rows, *_streamed(rounds, missing)]


def _streamed(rounds: Mapping[str, Sequence[Round]], missing: Mapping[str, str]) -> list[Row]:
    rows = []
    for level in ("full", "light"):
        name, what = f"{level}-streamed", f"requests a CPU second of the loop, `{level}`, 16 tokens streamed, no delay"
        if not rounds[name]:
            rows.append(absent(name, what, missing.get(level, "not asked for"), STREAM_BAR))
            continue
        value = least_us(rounds["aiohttp-streamed"]) / least_us(rounds[name])
        rows.append(barred(name, what, value, STREAM_BAR, beside=_costs(rounds[name]),
                           machine=_machine(rounds, name)))  # fmt: skip
    return rows


def least(rounds: Sequence[Round]) -> Round:
    """Return the round whose loop cost least a request."""
    return min(rounds, key=lambda made: made.per_request_us(made.use.loop))


def least_us(rounds: Sequence[Round]) -> float:
    """Return the least CPU of the loop's thread a request, in microseconds."""
    made = least(rounds)
    return made.per_request_us(made.use.loop)


def _costs(rounds: Sequence[Round]) -> str:
    best = least(rounds)
    loop, whole = best.per_request_us(best.use.loop), best.per_request_us(best.use.whole)
    return f"loop {loop:.1f} us, whole process {whole:.1f} us; {best.rate_per_s:,.0f} req/s"


def _plain(key: str, what: str, rounds: Sequence[Round]) -> Row:
    return Row(key=key, what=what, measured=f"{least_us(rounds):.1f} us", beside=_costs(rounds),
               machine=disturbance(rounds).strip(" ,"))  # fmt: skip


def _counting(rounds: Sequence[Round]) -> Row:
    cost = min(made.per_request_us(made.use.second) for made in rounds)
    return Row(key="counting", what="counting thread a request, `full`", measured=f"{cost:.0f} us",
               beside="the second busiest thread; off the loop, so no bar")  # fmt: skip


def _seen(rounds: Mapping[str, Sequence[Round]]) -> Row:
    value = least_us(rounds["full-seen"]) / least_us(rounds["nginx"])
    return Row(key="full-seen", what="loop's thread a request, `full`, one body again and again (its count is known)",
               measured=shown(value, "x nginx"), beside=_costs(rounds["full-seen"]),
               machine=_machine(rounds, "full-seen"))  # fmt: skip


def _machine(rounds: Mapping[str, Sequence[Round]], name: str) -> str:
    return disturbance(rounds[name]).strip(" ,")


def disturbance(rounds: Sequence[Round]) -> str:
    """Return a mark for rounds in which the machine was not quiet, or nothing."""
    marked = [made.quiet for made in rounds if made.quiet.disturbed]
    if not marked:
        return ""
    worst = max(marked, key=lambda quiet: quiet.stolen + quiet.others)
    where = f" in {len(marked)} of {len(rounds)}" if len(rounds) > 1 else ""
    return f", NOT QUIET{where} ({worst.says()})"
