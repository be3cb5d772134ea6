"""What would vLLM's /metrics say? The same records as the journal's, under vLLM's names.

A prometheus collector over plain lists that the loop appends to; sums and buckets are made when somebody
asks. Left out: metrics of an engine that is not there (cache usage, preemptions).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from loadproof.journal import Record

TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
GAP_BUCKETS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
LATENCY_BUCKETS = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480)


class Metrics(Collector):
    """Counts generation replies; `text` renders them."""

    def __init__(self, model: str) -> None:
        self._labels = {"model_name": model}
        self._finished: Counter[str] = Counter()
        self._prompt_tokens = self._generated = 0
        self._ttft, self._gaps, self._latency = array("d"), array("d"), array("d")
        self._answering: set[Record] = set()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def begin(self, record: Record) -> None:
        """Take in a request that is being answered."""
        self._answering.add(record)

    def observe(self, record: Record) -> None:
        """Take in one reply that is complete."""
        self._answering.discard(record)
        self._finished[record.finish_reason or "length"] += 1
        self._prompt_tokens += record.usage_tokens or 0
        self._generated += record.output_tokens
        times = [t for t, tokens in zip(record.actual, record.chunk_tokens, strict=True) if tokens]
        self._latency.append((times[-1] - record.arrival) / 1e9)
        self._ttft.append((times[0] - record.arrival) / 1e9)
        self._gaps.extend((b - a) / 1e9 for a, b in pairwise(times))

    def collect(self) -> Iterable[Metric]:
        """Yield the metric families, as prometheus_client asks for them."""
        names, values = list(self._labels), list(self._labels.values())
        running = GaugeMetricFamily("vllm:num_requests_running", "Requests being answered.", labels=names)
        running.add_metric(values, sum(record.how is None for record in self._answering))
        waiting = GaugeMetricFamily("vllm:num_requests_waiting", "Requests waiting for a slot.", labels=names)
        waiting.add_metric(values, 0)
        success = CounterMetricFamily("vllm:request_success", "Replies complete.", labels=[*names, "finished_reason"])
        for reason in ("stop", "length"):
            success.add_metric([*values, reason], self._finished[reason])
        yield from (running, waiting, success)
        for name, text, total in (
            ("vllm:prompt_tokens", "Prompt tokens of complete replies.", self._prompt_tokens),
            ("vllm:generation_tokens", "Tokens written in complete replies.", self._generated),
        ):
            counter = CounterMetricFamily(name, text, labels=names)
            counter.add_metric(values, total)
            yield counter
        for name, text, seconds, buckets in (
            ("vllm:time_to_first_token_seconds", "Arrival to first token.", self._ttft, TTFT_BUCKETS),
            ("vllm:inter_token_latency_seconds", "Between two tokens of a stream.", self._gaps, GAP_BUCKETS),
            ("vllm:e2e_request_latency_seconds", "Arrival to last token.", self._latency, LATENCY_BUCKETS),
        ):
            histogram = HistogramMetricFamily(name, text, labels=names)
            histogram.add_metric(values, _cumulative(seconds, buckets), sum(seconds))
            yield histogram

    def text(self) -> bytes:
        """Return the exposition in Prometheus' text format."""
        return generate_latest(self._registry)


def _cumulative(seconds: array[float], buckets: tuple[float, ...]) -> list[tuple[str, float]]:
    counts = np.searchsorted(np.sort(np.asarray(seconds)), np.asarray(buckets), side="right")
    rows = [(str(float(edge)), float(count)) for edge, count in zip(buckets, counts, strict=True)]
    return [*rows, ("+Inf", float(len(seconds)))]
