"""inference-perf's configurations for every kind of data, load and API, with what each of them asks for.

Three tables and their product. What inference-perf itself cannot do is a table, too, with the reason. Left out: where
the server is, which the adapter fills in.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import loadproof.data

MODEL = "google/gemma-3-270m"
APIS = ("completion", "chat")
DEFAULT_OUTPUT = 30  # what inference-perf asks for where its data have no length
BOS = 1


@dataclass(frozen=True)
class Data:
    """Where prompts come from, and how many output tokens each request asks for, by API."""

    name: str
    config: dict[str, Any]
    output_tokens: dict[str, int]


@dataclass(frozen=True)
class Load:
    """How requests are sent, how many, and whether so few at once that nobody has to wait for anybody."""

    name: str
    config: dict[str, Any]
    requests: int
    light: bool


def _fixed(tokens: int) -> dict[str, Any]:
    return {"type": "fixed", "min": tokens, "max": tokens, "mean": tokens, "std_dev": 0}


def _always(tokens: int) -> dict[str, int]:
    return dict.fromkeys(APIS, tokens)


CONVERSATIONS = Path(loadproof.data.__file__).with_name("conversations.json")
ANSWER_TOKENS = 15  # of each answer in that file; inference-perf counts them with BOS, and asks for as many

DATA = {each.name: each for each in (
    Data("mock", {"type": "mock"}, _always(DEFAULT_OUTPUT)),
    Data("shareGPT", {"type": "shareGPT", "path": str(CONVERSATIONS)},
         {"completion": ANSWER_TOKENS + BOS, "chat": DEFAULT_OUTPUT}),
    Data("random", {"type": "random", "input_distribution": _fixed(64), "output_distribution": _fixed(16)},
         _always(16)),
    Data("shared_prefix", {"type": "shared_prefix", "shared_prefix": {
        "num_groups": 2, "num_prompts_per_group": 4, "system_prompt_len": 32, "question_len": 16, "output_len": 12,
        "seed": 7}}, _always(12)),
)}  # fmt: skip

LOADS = {each.name: each for each in (
    Load("constant", {"type": "constant", "stages": [{"rate": 1, "duration": 5}]}, 5, light=True),
    Load("two_stages", {"type": "constant", "interval": 1, "stages": [{"rate": 2, "duration": 3},
                                                                      {"rate": 4, "duration": 3}]}, 18, light=True),
    Load("constant_fast", {"type": "constant", "stages": [{"rate": 100, "duration": 5}]}, 500, light=False),
    Load("poisson", {"type": "poisson", "stages": [{"rate": 5, "duration": 6}]}, 30, light=True),
    Load("concurrent", {"type": "concurrent", "stages": [{"num_requests": 40, "concurrency_level": 4}]}, 40,
         light=True),
)}  # fmt: skip

IMPOSSIBLE = {("random", "chat"): "its random prompts are for the completions API only"}

PRODUCT = [
    (data, load, api) for data, load, api in itertools.product(DATA, LOADS, APIS) if (data, api) not in IMPOSSIBLE
]


def write_config(folder: Path, data: str, load: str | Load, api: str, *, streaming: bool = True) -> Path:
    """Write one configuration file into a new folder and return it."""
    chosen = LOADS[load] if isinstance(load, str) else load
    config = {
        "api": {"type": api, "streaming": streaming},
        "data": DATA[data].config,
        "load": {**chosen.config, "num_workers": 1, "base_seed": 7},
        "server": {"type": "vllm", "model_name": MODEL, "base_url": "http://127.0.0.1:8000", "ignore_eos": True},
        "tokenizer": {"pretrained_model_name_or_path": MODEL},
        # The simulator counts words, and streams them with a space behind: without this TPOT is per token of the text.
        "report": {"request_lifecycle": {"summary": True, "per_stage": True, "per_request": True,
                                         "use_server_output_tokens": True}},
        "storage": {"local_storage": {"path": "reports"}},
    }  # fmt: skip
    folder.mkdir(parents=True)
    path = folder / "inference-perf.yaml"
    path.write_text(json.dumps(config, indent=1))  # JSON is YAML
    return path
