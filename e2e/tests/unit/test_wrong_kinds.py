"""Does each kind of wrong client fail its checks and no other, and does its honest twin pass them?"""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from loadproof.verdict import Finding, Outcome
from tests.unit import forge
from tests.unit.forge_client import honest
from tests.unit.wrong_kind import Kind
from tests.unit.wrong_kinds import KINDS

SEEDS = 3


def rng_of(kind: Kind, seed: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(kind.name.encode()), seed])


def failed(found: dict[str, Finding]) -> set[str]:
    return {name for name, finding in found.items() if finding.outcome is Outcome.FAIL}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_wrong_client_fails_its_checks_and_no_other(kind: Kind) -> None:
    asked = kind.ask(kind.n)
    for seed in range(SEEDS):
        found = forge.ask(asked, kind.wrong(asked, rng_of(kind, seed)), tool_ended_s=kind.ended_s)
        fails = failed(found)
        assert kind.fails <= fails, {name: found.get(name) for name in kind.fails - fails}
        assert kind.unexpected(fails) == set(), [found[name] for name in kind.unexpected(fails)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_its_honest_twin_fails_nothing(kind: Kind) -> None:
    asked = kind.ask(kind.n)
    for seed in range(SEEDS):
        found = forge.ask(asked, honest(asked, rng_of(kind, seed)), tool_ended_s=kind.ended_s)
        assert failed(found) == set(), [found[name] for name in failed(found)]
        silent = {name for name in kind.fails if found[name].outcome is not Outcome.PASS}
        assert silent == set(), [found[name] for name in silent]
