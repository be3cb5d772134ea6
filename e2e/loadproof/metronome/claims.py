"""What does the reference sender say about its own run?

Pure: exchanges in, claims and rows out. Latency and TTFT count from the *intended* send of an open loop,
so a send that left late makes its own latency longer and no wait is omitted (no coordinated
omission); in a closed loop nothing is planned and they count from the send. Latency ends with the last
text of a stream, or with the end of the answer where it came in one piece. Quantiles are numpy's linear ones,
over completed requests. Nothing is compared with anything here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from loadproof import __version__
from loadproof.metronome.exchange import Exchange
from loadproof.reported import Distribution, Reported


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of requests.jsonl; all times are of CLOCK_MONOTONIC, None where it did not happen.

    `text_ns` has the time of every piece of text, `first_ns` and `last_ns` its ends.
    """

    index: int
    intended_ns: int | None
    sent_ns: int | None
    first_ns: int | None
    last_ns: int | None
    done_ns: int
    status: int | None
    tokens: int
    text_ns: list[int]
    error: str


def row(exchange: Exchange) -> Row:
    """Return what is written of one ended exchange."""
    times_ns = exchange.answer.times_ns
    return Row(
        index=exchange.index,
        intended_ns=exchange.intended_ns or None,
        sent_ns=exchange.sent_ns or None,
        first_ns=times_ns[0] if times_ns else None,
        last_ns=times_ns[-1] if times_ns else None,
        done_ns=exchange.done_ns,
        status=exchange.answer.status or None,
        tokens=_tokens(exchange),
        text_ns=times_ns,
        error=exchange.answer.error,
    )


def claims_of(exchanges: Sequence[Exchange]) -> Reported:
    """Return the claims of a run whose exchanges have all ended."""
    abandoned = sum(exchange.abandoned for exchange in exchanges)
    good = [exchange for exchange in exchanges if not exchange.answer.error]
    streams = [exchange for exchange in good if exchange.answer.times_ns]
    sent_ns = [exchange.sent_ns for exchange in exchanges if exchange.sent_ns]
    duration_s = (max(e.done_ns for e in exchanges) - min(sent_ns)) / 1e9 if sent_ns else None
    usages = [exchange.answer.usage for exchange in good]
    inputs = [usage.prompt_tokens for usage in usages if usage is not None and usage.prompt_tokens is not None]
    return Reported(
        tool="metronome",
        version=__version__,
        completed=len(good),
        failed=len(exchanges) - len(good) - abandoned,
        abandoned=abandoned,
        duration_s=duration_s,
        request_rate_per_s=len(good) / duration_s if duration_s else None,
        ttft_s=_spread(_ttft_s(exchange) for exchange in streams),
        itl_s=_spread(gap for e in streams for gap in np.diff(e.answer.times_ns) / 1e9),
        tpot_s=_spread(_tpot_s(exchange) for exchange in streams if _tokens(exchange) > 1),
        latency_s=_spread(_latency_s(exchange) for exchange in good),
        input_tokens=sum(inputs) if inputs else None,
        output_tokens=sum(map(_tokens, good)) if good else None,
    )


def _tokens(exchange: Exchange) -> int:
    """By the server's word if it gave one, else the pieces of text."""
    usage = exchange.answer.usage
    if usage is not None and usage.completion_tokens is not None:
        return usage.completion_tokens
    return len(exchange.answer.times_ns)


def _ttft_s(exchange: Exchange) -> float:
    return (exchange.answer.times_ns[0] - exchange.intended_ns) / 1e9


def _latency_s(exchange: Exchange) -> float:
    times_ns = exchange.answer.times_ns
    return ((times_ns[-1] if times_ns else exchange.done_ns) - exchange.intended_ns) / 1e9


def _tpot_s(exchange: Exchange) -> float:
    return (_latency_s(exchange) - _ttft_s(exchange)) / (_tokens(exchange) - 1)


def _spread(values_s: Iterable[float]) -> Distribution | None:
    values = np.fromiter(values_s, dtype=np.float64)
    if not values.size:
        return None
    p50, p90, p99 = np.quantile(values, (0.5, 0.9, 0.99)).tolist()
    return Distribution(mean=float(values.mean()), p50=p50, p90=p90, p99=p99)
