"""In which known ways can the reference sender be wrong, and to what do they fit?

A literal table: each kind changes exactly one thing of what was asked, and says to which orders it can
be applied. Which check has to notice is the tests' business. `wrong_times` and `wrong_bodies` have what the kinds of a
schedule and of a content do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from loadproof.arrival import Arrival, Law
from loadproof.errors import UsageProblem
from loadproof.metronome import wrong_bodies as content
from loadproof.metronome import wrong_times as times
from loadproof.metronome.asked import PATHS, Asked, Body
from loadproof.metronome.stage import Reschedule, Slots, Stage

type Change = Callable[[Asked], Asked]
type Fits = Callable[[Asked], bool]


@dataclass(frozen=True)
class Wrong:
    """One way of being wrong: what it needs (in words and as a test) and what it changes."""

    needs: str
    fits: Fits
    change: Change


def _set(**fields: Any) -> Change:
    return lambda asked: replace(asked, **fields)


def _stages(change: Callable[[Stage], Stage]) -> Change:
    return lambda asked: replace(asked, stages=tuple(change(stage) for stage in asked.stages))


def _last_stage(change: Callable[[Stage], Stage]) -> Change:
    return lambda asked: replace(asked, stages=(*asked.stages[:-1], change(asked.stages[-1])))


def _rated(change: Callable[[Stage], Stage]) -> Wrong:
    return Wrong("--rate", _some_rate, _stages(lambda stage: stage if stage.rate_per_s is None else change(stage)))


def _times(change: Reschedule) -> Wrong:
    return _rated(lambda stage: replace(stage, reschedule=(*stage.reschedule, change)))


def _rate_times(factor: float) -> Wrong:
    return _rated(lambda stage: replace(stage, rate_per_s=(stage.rate_per_s or 0) * factor))


def _spaced(needs: str, fits: Fits, arrival: Callable[[Arrival], Arrival]) -> Wrong:
    return Wrong(f"--rate with {needs}", lambda a: _some_rate(a) and fits(a),
                 lambda a: replace(a, arrival=arrival(a.arrival)))  # fmt: skip


def _slotted(change: Callable[[Stage], Stage], least: int = 1) -> Wrong:
    needs = "--concurrency" + ("" if least == 1 else f" of at least {least}")
    return Wrong(needs, lambda a: any((stage.concurrency or 0) >= least for stage in a.stages),
                 _stages(lambda stage: change(stage) if (stage.concurrency or 0) >= least else stage))  # fmt: skip


def _more_slots(step: int) -> Callable[[Stage], Stage]:
    return lambda stage: replace(stage, concurrency=(stage.concurrency or 0) + step)


def _filled(**how: Any) -> Callable[[Stage], Stage]:
    return lambda stage: replace(stage, slots=Slots(**how))


def _bodies(nth: int, change: Callable[[Body], Body]) -> Change:
    return lambda asked: replace(asked, rewrites=(*asked.rewrites, content.every(nth, change)))


def _drop(count: int) -> Wrong:
    def last(stage: Stage) -> Stage:
        if stage.rate_per_s is None:
            return replace(stage, num_requests=(stage.num_requests or 0) - count)
        return replace(stage, reschedule=(*stage.reschedule, times.without_last(count)))

    return Wrong(f"at least {count + 1} requests in the last stage", lambda a: (a.stages[-1].about or 0) > count,
                 _last_stage(last))  # fmt: skip


def _duplicate(asked: Asked) -> Asked:
    """Send the request before the middle a second time in the place of the middle one."""
    middle = asked.about // 2
    return replace(asked, prompt_of=lambda k: k - 1 if k == middle else k)


def _repeat(asked: Asked) -> Asked:
    """Send the prompts of the first half again in the second, in bodies that say the same in other bytes."""
    half = (asked.about + 1) // 2
    return replace(
        asked,
        prompt_of=lambda k: k % half,
        rewrites=(*asked.rewrites, lambda k, body: content.other_order(body) if k >= half else body),
    )


def _from_ends(stage: Stage) -> Stage:
    """Hold as many slots as the rate brings in 0.1 s, and send when one is free."""
    slots = max(1, round((stage.rate_per_s or 0) * 0.1))
    return Stage(concurrency=slots, num_requests=stage.num_requests, duration_s=stage.duration_s, gap_s=stage.gap_s)


def _shorter(stage: Stage) -> Stage:
    if stage.num_requests is not None:
        return replace(stage, num_requests=max(1, stage.num_requests * 9 // 10))
    return replace(stage, duration_s=(stage.duration_s or 0) * 0.9)


def _other_api(asked: Asked) -> Asked:
    [other] = set(PATHS) - {asked.api}
    return replace(asked, api=other)


def _some_rate(asked: Asked) -> bool:
    return any(stage.rate_per_s is not None for stage in asked.stages)


def _always(_: Asked) -> bool:
    return True


def _two_tokens(asked: Asked) -> bool:
    return asked.max_tokens >= 2


_TWO_TOKENS = "--max-tokens of at least 2"
_TWO_STAGES = "two stages"

WRONG_KINDS = {
    # how many
    "duplicate": Wrong("a known number of at least 2 requests", lambda a: a.about >= 2, _duplicate),
    "drop-last": _drop(1),
    "drop-last-3": _drop(3),
    "warm-up": Wrong("nothing", _always, lambda a: replace(a, before=PATHS[a.api])),
    "stray": Wrong("nothing", _always, _set(before="/v1/embeddings")),
    # what each says
    "max-tokens-1": Wrong(_TWO_TOKENS, _two_tokens, lambda a: replace(a, max_tokens=a.max_tokens - 1)),
    "max-tokens+1": Wrong("nothing", _always, lambda a: replace(a, max_tokens=a.max_tokens + 1)),
    "some-max-tokens-1": Wrong(_TWO_TOKENS, _two_tokens, _bodies(50, content.shorter_answer)),
    "no-ignore-eos": Wrong("--ignore-eos", lambda a: a.ignore_eos, _set(ignore_eos=False)),
    "some-no-ignore-eos": Wrong("--ignore-eos", lambda a: a.ignore_eos,
                                _bodies(50, content.without_field("ignore_eos"))),
    "no-stream": Wrong("--stream", lambda a: a.stream, _set(stream=False)),
    "prompt+1": Wrong("nothing", _always, lambda a: replace(a, prompt_tokens=a.prompt_tokens + 1)),
    "prompt-1": Wrong("--prompt-tokens of at least 3", lambda a: a.prompt_tokens >= 3,
                      lambda a: replace(a, prompt_tokens=a.prompt_tokens - 1)),
    "some-prompt+1": Wrong("nothing", _always, _bodies(50, content.one_word_more)),
    "repeat-prompts": Wrong("a known number of at least 2 requests", lambda a: a.about >= 2, _repeat),
    "shared-prefix": Wrong("--prompt-tokens of at least 32", lambda a: a.prompt_tokens >= 32,
                           _bodies(1, content.same_beginning)),
    "extra-field": Wrong("nothing", _always, _bodies(1, content.with_field("min_tokens", 1))),
    "some-extra-field": Wrong("nothing", _always, _bodies(3, content.with_field("temperature", 0.5))),
    "other-api": Wrong("nothing", _always, _other_api),
    "no-content-type": Wrong("nothing", _always, _set(left_out=frozenset({"Content-Type"}))),
    "connection-per-request": Wrong("nothing", _always, _set(reuse=False)),
    # when, at a rate
    "rate-10%": _rate_times(0.9),
    "rate+10%": _rate_times(1.1),
    "relative-sleeps": _times(times.relative_sleeps),
    "exponential-gaps": _spaced("--arrival constant", lambda a: a.arrival.law is Law.CONSTANT,
                                lambda _: Arrival(Law.FIXED_SPAN)),
    "even-gaps": _spaced("a random --arrival", lambda a: a.arrival.law is not Law.CONSTANT,
                         lambda _: Arrival(Law.CONSTANT)),
    "burstier-gaps": _spaced("a random --arrival", lambda a: a.arrival.law is not Law.CONSTANT, lambda arrival:
                             Arrival(Law.FIXED_SPAN if arrival.law is Law.FIXED_SPAN else Law.GAMMA,
                                     arrival.shape / 4)),
    "second-edge": _times(times.second_edge),
    "groups-of-10": _times(times.groups_of(10)),
    "pairs": _times(times.pairs),
    "ticks": _times(times.ticks),
    "burst-start": _times(times.burst_start),
    "burst-end": _times(times.burst_end),
    "stall": _times(times.stall),
    "stall-and-catch-up": _times(times.stall_and_catch_up),
    "trend": _times(times.trend),
    "step": _times(times.step),
    "alternating": _times(times.alternating),
    "sorted-gaps": _times(times.sorted_gaps),
    "closed-loop-instead": _rated(_from_ends),
    "few-connections": Wrong("--rate without --cap",
                             lambda a: any(s.rate_per_s is not None and s.cap is None for s in a.stages),
                             _stages(lambda s: s if s.rate_per_s is None or s.cap else replace(s, cap=4))),
    "cap+1": Wrong("--cap", lambda a: any(s.cap for s in a.stages),
                   _stages(lambda s: replace(s, cap=s.cap + 1) if s.cap else s)),
    "no-cap": Wrong("--cap", lambda a: any(s.cap for s in a.stages), _stages(lambda s: replace(s, cap=None))),
    # when, at a concurrency
    "concurrency+1": _slotted(_more_slots(+1)),
    "concurrency-1": _slotted(_more_slots(-1), least=2),
    "hidden-ramp": _slotted(_filled(ramp_s=2.0), least=2),
    "slow-refill": _slotted(_filled(turnaround_s=0.06)),
    "waves": _slotted(_filled(waves=True), least=2),
    "lost-slot": _slotted(_filled(lost=1), least=2),
    # stages
    "stages-swapped": Wrong(_TWO_STAGES, lambda a: len(a.stages) >= 2,
                            lambda a: replace(a, stages=(a.stages[1], a.stages[0], *a.stages[2:]))),
    "stage-left-out": Wrong(_TWO_STAGES, lambda a: len(a.stages) >= 2, lambda a: replace(a, stages=a.stages[:-1])),
    "stage-short": Wrong("nothing", _always, _last_stage(_shorter)),
    "no-gap": Wrong("a stage with a gap_s", lambda a: any(stage.gap_s for stage in a.stages[:-1]),
                    _stages(lambda stage: replace(stage, gap_s=0.0))),
}  # fmt: skip


def go_wrong(asked: Asked, kinds: Iterable[str]) -> Asked:
    """Return what is really done when `asked` is asked, wrong in each of `kinds` (keys of `WRONG_KINDS`).

    Raises `UsageProblem` for a kind that does not fit what was asked.
    """
    for kind in kinds:
        wrong = WRONG_KINDS[kind]
        if not wrong.fits(asked):
            raise UsageProblem(f"--wrong {kind} needs {wrong.needs}: leave it out or change what is asked")
        asked = wrong.change(asked)
    return asked
