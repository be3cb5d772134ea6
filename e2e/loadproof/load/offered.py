"""What was offered, in words: every measured quantity of a load, with no expectation beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from loadproof.load.arrivals import end_point_rate, half_lag_rate, span_s

if TYPE_CHECKING:
    from loadproof.load.instrument import Timekeeping
    from loadproof.load.measured import Load
    from loadproof.load.requests import Requests


def spread(values: Iterable[object]) -> str:
    """Return distinct values with their counts, commonest first, at most five: "16 x 599, 15 x 1"."""
    counts = Counter(values).most_common()
    if not counts:
        return "nothing"
    shown = ", ".join(f"{_word(value)} x {count}" for value, count in counts[:5])
    return shown + (f", and {len(counts) - 5} others" if len(counts) > 5 else "")


def _word(value: object) -> object:
    """Return a JSON value's own word."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else value


def offered(load: Load) -> list[tuple[str, str]]:
    """Return (what, measured) pairs, in reading order."""
    requests, kept, held = load.requests, load.timekeeping, load.in_flight
    side = ", ".join(f"{k} x {m} {p}" for (m, p), k in (requests.side_traffic + requests.unrecognised).most_common())
    return [
        ("generation requests", f"{requests.n}"),
        ("how they ended", spread(ending or "in flight" for ending in requests.endings)),
        ("other requests", side or "none"),
        *(_arrivals(requests) if requests.n > 1 else []),
        ("in flight", f"peak {held.peak} after {held.ramp_s:.3f} s, mean {held.whole_mean:.2f}"),
        ("share of time at the peak", f"{held.share_at_peak:.1%}"),
        ("slot turnaround at the peak", f"{held.refill_s * 1e3:.1f} ms"),
        ("path", spread(requests.paths)),
        ("model", spread(requests.models)),
        ("stream", spread(requests.streams)),
        ("ignore_eos", spread(requests.ignore_eos)),
        ("max_tokens", spread(_or_none(requests.max_tokens.tolist()))),
        ("bare prompt tokens", spread(_or_none(requests.bare_prompt_tokens.tolist()))),
        ("repeated bodies", f"{requests.n - len(set(requests.digests))}"),
        ("other fields", spread(requests.extra_fields)),
        ("our lateness", _percentiles(kept.late_p50_s, kept.late_p99_s, kept.late_max_s)),
        ("our lag", _lag(kept)),
    ]


def _percentiles(p50: float, p99: float, worst: float) -> str:
    return f"p50 {p50 * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms, max {worst * 1e3:.1f} ms"


def _lag(kept: Timekeeping) -> str:
    if not kept.stamps:
        return "not known: the kernel stamped no arrival"
    shown = _percentiles(kept.lag_p50_s, kept.lag_p99_s, kept.lag_max_s)
    return f"{shown}; the kernel stamped {kept.stamped_share} of the arrivals"


def _or_none(values: list[int]) -> list[int | None]:
    return [None if value < 0 else value for value in values]


def _arrivals(requests: Requests) -> list[tuple[str, str]]:
    times = requests.start_s
    gaps = np.diff(times)
    variation = float(gaps.std() / gaps.mean()) if gaps.mean() > 0 else 0.0
    return [
        ("span, first to last arrival", f"{span_s(times):.3f} s"),
        ("rate", f"{end_point_rate(times):.4g}/s by end points, {half_lag_rate(times):.4g}/s by half-lag medians"),
        ("gaps", f"mean {gaps.mean() * 1e3:.2f} ms, coefficient of variation {variation:.2f} (even 0, Poisson 1)"),
    ]
