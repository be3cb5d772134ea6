"""Is a fault that somebody thought of without knowing the checks noticed in its room, and its honest twin nowhere?"""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from loadproof.case import Case
from loadproof.verdict import Finding, Outcome
from tests.unit import forge
from tests.unit.wrong_blind import KINDS, Blind
from tests.unit.wrong_kind import Wrong

SEEDS = 3


def failures(kind: Blind, asked: Case, client: Wrong, seed: int) -> dict[str, Finding]:
    rng = np.random.default_rng([zlib.crc32(kind.name.encode()), seed])
    found = forge.ask(asked, client(asked, rng))
    return {name: finding for name, finding in found.items() if finding.outcome in {Outcome.FAIL, Outcome.BROKEN}}


def row(kind: Blind) -> object:
    # strict: a fault that is noticed after all has to lose its excuse
    marks = [pytest.mark.xfail(reason=kind.missed, raises=AssertionError, strict=True)] if kind.missed else []
    return pytest.param(kind, id=kind.name, marks=marks)


@pytest.mark.parametrize("kind", [row(kind) for kind in KINDS])
def test_a_fault_is_noticed_in_its_room(kind: Blind) -> None:
    asked = kind.ask(kind.n)
    for seed in range(SEEDS):
        failed = failures(kind, asked, kind.wrong, seed)
        assert all(finding.outcome is Outcome.FAIL for finding in failed.values()), failed
        assert {name.split(".")[0] for name in failed} & kind.rooms, failed


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_its_honest_twin_fails_nothing(kind: Blind) -> None:
    asked = kind.ask(kind.n)
    for seed in range(SEEDS):
        assert failures(kind, asked, kind.twin, seed) == {}
