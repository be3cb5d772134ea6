"""Does the absorber take precedence where it may, and does the journal say so?"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from loadproof.absorber.precedence import LOOP, keeps, scheduling, take_precedence


def in_a_thread(work: list[str]) -> None:
    take_precedence(LOOP)
    work.append(scheduling())
    inner = threading.Thread(target=lambda: work.append(scheduling()))
    inner.start()
    inner.join()


def may() -> bool:
    """Ask the system itself, in a thread that ends at once."""
    answers: list[bool] = []

    def ask() -> None:
        try:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(LOOP))
        except OSError:
            answers.append(False)
        else:
            answers.append(True)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return answers[0]


def test_the_calling_thread_alone_is_scheduled_in_real_time_where_that_is_allowed() -> None:
    before, told = scheduling(), list[str]()
    thread = threading.Thread(target=in_a_thread, args=(told,))
    thread.start()
    thread.join()
    assert told == ["real-time" if may() else "ordinary", "ordinary"]
    assert scheduling() == before == "ordinary"


def test_without_the_right_nothing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    take_precedence(LOOP)
    assert scheduling() == "ordinary"


@pytest.mark.parametrize(
    ("share", "had", "keeps_it"),
    [(0.3, True, True), (0.74, True, True), (0.76, True, False), (0.6, False, False), (0.49, False, True)],
)
def test_a_busy_thread_gives_its_precedence_up_until_it_is_calm(share: float, *, had: bool, keeps_it: bool) -> None:
    assert keeps(share, had=had) is keeps_it


def test_a_busy_counting_thread_gives_up_before_the_loop_does() -> None:
    """In a process of its own, because threads in real time would be in the way of everything else here."""
    script = (
        "import os, threading, time\n"
        "from loadproof.absorber.precedence import COUNTING, LOOP, Balance, scheduling, take_precedence\n"
        "take_precedence(LOOP)\n"
        "ready, end = threading.Event(), threading.Event()\n"
        "def count():\n"
        "    take_precedence(COUNTING); ready.set()\n"
        "    until = time.thread_time() + 0.2\n"
        "    while time.thread_time() < until: pass\n"
        "    end.wait()\n"
        "thread = threading.Thread(target=count); thread.start(); ready.wait()\n"
        "policy = lambda: os.sched_getscheduler(thread.native_id) & ~os.SCHED_RESET_ON_FORK\n"
        "balance, seen = Balance(thread), [policy()]\n"
        "deadline = time.monotonic() + 20\n"
        "while len(set(seen)) < 2 and time.monotonic() < deadline:\n"
        "    time.sleep(0.05); balance.review(); seen.append(policy())\n"
        "while seen[-1] != seen[0] and time.monotonic() < deadline:\n"
        "    time.sleep(0.05); balance.review(); seen.append(policy())\n"
        "end.set()\n"
        "changes = [seen[0]] + [b for a, b in zip(seen, seen[1:]) if a != b]\n"
        "print(scheduling(), changes == [os.SCHED_RR, os.SCHED_OTHER, os.SCHED_RR])\n"
    )
    said = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    if said[0] == "ordinary":
        pytest.skip("nothing may be scheduled in real time here")
    assert said == ["real-time", "True"]
