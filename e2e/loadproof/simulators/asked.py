"""What may be asked of llm-d-inference-sim, and with which arguments is it told?

Everything that can be seen to be wrong without it is told before anything is started. Times are told on the way to
its arguments, since what they may be is the executable's own affair.
"""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from loadproof.errors import UsageProblem
from loadproof.simulators.dialect import TOKENIZERS_FLAG, Speech

OURS = {
    "--port": "the runner chooses a free one; read `port`",
    "--model": "give the runner another `model`",
    "--served-model-name": "it carries the name by which the runner knows its own simulator; ask by `model`",
    TOKENIZERS_FLAG: "give the runner a `tokenizer_dir`",
    "--time-to-first-token": "give the runner `ttft_s`",
    "--inter-token-latency": "give the runner `itl_s`",
    "--max-num-seqs": "give the runner `max_num_seqs`",
    "--max-waiting-queue-length": "give the runner `max_waiting`",
    "--max-model-len": "give the runner `max_model_len`",
    "--seed": "give the runner a `seed`",
}
"""The flags that `extra_args` may not hold, each with what to do instead."""

LONGEST_TIME_S = 86_400.0
MOST_REQUESTS = 1_000_000  # it makes room for that many of everything when it starts
MOST_TOKENS = 2**31 - 1
LONGEST_MODEL_BYTES = 200


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of one simulator; making it raises UsageProblem for what cannot be asked. Times in seconds."""

    model: str
    ttft_s: float
    itl_s: float
    max_num_seqs: int
    max_model_len: int
    max_waiting: int
    seed: int
    extra_args: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check it all."""
        _require_model_name(self.model)
        for option in ("ttft_s", "itl_s"):
            seconds = getattr(self, option)
            if not (math.isfinite(seconds) and 0 <= seconds <= LONGEST_TIME_S):
                raise UsageProblem(f"{option}: must be from 0 to {LONGEST_TIME_S:g} seconds, not {seconds:g}")
        _require_within("max_num_seqs", self.max_num_seqs, 1, MOST_REQUESTS)
        _require_within("max_waiting", self.max_waiting, 1, MOST_REQUESTS)
        _require_within("max_model_len", self.max_model_len, 1, MOST_TOKENS)
        _require_within("seed", self.seed, -(2**63), 2**63 - 1)
        for word in self.extra_args:
            if why := OURS.get(word.partition("=")[0]):
                raise UsageProblem(f"extra_args: {word.partition('=')[0]} is not yours to set: {why}")
            if "\0" in word:
                raise UsageProblem("extra_args: no argument can hold a NUL character; leave it out")

    def arguments(self, speech: Speech, *, port: int, nonce: str, tokenizers: Path | None) -> list[str]:
        """Return the words after the executable. `nonce` is a second name of the model, metrics carry the first.

        Raises SimCannotExpress for a time that cannot be told, SimRejectedFlag for a flag that is not known.
        """
        words = ["--port", str(port), "--model", self.model]
        words += ["--served-model-name", self.model, nonce]  # a list: it ends at the next word with two hyphens
        words += ["--time-to-first-token", speech.time("ttft_s", self.ttft_s)]
        words += ["--inter-token-latency", speech.time("itl_s", self.itl_s)]
        words += ["--max-num-seqs", str(self.max_num_seqs), "--max-waiting-queue-length", str(self.max_waiting)]
        words += ["--max-model-len", str(self.max_model_len), "--seed", str(self.seed)]
        words += [TOKENIZERS_FLAG, str(tokenizers)] if tokenizers else []
        words += self.extra_args
        speech.require(words)
        return words


def _require_within(option: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise UsageProblem(f"{option}: must be from {least} to {most}, not {value}")


def _require_model_name(model: str) -> None:
    # It is an argument, a JSON string and, with a tokenizer, the name of a folder below a folder of ours.
    parts = model.split("/")
    if (
        not model.isprintable()
        or model.split() != [model]
        or model.startswith("-")
        or {"", ".", ".."} & set(parts)
        or len(model.encode()) > LONGEST_MODEL_BYTES
    ):
        raise UsageProblem(
            f"model: {model[:LONGEST_MODEL_BYTES]!r} cannot be a model's name here; use letters, digits and . _ - with "
            f"single slashes between words, as in org/name, at most {LONGEST_MODEL_BYTES} bytes"
        )
