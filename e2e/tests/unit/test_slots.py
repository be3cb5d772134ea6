"""Does a queue of slots give every request the begin that a pencil gives it, however late the loop is?

Times are small numbers, and the clock is the test's own. Tables are worked out by hand; where many requests come and
go at random (seeded), a plain second reckoning that knows all of them from the beginning is the oracle.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from loadproof.absorber.slots import Slots

FOREVER = 10**9


@dataclass
class Hand:
    """A queue with a clock that is turned by hand: what it asked to be run at a time runs when that has come."""

    count: int
    now: int = 0
    begun: dict[int, int] = field(default_factory=dict)
    timers: list[tuple[int, Callable[[], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slots = Slots(self.count, self.at, lambda: self.now)

    def at(self, deadline: int, run: Callable[[], None]) -> None:
        if deadline <= self.now:
            run()
        else:
            self.timers.append((deadline, run))

    def turn_to(self, now: int) -> None:
        """Let the clock stand at `now`, and what was to run by then run now: as late as it can be."""
        self.now = now
        due = [timer for timer in self.timers if timer[0] <= now]
        self.timers = [timer for timer in self.timers if timer[0] > now]
        for _, run in sorted(due, key=lambda timer: timer[0]):
            run()

    def go(self, request: int, begin: int) -> None:
        assert request not in self.begun, "begun twice"
        self.begun[request] = begin

    def join(self, request: int, arrival: int, lasts: int) -> bool:
        return self.slots.join(request, arrival, lasts, lambda begin: self.go(request, begin))


def test_one_slot_serves_in_the_order_of_arrival() -> None:
    hand = Hand(1)
    assert [hand.join(request, arrival, 100) for request, arrival in enumerate((0, 10, 20, 30))] == [
        True, False, False, False,
    ]  # fmt: skip
    assert (hand.slots.held, hand.slots.waiting) == (1, 3)
    hand.turn_to(99)
    assert hand.begun == {0: 0}
    hand.turn_to(100)
    assert hand.begun == {0: 0, 1: 100}
    hand.turn_to(FOREVER)
    assert hand.begun == {0: 0, 1: 100, 2: 200, 3: 300}
    assert (hand.slots.held, hand.slots.waiting) == (0, 0)


# Of two slots: (arrival, how long), and when it begins by hand.
TABLE = [
    ((0, 100), 0),  # slot a until 100
    ((5, 30), 5),  # slot b until 35
    ((10, 50), 35),  # b until 85
    ((20, 15), 85),  # b until 100
    ((50, 10), 100),  # both come free at 100: a until 110
    ((60, 40), 100),  # b until 140
    ((70, 10), 110),  # a until 120
    ((125, 5), 125),  # a stood empty; until 130
    ((126, 100), 130),  # a until 230
    ((400, 1), 400),  # all are free
    ((400, 1), 400),
    ((400, 1), 401),  # two of three at once
]


@pytest.mark.parametrize("step", [1, 7, 33, 1000])
def test_two_slots_against_a_table(step: int) -> None:
    """`step`: how seldom the loop comes round. What has arrived meanwhile is read then, and all begins are the same."""
    hand = Hand(2)
    coming = list(enumerate(TABLE))
    for now in range(0, 2001, step):
        hand.now = now
        while coming and coming[0][1][0][0] <= now:
            request, ((arrival, lasts), _) = coming.pop(0)
            hand.join(request, arrival, lasts)
        hand.turn_to(now)
    assert [hand.begun[request] for request in range(len(TABLE))] == [begin for _, begin in TABLE]
    assert hand.slots._free == sorted(hand.slots._free)
    assert len(hand.slots._free) == 2


def test_a_slot_that_is_free_begins_with_the_arrival_however_late_it_is_read() -> None:
    hand = Hand(2)
    hand.join(0, 0, 50)
    hand.turn_to(60)
    hand.join(1, 55, 10)  # it takes what came free at 50
    hand.join(2, 45, 10)  # only the other slot was free then
    hand.join(3, 46, 1)
    hand.turn_to(FOREVER)
    assert hand.begun == {0: 0, 1: 55, 2: 45, 3: 55}


def test_a_slot_that_came_free_after_the_arrival_begins_then() -> None:
    hand = Hand(1)
    hand.join(0, 0, 50)
    hand.turn_to(60)
    hand.join(1, 45, 10)
    assert hand.begun == {0: 0, 1: 50}


def test_who_waits_is_served_by_arrival_and_not_by_when_it_was_read() -> None:
    hand = Hand(1)
    hand.join(0, 0, 100)
    for request, arrival in ((1, 30), (2, 10), (3, 20), (4, 10)):
        hand.join(request, arrival, 10)
    hand.turn_to(FOREVER)
    assert hand.begun == {0: 0, 2: 100, 4: 110, 3: 120, 1: 130}


def test_a_client_that_leaves_frees_its_slot_at_that_moment() -> None:
    hand = Hand(2)
    hand.join(0, 0, 1000)
    hand.join(1, 0, 1000)
    for request in (2, 3):
        hand.join(request, request, 10)
    hand.turn_to(400)
    hand.slots.leave(1, 400)
    assert hand.begun == {0: 0, 1: 0, 2: 400}
    hand.turn_to(FOREVER)
    assert hand.begun == {0: 0, 1: 0, 2: 400, 3: 410}
    assert hand.slots._free == [420, 1000]  # its own end, at 1000, came to nothing


def test_a_client_that_leaves_late_frees_nothing_any_more() -> None:
    """Its slot was given on at the planned end, although the loop had not come to it when it left."""
    hand = Hand(1)
    hand.join(0, 0, 100)
    hand.join(1, 10, 50)
    hand.join(2, 20, 50)
    hand.now = 130
    hand.slots.leave(0, 130)
    hand.turn_to(130)
    assert hand.begun == {0: 0, 1: 100}
    hand.slots.leave(0, 131)
    hand.turn_to(FOREVER)
    assert hand.begun == {0: 0, 1: 100, 2: 150}
    assert hand.slots._free == [200]


def test_ends_that_were_due_before_a_client_left_come_first() -> None:
    hand = Hand(2)
    hand.join(0, 0, 100)
    hand.join(1, 0, 1000)
    hand.join(2, 20, 50)
    hand.join(3, 30, 50)
    hand.now = 130  # the end at 100 has not been worked off
    hand.slots.leave(1, 130)
    assert hand.begun == {0: 0, 1: 0, 2: 100, 3: 130}


def test_a_client_that_goes_while_it_waits_is_passed_over() -> None:
    hand = Hand(1)
    hand.join(0, 0, 100)
    for request in (1, 2, 3):
        hand.join(request, request, 10)
    hand.slots.leave(1, 50)
    hand.slots.leave(3, 60)
    assert (hand.slots.held, hand.slots.waiting) == (1, 1)
    hand.turn_to(FOREVER)
    assert hand.begun == {0: 0, 2: 100}
    assert hand.join(4, 105, 10) is True
    assert hand.begun[4] == 110


def test_a_client_whose_turn_had_come_when_it_left_was_served_until_then() -> None:
    hand = Hand(1)
    hand.join(0, 0, 100)
    hand.join(1, 10, 50)
    hand.join(2, 20, 50)
    hand.now = 130  # the end at 100 has not been worked off
    hand.slots.leave(1, 130)
    assert hand.begun == {0: 0, 1: 100, 2: 130}


def test_a_stranger_leaves_nothing_behind() -> None:
    hand = Hand(1)
    hand.slots.leave(7, 50)
    assert hand.slots._free == [0]
    assert (hand.slots.held, hand.slots.waiting) == (0, 0)


def test_a_service_of_no_time_holds_nobody_up() -> None:
    hand = Hand(1, now=5)
    assert [hand.join(request, arrival, 0) for request, arrival in enumerate((3, 4, 4, 5))] == [True] * 4
    assert hand.begun == {0: 3, 1: 4, 2: 4, 3: 5}
    assert hand.slots.held == 0


def test_a_queue_that_is_over_all_at_once_is_no_recursion() -> None:
    """Every reply is long due, and every second client is found gone as soon as it is written to."""
    hand = Hand(1)
    hand.join(0, 0, 1)

    def leave_at_once(request: int, begin: int) -> None:
        hand.go(request, begin)
        if request % 2:
            hand.slots.leave(request, hand.now)

    for request in range(1, 5000):
        hand.slots.join(request, 0, 1, lambda begin, request=request: leave_at_once(request, begin))  # type: ignore[misc] # mypy cannot see through the default
    hand.turn_to(FOREVER)
    assert hand.begun == {request: request for request in range(5000)}
    assert (hand.slots.held, hand.slots.waiting) == (0, 0)


def test_what_begins_may_let_the_next_of_its_connection_in() -> None:
    hand = Hand(1)

    def go_on(begin: int) -> None:
        hand.go(1, begin)
        hand.join(2, 0, 10)

    hand.join(0, 0, 10)
    hand.slots.join(1, 0, 10, go_on)
    hand.turn_to(FOREVER)
    assert hand.begun == {0: 0, 1: 10, 2: 20}


@dataclass(frozen=True)
class Visit:
    arrival: int
    lasts: int
    leaves: int  # FOREVER: it stays


def reckoned(count: int, visits: list[Visit]) -> list[int | None]:
    """Work all visits out in the order of arrival, knowing who will leave when. None: it never began."""
    free = [0] * count
    begins: list[int | None] = []
    for visit in visits:
        begin = max(visit.arrival, min(free))
        if visit.leaves < begin:
            begins.append(None)
            continue
        free[free.index(min(free))] = min(begin + visit.lasts, visit.leaves)
        begins.append(begin)
    return begins


@pytest.mark.parametrize("late", [0, 1, 40])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", range(15))
def test_random_visits_against_a_second_reckoning(seed: int, count: int, late: int) -> None:
    """An end is noticed up to `late` after its time, a leave when it is: that is a moment of the server's own."""
    rng = random.Random(seed)
    arrivals = sorted(rng.sample(range(3000), 150))
    visits = [
        Visit(arrival, rng.randint(1, 40 * count), rng.choice([arrival + rng.randint(1, 300), *[FOREVER] * 3]))
        for arrival in arrivals
    ]
    moments = [(visit.arrival, 1, request) for request, visit in enumerate(visits)]
    moments += [(visit.leaves, 0, request) for request, visit in enumerate(visits) if visit.leaves != FOREVER]
    hand, last = Hand(count), 0
    for when, arrives, request in sorted(moments):
        if when - late > last:  # the loop comes round
            hand.turn_to(last := rng.randint(when - late, when))
        hand.now = when
        if arrives:
            hand.join(request, when, visits[request].lasts)
        else:
            hand.slots.leave(request, when)
    hand.turn_to(FOREVER)
    expected = reckoned(count, visits)
    assert [hand.begun.get(request) for request in range(len(visits))] == expected, f"seed {seed}"
    assert sum(begin is not None and begin > visit.arrival for begin, visit in zip(expected, visits, strict=True)) > 20
