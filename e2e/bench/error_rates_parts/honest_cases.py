"""Which cases does the honest client of the whole runs get? Every law, stage form and loop that a case can ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loadproof.case import Case
from tests.unit import forge

LAWS = ("constant", "poisson", "fixed-span", "fixed-span(4)", "gamma(0.5)", "gamma(4)")
type Numbers = dict[str, float]

UNEVEN: dict[str, object] = {"ttft_s": {"law": "lognormal", "median": 0.1, "sigma": 0.7}}


@dataclass(frozen=True)
class Form:
    """A case, and whether the client waits for all replies between its stages."""

    name: str
    asked: Case
    drains: bool = False


def _rates() -> list[Form]:
    sizes = ((5, 200), (20, 240), (40, 600), (200, 3000), (1000, 10_500))
    found = [Form(f"{law} {rate}/s", forge.rate_case(n, rate, law)) for law in LAWS for rate, n in sizes]
    return found + [
        Form(f"{law} for a duration", forge.case({"mode": "rate", "rate": 40}, arrival=law,
                                                 workload={"num_requests": None, "duration_s": 12}))
        for law in LAWS
    ]  # fmt: skip


def _staged(name: str, stages: Sequence[Numbers], *, arrival: str | None = None, drains: bool = False) -> Form:
    asked = {"mode": "stages", "stages": list(stages)}
    counted = all("num_requests" in stage for stage in stages)
    workload: dict[str, object] = {"num_requests": None, "duration_s": None}
    if counted or (arrival in {"constant", "fixed-span", "fixed-span(4)"} and all("rate" in s for s in stages)):
        workload["num_requests"] = sum(s.get("num_requests") or round(s["rate"] * s["duration_s"]) for s in stages)
    else:
        workload["duration_s"] = sum(s.get("duration_s", 10) + s.get("gap_s", 0) for s in stages)
    declared: dict[str, Any] = {} if arrival is None else {"arrival": arrival}
    return Form(name, forge.case(asked, workload=workload, absorber=UNEVEN, **declared), drains)


def _stages() -> list[Form]:
    by_time: list[Numbers] = [{"rate": 20, "duration_s": 12, "gap_s": 1}, {"rate": 40, "duration_s": 12}]
    by_number: list[Numbers] = [{"rate": 20, "num_requests": 240}, {"rate": 40, "num_requests": 480}]
    return [
        *(_staged(f"{law} stages", by_time, arrival=law) for law in LAWS),
        *(_staged(f"{law} stages, drained", by_time, arrival=law, drains=True) for law in LAWS),
        *(_staged(f"{law} stages by number", by_number, arrival=law) for law in LAWS),
        *(_staged(f"{law} stages by number, drained", by_number, arrival=law, drains=True) for law in LAWS),
        *(_staged(f"{law} stages without a gap", [by_time[0] | {"gap_s": 0}, by_time[1]], arrival=law) for law in LAWS),
        *(
            _staged(
                f"{law} stages, slower and slower", [by_time[1] | {"gap_s": 2}, by_time[0] | {"gap_s": 0}], arrival=law
            )
            for law in LAWS
        ),
        _staged("three poisson stages", [*by_time, {"rate": 80, "duration_s": 8}], arrival="poisson"),
    ]


def _loops() -> list[Form]:
    sizes = ((1, 60), (8, 240), (32, 800), (128, 1600))
    up: list[Numbers] = [{"concurrency": 4, "num_requests": 100, "gap_s": 1}, {"concurrency": 8, "num_requests": 200}]
    return [
        *(Form(f"loop of {slots}", forge.closed_case(n, slots)) for slots, n in sizes),
        *(Form(f"loop of {slots}, uneven replies",
               forge.case({"mode": "concurrency", "concurrency": slots}, workload={"num_requests": n}, absorber=UNEVEN))
          for slots, n in sizes),
        Form("loop for a duration", forge.case({"mode": "concurrency", "concurrency": 8}, absorber=UNEVEN,
                                               workload={"num_requests": None, "duration_s": 10})),
        _staged("stages of loops without a gap, down", [up[1], up[0] | {"gap_s": 0}]),
        _staged("a loop, then a rate", [up[1] | {"gap_s": 1}, {"rate": 20, "duration_s": 12}], arrival="poisson"),
        _staged("stages of loops", up), _staged("stages of loops, down", [up[1] | {"gap_s": 0.5}, up[0]]),
        _staged("a rate, then a loop", [{"rate": 20, "duration_s": 12, "gap_s": 1}, up[1]], arrival="constant"),
    ]  # fmt: skip


def _others() -> list[Form]:
    capped: dict[str, object] = {"mode": "rate", "rate": 40, "cap": 40}
    per_request: dict[str, Any] = {"arrival": "poisson", "connections": "per_request"}
    return [
        Form("cap that is not reached", forge.case(capped, arrival="poisson", workload={"num_requests": 600})),
        Form("a connection per request", forge.case({"mode": "rate", "rate": 40}, workload={"num_requests": 600},
                                                    **per_request)),
    ]  # fmt: skip


def forms() -> list[Form]:
    """Return all forms."""
    return [*_rates(), *_stages(), *_loops(), *_others()]
