"""Do draws follow their laws, and do they depend on the request alone?"""

from __future__ import annotations

import hashlib
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import loadproof
from loadproof.absorber.draws import Stream, key_of, uniform, uniforms
from loadproof.absorber.laws import Floats
from loadproof.absorber.plan import plan_reply
from loadproof.absorber.profile import Profile

SEED, N, LEVEL = 20240611, 100_000, 1e-6
NORMAL = {"law": "normal", "mean": 0.1, "std": 0.07}
LOGNORMAL = {"law": "lognormal", "median": 0.02, "sigma": 0.5}
GAMMA = {"law": "gamma", "mean": 0.05, "shape": 2.0}
VALUES = [0.3, 0.1, 0.2, 0.1, 5.0]
EMPIRICAL: dict[str, Any] = {"law": "empirical", "values": VALUES}

type Ints = NDArray[np.int64]
type Cdf = Callable[[Any], Any]


def truncated(mean: float, std: float) -> Cdf:
    return stats.truncnorm(-mean / std, np.inf, loc=mean, scale=std).cdf


def lognormal(median: float, sigma: float) -> Cdf:
    return stats.lognorm(sigma, scale=median).cdf


def gamma(mean: float, shape: float) -> Cdf:
    return stats.gamma(shape, scale=mean / shape).cdf


def fits(sample: Floats, cdf: Cdf) -> bool:
    return bool(stats.kstest(sample, cdf).pvalue > LEVEL)


def digest_of(number: int) -> bytes:
    return hashlib.sha256(f"body {number} of {SEED}".encode()).digest()[:16]


def first_s(law: dict[str, Any]) -> Floats:
    """TTFT of N requests with bodies of their own."""
    profile = Profile.model_validate({"ttft_s": law, "seed": SEED})
    plans = (plan_reply(profile, max_tokens=1, min_tokens=0, ignore_eos=True, digest=digest_of(i)) for i in range(N))
    return np.array([plan.first_ns for plan in plans]) / 1e9


def gaps_s(law: dict[str, Any]) -> Floats:
    """All gaps of one reply of N + 1 tokens."""
    profile = Profile.model_validate({"itl_s": law, "seed": SEED})
    plan = plan_reply(profile, max_tokens=N + 1, min_tokens=0, ignore_eos=True, digest=digest_of(0))
    return np.diff([plan.due_ns(i) for i in range(N + 1)]) / 1e9


LAWS: dict[str, tuple[dict[str, Any], Cdf, list[Cdf]]] = {
    "normal": (NORMAL, truncated(0.1, 0.07), [truncated(0.102, 0.07), truncated(0.1, 0.073),
                                              stats.norm(0.1, 0.07).cdf]),
    "lognormal": (LOGNORMAL, lognormal(0.02, 0.5), [lognormal(0.0205, 0.5), lognormal(0.02, 0.53)]),
    "gamma": (GAMMA, gamma(0.05, 2), [gamma(0.0515, 2), gamma(0.05, 2.2)]),
    "half normal": ({"law": "normal", "mean": 1e-6, "std": 0.1}, stats.halfnorm(scale=0.1).cdf,
                    [stats.halfnorm(scale=0.103).cdf]),
    "exponential": ({"law": "gamma", "mean": 0.05, "shape": 1.0}, stats.expon(scale=0.05).cdf,
                    [stats.expon(scale=0.052).cdf]),
}  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
def test_gaps_follow_their_law_and_no_near_one(name: str) -> None:
    law, right, wrong = LAWS[name]
    sample = gaps_s(law)
    assert len(sample) == N
    assert fits(sample, right)
    assert [fits(sample, cdf) for cdf in wrong] == [False] * len(wrong)


@pytest.mark.parametrize("name", ["normal", "lognormal", "gamma"])
def test_first_tokens_follow_their_law_and_no_near_one(name: str) -> None:
    law, right, wrong = LAWS[name]
    sample = first_s(law)
    assert fits(sample, right)
    assert [fits(sample, cdf) for cdf in wrong] == [False] * len(wrong)


@pytest.mark.parametrize("sample_of", [first_s, gaps_s])
def test_listed_values_come_as_often_as_they_are_listed(sample_of: Callable[[dict[str, Any]], Floats]) -> None:
    values, counts = np.unique(sample_of(EMPIRICAL), return_counts=True)
    assert values.tolist() == [0.1, 0.2, 0.3, 5.0]
    assert stats.chisquare(counts, N * np.array([0.4, 0.2, 0.2, 0.2])).pvalue > LEVEL
    assert stats.chisquare(counts, N * np.array([0.41, 0.2, 0.2, 0.19])).pvalue < LEVEL


