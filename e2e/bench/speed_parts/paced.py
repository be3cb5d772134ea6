"""Do paced streams leave on time, and what does their journal take on disk?

1,000 streams with their phases spread and then in phase, 64 short streams in a closed loop, and 1,000 streams
with random gaps. Each is an absorber of its own on one core and one client on the other.
"""

from __future__ import annotations

import numpy as np

from bench.speed_parts import bare_send, profiles
from bench.speed_parts.driven import Driven, Scenario, drive, long_streams
from bench.speed_parts.lateness import Chunks, at_once, chunks_of, entropy_bytes, gaps_of, size_of
from bench.speed_parts.ratios import Plan, Say
from bench.speed_parts.servers import NotThere
from bench.speed_parts.streams import in_phase, request_bytes, spread
from bench.speed_parts.table import Bar, Row, absent, barred

STREAMS, ITL_S, TOGETHER = 1000, 0.02, 10
ITL_NS = round(ITL_S * 1e9)
SHORT_STREAMS, SHORT_TTFT_S, SHORT_ITL_S, SHORT_TOKENS = 64, 0.02, 0.005, 16
IDEAL_MS = (SHORT_TTFT_S + (SHORT_TOKENS - 1) * SHORT_ITL_S) * 1000
RANDOM = {"law": "lognormal", "median": ITL_S, "sigma": 0.3}

P50_BAR, P99_BAR, PHASE_BAR = Bar(0.1, "ms"), Bar(1, "ms"), Bar(6, "us a stream")
LATENCY_BAR, CONSTANT_BAR, RANDOM_BAR = Bar(0.3, "ms"), Bar(3, "bytes"), Bar(6, "bytes")


def measure(plan: Plan, say: Say) -> list[Row]:
    """Run all of them, `plan.rounds` times each but the random one, and return the rows."""
    scenarios = {
        "spread": long_streams(plan, ITL_S, ITL_S, spread(STREAMS, ITL_NS)),
        "phase": long_streams(plan, ITL_S, ITL_S, in_phase(STREAMS, ITL_NS, TOGETHER)),
        "short": _short_streams(plan),
    }
    rows = _spread(plan, say, scenarios["spread"])
    rows += _in_phase(plan, say, scenarios["phase"])
    rows += _short(plan, say, scenarios["short"])
    rows += _random(plan, say)
    for key, scenario in scenarios.items():
        if plan.profiles and any(row.missed and row.key == key for row in rows):

            def load(sampler: profiles.Sampler, said: profiles.Said, key: str = key, what: Scenario = scenario) -> None:
                drive(plan, f"{key}-{sampler.__name__}", what, lambda pid: sampler(pid, said))

            say(f"profile of {key}: {profiles.write(plan.profiles, key, load)}")
    return rows


def _short_streams(plan: Plan) -> Scenario:
    requests = [request_bytes(i, SHORT_TOKENS, plan.seed) for i in range(SHORT_STREAMS)]
    return Scenario(profile={"ttft_s": SHORT_TTFT_S, "itl_s": SHORT_ITL_S}, requests=requests,
                    times_ns=[0] * SHORT_STREAMS, lasts_s=IDEAL_MS / 1000, again_s=plan.seconds)  # fmt: skip


def _spread(plan: Plan, say: Say, scenario: Scenario) -> list[Row]:
    runs = []
    for number in range(plan.rounds):
        driven = drive(plan, f"spread-{number}", scenario)
        chunks = chunks_of(driven.journal).plateau()
        p50, p99 = np.quantile(chunks.late, [0.5, 0.99]) / 1e6
        say(f"{STREAMS} streams, spread {number + 1}/{plan.rounds}: lateness p50 {p50:.3f} ms, p99 {p99:.3f} ms; "
            f"server {driven.busy:.0%} busy {driven.machine()}")  # fmt: skip
        runs.append((float(p99), float(p50), driven, chunks))
    p99, p50, driven, chunks = min(runs, key=lambda run: run[0])
    what = f"{STREAMS:,} streams at {ITL_S * 1000:g} ms, phases spread"
    cost_us = driven.server_ns / 1000 / size_of(driven.journal).chunks
    beside = (f"{len(chunks.late):,} chunks, max {chunks.late.max() / 1e6:.2f} ms; server {driven.busy:.0%} of its "
              f"core, {cost_us:.1f} us a chunk in all")  # fmt: skip
    return [
        barred("spread", f"{what}: lateness p50", p50, P50_BAR, beside=beside, machine=driven.machine()),
        barred("spread", f"{what}: lateness p99", p99, P99_BAR, beside=_blocked(chunks), machine=driven.machine()),
        _size_row("size", "journal, constant pacing", driven, CONSTANT_BAR, plan.seed),
    ]


