"""Which tools are known by name, and what is the file called that configures each in a case folder?

A literal table and nothing else: adapters, pins and environments are registered elsewhere.
"""

from __future__ import annotations

from typing import Final

TOOL_FILES: Final = {
    "inference-perf": "inference-perf.yaml",
    "vllm": "vllm-bench.args",
    "aiperf": "aiperf.args",
    "guidellm": "guidellm.args",
    "genai-bench": "genai-bench.args",
    "sglang": "sglang-bench.args",
    "inference-endpoint": "inference-endpoint.args",
    "command": "command.args",
    "metronome": "metronome.args",
}
