"""All kinds of wrong clients, in one list: a new one is a row in one of the four tables."""

from __future__ import annotations

from tests.unit import wrong_arrivals, wrong_loops, wrong_requests, wrong_stages
from tests.unit.wrong_kind import Kind

KINDS: tuple[Kind, ...] = (
    *wrong_arrivals.KINDS,
    *wrong_loops.KINDS,
    *wrong_requests.KINDS,
    *wrong_stages.KINDS,
)
BY_NAME = {kind.name: kind for kind in KINDS}
assert len(BY_NAME) == len(KINDS), "two kinds of one name"