def lengths(law: dict[str, Any]) -> Ints:
    profile = Profile.model_validate({"output_tokens": law, "seed": SEED})
    plans = (plan_reply(profile, max_tokens=None, min_tokens=0, ignore_eos=False, digest=digest_of(i))
             for i in range(N))  # fmt: skip
    return np.array([plan.tokens for plan in plans], dtype=np.int64)


def whole_fits(sample: Ints, cdf: Cdf, *, rounding: float = 0.5) -> bool:
    """Chi-squared over whole lengths: k covers what rounds to it, 1 also what lies below, the last what lies above."""
    top = int(np.quantile(sample, 0.99))
    observed = np.bincount(np.minimum(sample, top))[1:]
    below = np.concatenate([[0.0], cdf(np.arange(1, top) + rounding), [1.0]])
    return bool(stats.chisquare(observed, N * np.diff(below)).pvalue > LEVEL)


@pytest.mark.parametrize(
    ("law", "right", "wrong"),
    [
        ({"law": "normal", "mean": 12, "std": 6}, truncated(12, 6), truncated(12.3, 6)),
        ({"law": "lognormal", "median": 16, "sigma": 0.6}, lognormal(16, 0.6), lognormal(16.4, 0.6)),
        ({"law": "gamma", "mean": 10, "shape": 3}, gamma(10, 3), gamma(10, 3.2)),
    ],
    ids=["normal", "lognormal", "gamma"],
)
def test_lengths_follow_their_law_rounded(law: dict[str, Any], right: Cdf, wrong: Cdf) -> None:
    sample = lengths(law)
    assert sample.min() == 1
    assert whole_fits(sample, right)
    assert not whole_fits(sample, wrong)
    assert not whole_fits(sample, right, rounding=1.0)


def test_listed_lengths_are_those_and_no_others() -> None:
    values, counts = np.unique(lengths({"law": "empirical", "values": [7, 3, 3]}), return_counts=True)
    assert values.tolist() == [3, 7]
    assert stats.chisquare(counts, [N * 2 / 3, N / 3]).pvalue > LEVEL


def test_uniform_numbers_are_the_words_of_shake_128() -> None:
    key = struct.pack("<QQI", 5, 3, 1) + digest_of(0)
    assert key_of(5, digest_of(0), occurrence=3, choice=1) == key
    stream = hashlib.shake_128(struct.pack("<BI", 1, 2) + key).digest(8 * 50)
    by_hand = [((int.from_bytes(stream[i : i + 8], "little") >> 12) + 0.5) / 2**52 for i in range(0, 400, 8)]
    assert uniforms(key, Stream.GAPS, 50, block=2).tolist() == by_hand
    assert uniforms(key, Stream.GAPS, 7, block=2).tolist() == by_hand[:7]
    assert all(uniform(key, stream) == uniforms(key, stream, 1)[0] for stream in Stream)
    assert min(by_hand) > 0
    assert max(by_hand) < 1


