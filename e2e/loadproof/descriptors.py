"""Does the system let us have as many connections open at once as a case asks for?

The absorber takes the hard limit for itself, and each request in flight is a descriptor of its own there. An open
loop has rate x latency in flight (Little's law), at most its cap; where the server has fewer slots than that, requests
pile up until the last is sent.
"""

from __future__ import annotations

import math
import resource

from loadproof.case import Case
from loadproof.errors import UsageProblem
from loadproof.expected import ConcurrencyLoad, RateLoad

OF_OUR_OWN = 64  # the absorber's files, logs and timers


def require_descriptors(case: Case) -> None:
    """Raise UsageProblem when the hard limit is too low for the requests in flight that the case asks for."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    asked = in_flight(case)
    if hard not in {resource.RLIM_INFINITY, -1} and asked + OF_OUR_OWN > hard:
        raise UsageProblem(
            f"{case.folder}: asks for {asked} requests in flight at once, and a process may have {hard} open files "
            f"here (hard limit, `ulimit -Hn`); it takes {asked + OF_OUR_OWN}. Raise it, as root, with `ulimit -Hn "
            f"{asked + OF_OUR_OWN}` or `nofile` in /etc/security/limits.conf (docker: --ulimit nofile=...)"
        )


def in_flight(case: Case) -> int:
    """Return the most requests that the case asks to have in flight at once."""
    load = case.expected.load
    if isinstance(load, ConcurrencyLoad):
        return load.concurrency
    if isinstance(load, RateLoad):
        return min(load.cap or 1_000_000_000, _by_a_clock(case, load.rate, (case.span_s or 0) * load.rate))
    most, left = 0, 0.0
    for stage in load.stages:
        if stage.concurrency:
            most, left = max(most, stage.concurrency), 0.0
        else:
            most = max(most, _by_a_clock(case, stage.rate or 0, stage.n or 0, left))
            left = max(0.0, left + _piled_up(case, stage.rate or 0, stage.n or 0))
    return most


def _by_a_clock(case: Case, rate: float, n: float, left: float = 0.0) -> int:
    """Return the most in flight of `n` requests at `rate` a second, and of those that an earlier stage left."""
    usual, slots = rate * case.service_s, case.expected.absorber.slots
    if not slots or (usual <= slots and not left):
        return math.ceil(usual)
    return math.ceil(min(left + n, left + max(0.0, _piled_up(case, rate, n)) + slots))


def _piled_up(case: Case, rate: float, n: float) -> float:
    """Return how many more arrive than are served meanwhile, which is slots / service a second; below 0: fewer."""
    usual, slots = rate * case.service_s, case.expected.absorber.slots
    return n * (1 - slots / usual) if slots and usual else 0.0
