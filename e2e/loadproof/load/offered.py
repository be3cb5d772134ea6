"""What was offered, in words: every measured quantity of a load, with no expectation beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from loadproof.load.arrivals import end_point_rate, half_lag_rate, span_s
from loadproof.load.labels import counts_of

if TYPE_CHECKING:
    from loadproof.load.instrument import Timekeeping
    from loadproof.load.measured import Load
    from loadproof.load.requests import Ints, Requests


def spread(values: Mapping[Any, int]) -> str:
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
        ("how they ended", spread({ending or "in flight": k for ending, k in requests.endings.counts().items()})),
        ("other requests", side or "none"),
        *(_arrivals(requests) if requests.n > 1 else []),
        ("in flight", f"peak {held.peak} after {held.ramp_s:.3f} s, mean {held.whole_mean:.2f}"),
        ("share of time at the peak", f"{held.share_at_peak:.1%}"),
        ("slot turnaround at the peak", f"{held.refill_s * 1e3:.1f} ms"),
        ("path", spread(requests.paths.counts())),
        ("model", spread(requests.models.counts())),
        ("stream", spread(requests.streams.counts())),
        ("ignore_eos", spread(requests.ignore_eos.counts())),
        ("max_tokens", spread(counts_of(requests.max_tokens))),
        ("bare prompt tokens", spread(counts_of(requests.bare_prompt_tokens))),
        ("connections", f"{len(np.unique(requests.conn))}"),
        ("repeated prompts", f"{repeated(requests.prompts)}"),
        ("beginnings of prompts", _beginnings(requests)),
        ("other fields", spread(requests.extra_fields.counts())),
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


def repeated(numbers: Ints) -> int:
    """Return how many requests have what an earlier one had; the numbers are small, and -1 stands for none."""
    return int(np.count_nonzero(numbers >= 0) - np.count_nonzero(np.bincount(numbers + 1)[1:]))


def _beginnings(requests: Requests) -> str:
    again = int(np.count_nonzero(requests.shared_bytes))
    longest = f", up to {int(requests.shared_bytes.max())} bytes" if again else ""
    return f"{again} had the first 64 bytes of an earlier one{longest}"


def _arrivals(requests: Requests) -> list[tuple[str, str]]:
    times = requests.start_s
    gaps = np.diff(times)
    variation = float(gaps.std() / gaps.mean()) if gaps.mean() > 0 else 0.0
    return [
        ("span, first to last arrival", f"{span_s(times):.3f} s"),
        ("rate", f"{end_point_rate(times):.4g}/s by end points, {half_lag_rate(times):.4g}/s by half-lag medians"),
        ("gaps", f"mean {gaps.mean() * 1e3:.2f} ms, coefficient of variation {variation:.2f} (even 0, Poisson 1)"),
    ]
