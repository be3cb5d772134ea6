"""What do the findings about spacing have in common: which arrivals they look at, how they word their answer?"""

from __future__ import annotations

import math

import numpy as np

from loadproof.checks.looks import looks_like
from loadproof.checks.question import EVIDENCE, Part
from loadproof.load.arrivals import Seconds
from loadproof.verdict import Finding, Outcome

SETTLED_S = 1.0


class Spaced:
    """The arrivals of a part with a rate, and findings about them; all in seconds since the part's first arrival."""

    def __init__(self, part: Part) -> None:
        assert part.rate is not None  # noqa: S101 -- the caller's duty
        self.rate, self.alpha, self.suffix = part.rate, part.alpha, part.suffix
        self._duration_s = part.duration_s
        self.times: Seconds = part.load.requests.start_s
        self.n = len(self.times)
        self._looks: str | None = None

    @property
    def settled(self) -> Seconds:
        """The arrivals after the first second, in which a late first send is made up for; all, if most are within."""
        after = self.times[np.searchsorted(self.times, SETTLED_S) :]
        return after if len(after) > self.n / 2 else self.times

    @property
    def asked_span_s(self) -> float:
        """How long the load was to last: a tool that sends all at once is wrong, not short."""
        return self.n / self.rate if self._duration_s is None else self._duration_s

    @property
    def looks(self) -> str:
        """What the arrivals look like, in words."""
        if self._looks is None:
            self._looks = looks_like(self.times, self.rate)
        return self._looks

    def finding(
        self, check: str, requirement: str, expected: str, measured: str, *, wrong: bool, seen: str,
        n: int | None = None, detail: str = "",
    ) -> Finding:  # fmt: skip
        """Return a finding; `seen` is the smallest deviation, `detail` what a failure says before its looks."""
        told = "; ".join(part for part in (detail, self.looks) if part) if wrong else ""
        return Finding(check=f"arrivals.{check}{self.suffix}", requirement=requirement, expected=expected,
                       measured=measured, outcome=Outcome.FAIL if wrong else Outcome.PASS,
                       n=self.n if n is None else n, smallest_deviation=seen, detail=told,
                       evidence=EVIDENCE)  # fmt: skip

    def unclear(self, check: str, requirement: str, why: str, *, n: int | None = None) -> Finding:
        """Return a finding that cannot be judged, and why."""
        return Finding(check=f"arrivals.{check}{self.suffix}", requirement=requirement, expected="enough arrivals",
                       measured="too few to tell", outcome=Outcome.UNCLEAR, n=self.n if n is None else n, detail=why,
                       evidence=EVIDENCE)  # fmt: skip

    def too_few(self, n: int, span_s: float) -> str:
        """Return "" when at least n requests came, whose asked span is at least `span_s`, else what would be enough."""
        if self.n >= n and self.asked_span_s >= span_s:
            return ""
        enough = max(n, math.ceil(span_s * self.rate))
        return (f"{self.n} requests in {self.asked_span_s:.3g} s cannot show how they are spaced; "
                f"{enough} in {enough / self.rate:.3g} s are enough")  # fmt: skip
