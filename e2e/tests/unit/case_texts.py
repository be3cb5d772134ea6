"""Valid texts of expected.yaml that the tests of cases change: one open loop, one closed."""

from __future__ import annotations

RATE = """\
why: a fixed rate
absorber: {ttft_s: 0.05, itl_s: 0.01}
workload:
  num_requests: 600
  prompt_tokens: 128
  max_tokens: 16
  stream: true
  ignore_eos: true
load:
  mode: rate
  rate: 40
tools:
  vllm:
    arrival: fixed-span
"""
CLOSED = RATE.replace("mode: rate\n  rate: 40", "mode: concurrency\n  concurrency: 8").replace(
    "    arrival: fixed-span", "    leading_extra_requests: 1"
)