@pytest.mark.parametrize(("word", "expected"), [(b"\0" * 8, 2.0**-53), (b"\xff" * 8, 1 - 2.0**-53)])
def test_uniform_numbers_reach_neither_0_nor_1(word: bytes, expected: float, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed:
        def digest(self, size: int) -> bytes:
            return (word * size)[:size]

    monkeypatch.setattr("loadproof.absorber.draws.shake_128", lambda _: Fixed())
    assert uniforms(b"", Stream.GAPS, 2).tolist() == [expected] * 2
    assert uniform(b"", Stream.GAPS) == expected


def test_uniform_numbers_of_requests_and_streams_are_independent() -> None:
    keys = [key_of(SEED, digest_of(i), 0, 0) for i in range(N)]
    columns = np.array([[uniform(key, stream) for stream in Stream] for key in keys]).T
    assert all(stats.kstest(column, "uniform").pvalue > LEVEL for column in columns)
    neighbours = [np.corrcoef(column[1:], column[:-1])[0, 1] for column in columns]
    between = np.corrcoef(columns)[np.triu_indices(len(Stream), 1)]
    bound = stats.norm.isf(LEVEL / 2) / np.sqrt(N)
    assert np.abs([*neighbours, *between]).max() < bound
    leaking = 0.98 * columns[0] + 0.02 * columns[1]
    assert abs(np.corrcoef(leaking, columns[1])[0, 1]) > bound


EVERYTHING = {
    "ttft_s": LOGNORMAL,
    "itl_s": GAMMA,
    "output_tokens": {"law": "lognormal", "median": 40, "sigma": 0.6},
    "seed": SEED,
}


def drawn(profile: Profile, digest: bytes, occurrence: int = 0, choice: int = 0) -> tuple[int, ...]:
    plan = plan_reply(
        profile, max_tokens=None, min_tokens=0, ignore_eos=False, digest=digest, occurrence=occurrence, choice=choice
    )
    return (plan.tokens, *(plan.due_ns(i) for i in range(plan.tokens)))


def test_order_and_concurrency_change_no_draw() -> None:
    """Many replies under way, each asked for its next token whenever it is its turn, as on the event loop."""
    profile = Profile.model_validate(EVERYTHING)
    requests = [(digest_of(body), occurrence) for body in range(40) for occurrence in range(5)]
    alone = {request: drawn(profile, *request) for request in requests}
    assert len(set(alone.values())) == len(requests)
    chance = random.Random(SEED)
    chance.shuffle(requests)
    plans = {
        (digest, occurrence): plan_reply(
            profile, max_tokens=None, min_tokens=0, ignore_eos=False, digest=digest, occurrence=occurrence
        )
        for digest, occurrence in requests
    }
    together: dict[tuple[bytes, int], list[int]] = {request: [plan.tokens] for request, plan in plans.items()}
    turns = [request for request, plan in plans.items() for _ in range(plan.tokens)]
    chance.shuffle(turns)
    for request in turns:
        together[request].append(plans[request].due_ns(len(together[request]) - 1))
    assert {request: tuple(seen) for request, seen in together.items()} == alone


def test_every_part_of_the_key_matters() -> None:
    profile, digest = Profile.model_validate(EVERYTHING), digest_of(0)
    other_seed = Profile.model_validate({**EVERYTHING, "seed": SEED + 1})
    seen = [drawn(profile, digest), drawn(other_seed, digest), drawn(profile, digest_of(1)), drawn(profile, digest, 1),
            drawn(profile, digest, 0, 1), drawn(profile, digest, 1, 1)]  # fmt: skip
    for part in (0, 1, 2):  # length, first token, second token
        assert len({one[part] for one in seen}) >= len(seen) - (part == 0)  # two lengths may well be equal
    assert drawn(profile, digest) == seen[0]


def test_a_law_added_changes_no_other_draw() -> None:
    whole = Profile.model_validate(EVERYTHING)
    for body in range(50):
        tokens, first, *later = drawn(whole, digest_of(body))
        for constant in ("ttft_s", "itl_s", "output_tokens"):
            part = Profile.model_validate({**EVERYTHING, constant: 16 if constant == "output_tokens" else 0.0})
            part_tokens, part_first, *part_later = drawn(part, digest_of(body))
            assert constant == "output_tokens" or part_tokens == tokens
            assert constant == "ttft_s" or part_first == first
            shorter = min(len(later), len(part_later))
            gaps, part_gaps = [due - first for due in later], [due - part_first for due in part_later]
            assert constant == "itl_s" or part_gaps[:shorter] == gaps[:shorter]


PROGRAM = """
import sys
from loadproof.absorber.laws import Floats
from loadproof.absorber.plan import plan_reply
from loadproof.absorber.profile import Profile
profile = Profile.model_validate_json(sys.argv[1])
for digest in sys.argv[2:]:
    plan = plan_reply(profile, max_tokens=None, min_tokens=0, ignore_eos=False, digest=bytes.fromhex(digest))
    print(plan.tokens, *(plan.due_ns(i) for i in range(plan.tokens)))
"""


LOADING = """
import sys
from loadproof.absorber.plan import plan_reply
from loadproof.absorber.profile import Profile
plan_reply(Profile(ttft_s=0.1), max_tokens=4, min_tokens=0, ignore_eos=True)
print("scipy.special" in sys.modules)
Profile.model_validate_json(sys.argv[1])
print("scipy.special" in sys.modules)
"""


def test_what_draws_is_loaded_with_the_profile_and_not_for_constants() -> None:
    environment = {"PYTHONPATH": str(Path(loadproof.__file__).parent.parent)}
    argv = [sys.executable, "-c", LOADING, Profile.model_validate(EVERYTHING).model_dump_json()]
    told = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout
    assert told.split() == ["False", "True"]


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_another_process_draws_the_same(hash_seed: str) -> None:
    profile, bodies = Profile.model_validate(EVERYTHING), [digest_of(i) for i in range(20)]
    argv = [sys.executable, "-c", PROGRAM, profile.model_dump_json(), *(digest.hex() for digest in reversed(bodies))]
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(loadproof.__file__).parent.parent)}
    told = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout
    assert [tuple(map(int, line.split())) for line in told.splitlines()[::-1]] == [drawn(profile, d) for d in bodies]
