"""Does each wrong kind change what its name says, nothing else, and refuse what it cannot be wrong about?"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest

from loadproof.arrival import Arrival
from loadproof.errors import UsageProblem
from loadproof.metronome.asked import Asked
from loadproof.metronome.open_loop import OpenLoop
from loadproof.metronome.plan import plan
from loadproof.metronome.stage import Offsets, Stage
from loadproof.metronome.wrong import WRONG_KINDS, go_wrong
from loadproof.tokenizer import bundled_counter

RATE = 40.0
URL = "http://127.0.0.1:1"


def asking(*stages: Stage, arrival: str = "constant", **changes: Any) -> Asked:
    order: dict[str, Any] = {"model": "m", "prompt_tokens": 33, "max_tokens": 4, "stages": stages}
    return Asked(arrival=Arrival.parse(arrival), **(order | changes))


CONSTANT = asking(Stage(rate_per_s=RATE, num_requests=200))
POISSON = asking(Stage(rate_per_s=RATE, num_requests=200), arrival="poisson")
CAPPED = asking(Stage(rate_per_s=RATE, num_requests=200, cap=6))
SLOTS = asking(Stage(concurrency=6, num_requests=200))
CHAT = asking(Stage(concurrency=6, num_requests=200), api="chat")
STAGES = asking(Stage(rate_per_s=RATE, duration_s=2.5, gap_s=0.5), Stage(concurrency=4, num_requests=100))
ORDERS = (CONSTANT, POISSON, CAPPED, SLOTS, CHAT, STAGES)


def offsets(asked: Asked) -> Offsets:
    [(stage, _)] = plan(asked, URL).stages
    assert isinstance(stage, OpenLoop)
    return stage.offsets_s


def sent(asked: Asked, count: int = 200) -> list[bytes]:
    return list(islice(plan(asked, URL).requests, count))


def bodies(asked: Asked, count: int = 200) -> list[dict[str, Any]]:
    return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in sent(asked, count)]


def shape(asked: Asked) -> str:
    """All that a plan does, as text."""
    to_do = plan(asked, URL)
    stages = [
        (stage.offsets_s.tolist(), stage.length_s, stage.cap, gap) if isinstance(stage, OpenLoop) else (stage, gap)
        for stage, gap in to_do.stages
    ]
    return repr((stages, to_do.before, to_do.reuse, to_do.streamed, list(islice(to_do.requests, 200))))


@pytest.mark.parametrize("kind", WRONG_KINDS)
def test_each_kind_changes_what_is_done_for_every_order_that_it_fits(kind: str) -> None:
    fitting = [asked for asked in ORDERS if WRONG_KINDS[kind].fits(asked)]
    assert fitting
    for asked in fitting:
        assert shape(go_wrong(asked, [])) == shape(asked)
        assert shape(go_wrong(asked, [kind])) != shape(asked)


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("concurrency+1", CONSTANT),
        ("concurrency-1", asking(Stage(concurrency=1, num_requests=9))),
        ("waves", asking(Stage(concurrency=1, num_requests=9))),
        ("rate-10%", SLOTS),
        ("trend", SLOTS),
        ("closed-loop-instead", SLOTS),
        ("exponential-gaps", POISSON),
        ("exponential-gaps", SLOTS),
        ("even-gaps", CONSTANT),
        ("burstier-gaps", CONSTANT),
        ("few-connections", CAPPED),
        ("cap+1", CONSTANT),
        ("no-cap", SLOTS),
        ("duplicate", asking(Stage(concurrency=1, num_requests=1))),
        ("duplicate", asking(Stage(concurrency=1, duration_s=1))),
        ("repeat-prompts", asking(Stage(concurrency=1, duration_s=1))),
        ("drop-last", asking(Stage(concurrency=1, num_requests=1))),
        ("drop-last-3", asking(Stage(concurrency=1, num_requests=3))),
        ("drop-last", asking(Stage(concurrency=1, duration_s=1))),
        ("max-tokens-1", dataclasses.replace(CONSTANT, max_tokens=1)),
        ("some-max-tokens-1", dataclasses.replace(CONSTANT, max_tokens=1)),
        ("prompt-1", dataclasses.replace(CONSTANT, prompt_tokens=2)),
        ("shared-prefix", dataclasses.replace(CONSTANT, prompt_tokens=31)),
        ("no-ignore-eos", dataclasses.replace(CONSTANT, ignore_eos=False)),
        ("no-stream", dataclasses.replace(CONSTANT, stream=False)),
        ("stages-swapped", CONSTANT),
        ("stage-left-out", CONSTANT),
        ("no-gap", CONSTANT),
    ],
)
def test_a_kind_that_does_not_fit_is_refused(kind: str, asked: Asked) -> None:
    with pytest.raises(UsageProblem, match="--wrong") as caught:
        go_wrong(asked, [kind])
    assert WRONG_KINDS[kind].needs in str(caught.value)


def test_kinds_add_up() -> None:
    both = go_wrong(CONSTANT, ["drop-last", "max-tokens-1", "ticks"])
    assert both.max_tokens == 3
    assert len(offsets(both)) == 199
    assert np.allclose(offsets(both) * 100, np.rint(offsets(both) * 100))


# --- when -----------------------------------------------------------------------------------------------------------

HONEST = {"constant": offsets(CONSTANT), "poisson": offsets(POISSON)}
SEEN: dict[str, Callable[[Offsets, Offsets], object]] = {
    "rate-10%": lambda wrong, right: wrong == pytest.approx(right / 0.9),
    "rate+10%": lambda wrong, right: wrong == pytest.approx(right / 1.1),
    "relative-sleeps": lambda wrong, right: np.diff(wrong) == pytest.approx(np.diff(right) + 0.001),
    "groups-of-10": lambda wrong, right: (
        set(np.unique(wrong, return_counts=True)[1].tolist()) == {10} and np.isin(wrong, right).all()
    ),
    "pairs": lambda wrong, right: (
        set(np.unique(wrong, return_counts=True)[1].tolist()) == {2} and wrong[-1] == pytest.approx(right[-1])
    ),
    "ticks": lambda wrong, right: (np.abs((wrong * 100 + 0.5) % 1 - 0.5) < 1e-6).all() and (wrong - right < 0.01).all(),
    "burst-start": lambda wrong, right: (
        np.count_nonzero(wrong == 0) == np.count_nonzero(right < 1) and (wrong[wrong > 0] == right[right >= 1]).all()
    ),
    "burst-end": lambda wrong, right: (
        np.count_nonzero(wrong == wrong[-1]) > 20 and wrong[-1] == right[-1] - 1 and (wrong <= right).all()
    ),
    "stall": lambda wrong, right: set((wrong - right).round(9).tolist()) == {0, 2},
    "stall-and-catch-up": lambda wrong, right: np.diff(wrong).max() >= 2 and wrong[-1] == right[-1],
    "second-edge": lambda wrong, right: (
        np.count_nonzero(wrong != right) >= 4 and (wrong[wrong != right] % 1 == 0).all() and (wrong - right < 1).all()
    ),
    "trend": lambda wrong, right: (
        0.7 * wrong / wrong[-1] + 0.3 * (wrong / wrong[-1]) ** 2 == pytest.approx(right / right[-1], abs=1e-9)
    ),
    "step": lambda wrong, right: (
        wrong[-1] == right[-1] and np.mean(np.diff(wrong[:80])) > 1.4 * np.mean(np.diff(wrong[-60:]))
    ),
    "sorted-gaps": lambda wrong, right: (
        np.count_nonzero(np.diff(wrong, n=2) >= 0) > 150 and wrong[-1] == pytest.approx(right[-1])
    ),
    "alternating": lambda wrong, right: (
        (wrong[::2] == right[::2]).all() and np.diff(wrong)[::2] == pytest.approx(np.diff(right)[::2] / 5)
    ),
    "drop-last-3": lambda wrong, right: wrong.tolist() == right[:-3].tolist(),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "law"),
    [(kind, law) for kind in SEEN for law in HONEST if (kind, law) != ("sorted-gaps", "constant")],  # it has no order
)
def test_a_schedule_is_wrong_as_its_name_says(kind: str, law: str) -> None:
    asked = {"constant": CONSTANT, "poisson": POISSON}[law]
    wrong = offsets(go_wrong(asked, [kind]))
    assert (np.diff(wrong) >= 0).all()
    assert SEEN[kind](wrong, HONEST[law])
    assert not SEEN[kind](HONEST[law], HONEST[law])


def test_spacings_are_replaced() -> None:
    assert offsets(go_wrong(POISSON, ["even-gaps"])).tolist() == HONEST["constant"].tolist()
    fixed = offsets(go_wrong(CONSTANT, ["exponential-gaps"]))
    assert fixed[-1] == 200 / RATE
    assert np.std(np.diff(fixed)) > 0.7 / RATE
    assert str(go_wrong(POISSON, ["burstier-gaps"]).arrival) == "gamma(0.25)"
    spanned = dataclasses.replace(POISSON, arrival=Arrival.parse("fixed-span"))
    assert str(go_wrong(spanned, ["burstier-gaps"]).arrival) == "fixed-span(0.25)"


def test_loops_and_stages_are_replaced() -> None:
    [closed] = go_wrong(CONSTANT, ["closed-loop-instead"]).stages
    assert closed == Stage(concurrency=4, num_requests=200)
    assert [stage.cap for stage in go_wrong(CONSTANT, ["few-connections"]).stages] == [4]
    assert [stage.cap for stage in go_wrong(CAPPED, ["cap+1"]).stages] == [7]
    assert [stage.cap for stage in go_wrong(CAPPED, ["no-cap"]).stages] == [None]
    assert [stage.concurrency for stage in go_wrong(STAGES, ["concurrency+1"]).stages] == [None, 5]
    first, second = STAGES.stages
    assert go_wrong(STAGES, ["stages-swapped"]).stages == (second, first)
    assert go_wrong(STAGES, ["stage-left-out"]).stages == (first,)
    assert go_wrong(STAGES, ["stage-short"]).stages == (first, dataclasses.replace(second, num_requests=90))
    assert [stage.gap_s for stage in go_wrong(STAGES, ["no-gap"]).stages] == [0, 0]
    shorter = go_wrong(asking(first), ["stage-short"]).stages[0]
    assert shorter.duration_s == pytest.approx(2.25)


# --- what -----------------------------------------------------------------------------------------------------------


def words(body: dict[str, Any]) -> str:
    text = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
    assert isinstance(text, str)
    return text


def changed_places(wrong: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[int]:
    return [k for k, (one, other) in enumerate(zip(wrong, right, strict=True)) if one != other]


@pytest.mark.parametrize("asked", [SLOTS, CHAT])
@pytest.mark.parametrize(
    ("kind", "places"),
    [
        ("some-max-tokens-1", [49, 99, 149, 199]),
        ("some-no-ignore-eos", [49, 99, 149, 199]),
        ("some-prompt+1", [49, 99, 149, 199]),
        ("some-extra-field", list(range(2, 200, 3))),
        ("extra-field", list(range(200))),
        ("shared-prefix", list(range(200))),
        ("duplicate", [100]),
    ],
)
def test_a_content_is_wrong_where_it_says(kind: str, places: list[int], asked: Asked) -> None:
    assert changed_places(bodies(go_wrong(asked, [kind])), bodies(asked)) == places


@pytest.mark.parametrize("asked", [SLOTS, CHAT])
def test_a_shared_prefix_has_100_bytes_and_keeps_the_number_of_words(asked: Asked) -> None:
    texts = [words(body) for body in bodies(go_wrong(asked, ["shared-prefix"]))]
    assert len({text[:100] for text in texts}) == 1
    assert len(set(texts)) == 200
    assert {len(text.split()) for text in texts} == {32}
    assert len({words(body)[:100] for body in bodies(asked)}) == 200


def test_repeated_prompts_come_in_other_bytes() -> None:
    requests = sent(go_wrong(SLOTS, ["repeat-prompts"]))
    texts = [words(body) for body in bodies(go_wrong(SLOTS, ["repeat-prompts"]))]
    assert texts[:100] == texts[100:]
    assert len({request.partition(b"\r\n\r\n")[2] for request in requests}) == 200


def test_a_duplicate_keeps_the_total_and_loses_its_neighbour() -> None:
    seen, honest = bodies(go_wrong(SLOTS, ["duplicate"])), bodies(SLOTS)
    assert seen[100] == seen[99] == honest[99]
    assert honest[100] not in seen


def test_a_stray_request_and_a_warm_up_come_before_the_load() -> None:
    for kind, path in (("stray", b"POST /v1/embeddings "), ("warm-up", b"POST /v1/completions ")):
        to_do = plan(go_wrong(SLOTS, [kind]), URL)
        assert to_do.before is not None
        assert to_do.before.startswith(path)
        assert list(islice(to_do.requests, 200)) == sent(SLOTS)


def test_heads_and_paths() -> None:
    assert all(b"\r\nContent-Type: application/json\r\n" in request for request in sent(SLOTS))
    assert not any(b"Content-Type" in request for request in sent(go_wrong(SLOTS, ["no-content-type"])))
    assert all(r.startswith(b"POST /v1/chat/completions ") for r in sent(go_wrong(SLOTS, ["other-api"])))
    assert all(r.startswith(b"POST /v1/completions ") for r in sent(go_wrong(CHAT, ["other-api"])))


@pytest.mark.parametrize(
    ("kind", "tokens"), [("prompt+1", {33}), ("prompt-1", {31}), ("some-prompt+1", {32, 33}), ("shared-prefix", {32})]
)
def test_prompts_are_as_many_tokens_as_their_words(kind: str, tokens: set[int]) -> None:
    texts = [words(body) for body in bodies(go_wrong(SLOTS, [kind]))]
    assert set(bundled_counter().bare(texts)) == tokens
