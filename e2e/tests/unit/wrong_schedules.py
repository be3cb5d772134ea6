"""What do wrong senders do to a schedule?

Functions from (times in seconds, ascending; rate per second) to times. The count stays, and the mean rate too wherever
that is not what is wrong. Left out: which checks have to notice (wrong_arrivals.py).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.unit.forge_times import Seconds

type Change = Callable[[Seconds, float], Seconds]


def groups_of(size: int) -> Change:
    """Everything waits until `size` are due, and leaves together."""

    def change(times: Seconds, _rate: float) -> Seconds:
        last = np.minimum(np.arange(len(times)) // size * size + size - 1, len(times) - 1)
        return times[last]

    return change


def pairs(times: Seconds, _rate: float) -> Seconds:
    """Two workers of half the rate share a seed."""
    half = np.cumsum(np.diff(times, prepend=0.0))[: (len(times) + 1) // 2] * 2
    return np.repeat(half, 2)[: len(times)]


def each_worker_all(workers: int) -> Change:
    """Each of the workers keeps to the whole rate."""

    def change(times: Seconds, _rate: float) -> Seconds:
        shares = np.array_split(np.diff(times, prepend=0.0), workers)
        return np.concatenate([np.cumsum(share) for share in shares])

    return change


def trend(times: Seconds, _rate: float) -> Seconds:
    """The rate grows evenly from 0.7 to 1.3 of what is asked."""
    warped: Seconds = (np.sqrt(0.49 + 1.2 * times / times[-1]) - 0.7) / 0.6 * times[-1]
    return warped


def twice_as_fast(times: Seconds, _rate: float) -> Seconds:
    """The second half of the time has two thirds of the requests."""
    span, share = times[-1], 1 / 3
    return np.asarray(np.interp(times / span, [0, share, 1], [0, span / 2, span]))


def burst_at_start(seconds: float) -> Change:
    """What is due in the first seconds is sent at once."""
    return lambda times, _rate: np.where(times < times[0] + seconds, times[0], times)


def gust(more: float) -> Change:
    """For one second in the middle so many times as fast; everything after that is earlier."""

    def change(times: Seconds, _rate: float) -> Seconds:
        begin = times[len(times) // 2]
        since = np.maximum(times - begin, 0.0)
        return np.asarray(times - since + np.where(since < more, since / more, since - more + 1))

    return change


def lull(seconds: float) -> Change:
    """For so long a quarter of the rate, and everything after that is later."""

    def change(times: Seconds, _rate: float) -> Seconds:
        since = np.maximum(times - times[len(times) // 3], 0.0)
        slow = np.where(since < seconds / 4, since * 4, since + seconds * 3 / 4)
        return np.asarray(times - since + slow)

    return change


def silence(seconds: float) -> Change:
    """A stall in the middle, after which everything is that much later."""
    return lambda times, _rate: times + np.where(times > times[len(times) // 2], seconds, 0.0)


def stall(seconds: float) -> Change:
    """A stall in the middle, after which what was due is sent at once."""

    def change(times: Seconds, _rate: float) -> Seconds:
        begin = times[len(times) // 2]
        return np.where((times > begin) & (times < begin + seconds), begin + seconds, times)

    return change


def ticks(seconds: float) -> Change:
    """A timer that wakes every so many seconds."""
    return lambda times, _rate: np.ceil(times / seconds) * seconds


def second_edge(times: Seconds, _rate: float) -> Seconds:
    """The last arrival of each second falls on the whole second."""
    second = np.floor(times)
    last = np.append(np.diff(second) > 0, True)
    return np.where(last, second + 1, times)


def half_of_each_second(times: Seconds, _rate: float) -> Seconds:
    """A second's requests leave in its first half."""
    return np.floor(times) + (times - np.floor(times)) / 2


def each_gap_twice(times: Seconds, _rate: float) -> Seconds:
    """Two requests after each other have the same gap."""
    gaps = np.diff(times, prepend=0.0)
    return np.cumsum(np.repeat(gaps, 2))[: len(times)]


def cycle(length: int) -> Change:
    """The same few gaps over and over again, with the right mean."""

    def change(times: Seconds, rate: float) -> Seconds:
        gaps = np.diff(times[: length + 1])
        return np.cumsum(np.resize(gaps / gaps.mean() / rate, len(times)))

    return change


def relative_sleeps(seconds: float) -> Change:
    """Each gap is slept after the work for the last request, which takes so long."""
    return lambda times, _rate: times + np.arange(len(times)) * seconds


def left_out(nth: int) -> Change:
    """Every nth instant passes without a request; what is left over comes at the end."""

    def change(times: Seconds, rate: float) -> Seconds:
        kept = times[np.arange(len(times)) % nth != nth - 1]
        return np.concatenate([kept, times[-1] + (1 + np.arange(len(times) - len(kept))) / rate])

    return change


def every_other_late(times: Seconds, rate: float) -> Seconds:
    """Every other request comes almost with the next one."""
    return times + np.where(np.arange(len(times)) % 2, 0.8 / rate, 0.0)