def _blocked(chunks: Chunks) -> str:
    return f"left out: {chunks.blocked} streams whose client did not read" if chunks.blocked else ""


def _in_phase(plan: Plan, say: Say, scenario: Scenario) -> list[Row]:
    what = f"{STREAMS:,} streams at {ITL_S * 1000:g} ms, in phase: lateness of a group over its size"
    runs = []
    for number in range(plan.rounds):
        driven = drive(plan, f"phase-{number}", scenario)
        found = at_once(chunks_of(driven.journal).plateau())
        if found is None:
            say(f"in phase {number + 1}/{plan.rounds}: no group of streams was due at once {driven.machine()}")
            continue
        say(f"in phase {number + 1}/{plan.rounds}: {found.median_us:.2f} us a stream, worst {found.worst_us:.2f} "
            f"{driven.machine()}")  # fmt: skip
        runs.append((found.worst_us, found, driven))
    if not runs:
        return [absent("phase", what, "requests were sent or stamped too unevenly: no group was due at once", PHASE_BAR,
                       broken=True)]  # fmt: skip
    floor = bare_send.measure(plan.cores, STREAMS)
    worst, found, driven = min(runs, key=lambda run: run[0])
    beside = (f"worst of {found.groups} groups, each due within {found.within_us:.0f} us; median "
              f"{found.median_us:.2f} us, worst k-th / k {found.worst_kth_us:.2f} us; server {driven.busy:.0%} of its "
              f"core; a bare `send` to each in turn: {floor.median_us:.2f} us, least {floor.least_us:.2f}")  # fmt: skip
    return [barred("phase", what, worst, PHASE_BAR, beside=beside, machine=driven.machine())]


def _short(plan: Plan, say: Say, scenario: Scenario) -> list[Row]:
    runs = []
    for number in range(plan.rounds):
        driven = drive(plan, f"short-{number}", scenario)
        latencies_ms = np.array([one.ended - one.sent for one in driven.exchanges]) / 1e6
        p50, p99 = np.quantile(latencies_ms, [0.5, 0.99])
        say(f"{SHORT_STREAMS} short streams {number + 1}/{plan.rounds}: latency p50 {p50:.3f} ms, p99 {p99:.3f} ms "
            f"{driven.machine()}")  # fmt: skip
        runs.append((abs(float(p50) - IDEAL_MS), float(p50), float(p99), driven))
    off, p50, p99, driven = min(runs, key=lambda run: run[0])
    what = (f"{SHORT_STREAMS} streams in a closed loop, TTFT {SHORT_TTFT_S * 1000:g} ms, ITL {SHORT_ITL_S * 1000:g} "
            f"ms, {SHORT_TOKENS} tokens: client's latency p50 off the ideal {IDEAL_MS:g}")  # fmt: skip
    beside = f"{len(driven.exchanges):,} replies: p50 {p50:.3f} ms, p99 {p99:.3f} ms"
    return [barred("short", what, off, LATENCY_BAR, beside=beside, machine=driven.machine())]


def _random(plan: Plan, say: Say) -> list[Row]:
    what = "journal, random pacing"
    try:
        driven = drive(plan, "random", long_streams(plan, RANDOM, ITL_S, spread(STREAMS, ITL_NS)))
    except NotThere as reason:
        return [absent("size", f"{what}: bytes a chunk", str(reason), RANDOM_BAR)]
    say(f"random pacing: {size_of(driven.journal).each:.2f} bytes a chunk {driven.machine()}")
    return [_size_row("size", what, driven, RANDOM_BAR, plan.seed)]


def _size_row(key: str, what: str, driven: Driven, bar: Bar, seed: int) -> Row:
    size, late = size_of(driven.journal), entropy_bytes(chunks_of(driven.journal).late, seed)
    gaps = entropy_bytes(gaps_of(driven.journal), seed)
    beside = (f"entropy of the lateness {late:.2f} bytes, of the planned gaps {gaps:.2f}; {size.chunks:,} chunks, "
              f"whole file {size.whole_file / size.chunks:.2f} bytes a chunk")  # fmt: skip
    return barred(key, f"{what}: bytes a chunk", size.each, bar, beside=beside, machine=driven.machine())
