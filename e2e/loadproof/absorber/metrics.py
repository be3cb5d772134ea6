"""What would vLLM's /metrics say? The same records as the journal's, under vLLM's names.

A prometheus collector over what the loop has appended; buckets are made now and then, and when somebody asks, from
what came since the last time. Left out: metrics of an engine that is not there (cache usage, preemptions).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from loadproof.absorber.request import Request
from loadproof.record import REASONS

TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
GAP_BUCKETS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
LATENCY_BUCKETS = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480)


class Histogram:
    """Counts seconds in buckets, `edges` being their inclusive upper bounds."""

    def __init__(self, edges: tuple[float, ...]) -> None:
        self._edges = edges
        self._counts = np.zeros(len(edges) + 1, dtype=np.int64)
        self.total_s = 0.0

    def add(self, seconds: np.ndarray) -> None:
        """Count seconds, float64[n]."""
        places = np.searchsorted(np.asarray(self._edges), seconds, side="left")
        self._counts += np.bincount(places, minlength=len(self._counts))
        self.total_s += float(seconds.sum())

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (upper bound, how many are not above it) for each bucket, the last without bound."""
        names = [*(str(float(edge)) for edge in self._edges), "+Inf"]
        return list(zip(names, np.cumsum(self._counts).astype(float).tolist(), strict=True))


class Metrics(Collector):
    """Counts complete generation replies; `text` renders them. `running` and `waiting` are set by the owner."""

    def __init__(self, model: str) -> None:
        self._labels = {"model_name": model}
        self._finished: Counter[str] = Counter()
        self._prompt_tokens = self._generated = self.running = self.waiting = 0
        self._uncounted: list[Request] = []
        self._times, self._lengths, self._reasons = array("q"), array("q"), array("B")
        self._ttft, self._gaps, self._latency = map(Histogram, (TTFT_BUCKETS, GAP_BUCKETS, LATENCY_BUCKETS))
        # Replies of one send: arrival, its stamp, chunks with tokens, tokens, reason, and the request if it is counted.
        self.at_once: list[tuple[int, int, int, int, int, Request | None]] = []
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def observe(
        self, arrival: int, times: Sequence[int], tokens: int, reason: int, request: Request | None = None
    ) -> None:
        """Take in one reply that is complete; `times` are the stamps of its chunks with tokens, in ns, `reason` a code.

        The prompt of `request`, if it is given, is counted some time.
        """
        self._reasons.append(reason)
        self._generated += tokens
        self._times.append(arrival)
        self._times.extend(times)
        self._lengths.append(len(times) + 1)
        if request is not None:
            self._uncounted.append(request)

    def digest(self) -> None:
        """Put what is new into the buckets."""
        at_once, self.at_once = self.at_once, []
        for arrival, stamp, chunks, tokens, reason, request in at_once:
            self.observe(arrival, (stamp,) * chunks, tokens, reason, request)
        self._count_prompts()
        if not self._lengths:
            return
        times, ends = np.asarray(self._times), np.cumsum(np.asarray(self._lengths))
        self._finished.update(REASONS[reason] or "" for reason in self._reasons)
        self._times, self._lengths, self._reasons = array("q"), array("q"), array("B")
        starts = np.concatenate([[0], ends[:-1]])
        gaps = np.diff(times) / 1e9
        inside = np.ones(len(gaps), dtype=bool)
        inside[starts] = False  # from an arrival to the first token
        inside[ends[:-1] - 1] = False  # from one reply to the next
        self._ttft.add(gaps[starts])
        self._gaps.add(gaps[inside])
        self._latency.add((times[ends - 1] - times[starts]) / 1e9)

    def _count_prompts(self) -> int:
        waiting = [request for request in self._uncounted if request.counted is None]
        self._prompt_tokens += sum(request.counted[1] for request in self._uncounted if request.counted)
        self._uncounted = waiting
        return self._prompt_tokens

    def collect(self) -> Iterable[Metric]:
        """Yield the metric families, as prometheus_client asks for them."""
        self.digest()
        names, values = list(self._labels), list(self._labels.values())
        for name, text, number in (
            ("vllm:num_requests_running", "Requests being answered.", self.running),
            ("vllm:num_requests_waiting", "Requests waiting for a slot.", self.waiting),
        ):
            gauge = GaugeMetricFamily(name, text, labels=names)
            gauge.add_metric(values, number)
            yield gauge
        success = CounterMetricFamily("vllm:request_success", "Replies complete.", labels=[*names, "finished_reason"])
        for reason in ("stop", "length"):
            success.add_metric([*values, reason], self._finished[reason])
        yield success
        for name, text, total in (
            ("vllm:prompt_tokens", "Prompt tokens of complete replies.", self._count_prompts()),
            ("vllm:generation_tokens", "Tokens written in complete replies.", self._generated),
        ):
            counter = CounterMetricFamily(name, text, labels=names)
            counter.add_metric(values, total)
            yield counter
        for name, text, seconds in (
            ("vllm:time_to_first_token_seconds", "Arrival to first token.", self._ttft),
            ("vllm:inter_token_latency_seconds", "Between two tokens of a stream.", self._gaps),
            ("vllm:e2e_request_latency_seconds", "Arrival to last token.", self._latency),
        ):
            histogram = HistogramMetricFamily(name, text, labels=names)
            buckets = seconds.cumulative()
            histogram.add_metric(values, buckets, seconds.total_s)
            yield histogram

    def text(self) -> bytes:
        """Return the exposition in Prometheus' text format."""
        return generate_latest(self._registry)
