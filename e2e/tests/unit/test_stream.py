"""Which chunks of several choices are handed out in one turn, and no earlier than they are due?"""

from __future__ import annotations

import asyncio

import pytest

from loadproof.absorber.plan import Plan
from loadproof.absorber.recording import _stop_at_defect
from loadproof.absorber.reply import Row
from loadproof.absorber.server import JournalUnwritable
from loadproof.absorber.stream import CHUNKS_A_TURN, OVER, _Choice
from loadproof.absorber.wire import Format

ARRIVAL = 1_000


def handed_out(choices: list[_Choice], elapsed: int, most: int = CHUNKS_A_TURN) -> list[Row]:
    rows: list[Row] = []
    events: list[bytes] = []
    for choice in choices:
        choice.hand_out(elapsed, ARRIVAL, most, events, rows)
    assert len(events) == 2 * len(rows)
    return rows


def choices_of(*plans: Plan) -> list[_Choice]:
    form = Format("m", chat=False)
    return [_Choice(number, plan, form) for number, plan in enumerate(plans)]


def test_nothing_is_handed_out_before_it_is_due() -> None:
    choices = choices_of(Plan(3, "length", 100, 10), Plan(3, "length", 105, 10))
    assert handed_out(choices, 99) == []
    assert [(planned - ARRIVAL, choice) for planned, _, _, choice in handed_out(choices, 111)] == [
        (100, 0), (110, 0), (105, 1),
    ]  # fmt: skip
    assert [choice.due for choice in choices] == [120, 115]
    assert len(handed_out(choices, 1000)) == 3
    assert [choice.due for choice in choices] == [OVER, OVER]


def test_all_choices_together_have_one_budget_a_turn_and_nothing_is_lost() -> None:
    choices = choices_of(*[Plan(400, "length", 0)] * 5)
    turns = []
    while any(choice.due != OVER for choice in choices):
        turns.append(len(handed_out([choice for choice in choices if choice.due != OVER], 0)))
    assert turns == [512, 512, 512, 464]


@pytest.mark.parametrize("error", [OSError(28, "epoll"), JournalUnwritable("No space left"), ValueError("ours")])
def test_whatever_fails_on_the_loop_stops_the_absorber(error: Exception) -> None:
    async def failing() -> list[BaseException]:
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        defects = _stop_at_defect(loop, stopping)
        loop.call_exception_handler({"message": "failed", "exception": error})
        assert stopping.is_set()
        return defects

    assert asyncio.run(failing()) == [error]
