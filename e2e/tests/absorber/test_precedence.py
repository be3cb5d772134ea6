"""Does the absorber take precedence where it may, and does the journal say so?"""

from __future__ import annotations

import os
import threading

import pytest

from loadproof.absorber.precedence import LOOP, scheduling, take_precedence


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
