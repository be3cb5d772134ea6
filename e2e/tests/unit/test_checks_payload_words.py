"""Is the pattern of what is wrong told as a person would see it?"""

from __future__ import annotations

import numpy as np
import pytest

from loadproof.checks.wording import ordinal, which

N = 60


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (range(N), "every request"),
        ([], "no request"),
        ([0], "the first request"),
        ([N - 1], "the last request"),
        (range(3), "the first 3"),
        (range(57, N), "the last 3"),
        (range(1, N), "the last 59"),
        (range(N - 1), "the first 59"),
        ([30], "the 31st of 60"),
        ([10, 11], "the 11th and the 12th of 60"),
        ([10, 11, 12], "the 11th to the 13th"),
        (range(2, N, 3), "every 3rd request"),
        (range(0, N, 3), "every 3rd request"),
        (range(1, N, 2), "every 2nd request"),
        (range(49, N, 50), "the 50th of 60"),
        (set(range(N)) - set(range(4, N, 5)), "every request but each 5th"),
        (set(range(2, N, 3)) - {59}, "19 of 60, from the 3rd to the 57th"),
        (set(range(2, N, 3)) - {2}, "19 of 60, from the 6th to the 60th"),
        ((set(range(2, N, 3)) - {5}) | {6}, "20 of 60, from the 3rd to the 60th"),
        ([5, 40], "the 6th and the 41st of 60"),
        (set(range(N)) - {30}, "59 of 60, from the 1st to the 60th"),
    ],
)
def test_which_requests(wrong: object, says: str) -> None:
    mask = np.zeros(N, np.bool_)
    mask[sorted(wrong)] = True  # type: ignore[call-overload]  # any of the iterables above
    assert which(mask) == says


def test_of_one_request_that_one_is_every() -> None:
    assert which(np.array([True])) == "every request"


def test_ordinals() -> None:
    told = " ".join(ordinal(number) for number in (1, 2, 3, 4, 10, 11, 12, 13, 21, 22, 101, 111, 1_002))
    assert told == "1st 2nd 3rd 4th 10th 11th 12th 13th 21st 22nd 101st 111th 1002nd"
