"""What can be asked of the simulator, in which words, and what is refused before anything is started?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loadproof.errors import UsageProblem
from loadproof.simulators.answers import summed
from loadproof.simulators.asked import OURS, Asked
from loadproof.simulators.dialect import Dialect, Speech, read_help, whole_milliseconds
from loadproof.simulators.problems import SimCannotExpress, SimRejectedFlag

HELP = """\
I1130 19:52:23.085111   11920 main.go:36] "Starting vLLM simulator"
Usage of llm-d-inference-sim flags:
      --dataset-in-memory                     Load it all, as --dataset-path says
      --inter-token-latency TIME              Time to generate one token
      --latency-calculator string             Name of the calculator (optional). The default is based on
                                              --no-such-flag and the like
      --max-model-len int                     Model's context window (default 1024)
      --max-num-seqs int                      Maximum number
      --max-waiting-queue-length int          Maximum length (default 1000)
      --mode string                           Simulator mode: echo - returns the same text (default "random")
      --model string                          Currently 'loaded' model
      --port int                              Port (default 8000)
      --seed int                              Random seed (default 1796068343092384291)
      --served-model-name strings[= ]         Model names exposed by the API
      --time-to-first-token TIME              Time to first token
      --tokenizers-cache-dir string           Directory for caching tokenizers
  -v, --v Level                               number for the log level verbosity
"""


def speech(time_type: str = "int", without: str = "nothing at all") -> Speech:
    found = read_help("\n".join(line for line in HELP.replace("TIME", time_type).splitlines() if without not in line))
    assert found is not None
    return found


def asked(**options: Any) -> Asked:
    usual: dict[str, Any] = {"model": "org/m", "ttft_s": 0.1, "itl_s": 0.0, "max_num_seqs": 64, "max_model_len": 32768,
             "max_waiting": 10_000, "seed": 7, "extra_args": ()}  # fmt: skip
    return Asked(**(usual | options))


def test_help_is_read() -> None:
    found = speech()
    assert found.dialect is Dialect.INTEGERS
    assert found.flags["--port"]
    assert found.flags["--v"]
    assert not found.flags["--dataset-in-memory"]
    assert not found.flags["--served-model-name"]  # its list is the words up to the next flag
    assert "--no-such-flag" not in found.flags
    assert len(found.flags) == 14


def test_the_dialect_is_the_type_of_a_time() -> None:
    assert speech("duration").dialect is Dialect.DURATIONS
    assert read_help(HELP.replace("TIME", "float")) is None
    assert read_help("usage: something else") is None
    assert read_help("") is None


@pytest.mark.parametrize(("time_type", "unit"), [("int", ""), ("duration", "ms")])
def test_the_words(time_type: str, unit: str) -> None:
    told = asked(itl_s=0.007, extra_args=("--mode", "echo")).arguments(
        speech(time_type), port=8123, nonce="n-1", tokenizers=Path("/t")
    )
    assert " ".join(told) == (
        "--port 8123 --model org/m --served-model-name org/m n-1 "
        f"--time-to-first-token 100{unit} --inter-token-latency 7{unit} "
        "--max-num-seqs 64 --max-waiting-queue-length 10000 --max-model-len 32768 --seed 7 "
        "--tokenizers-cache-dir /t --mode echo"
    )


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [(0, 0), (0.1, 100), (0.007, 7), (0.1 + 0.2, 300), (0.57 * 3, 1710), (1e-3, 1), (86_400, 86_400_000), (4.35, 4350)],
)
def test_times_are_exact(seconds: float, milliseconds: int) -> None:
    assert whole_milliseconds("itl_s", seconds, Dialect.INTEGERS) == milliseconds


@given(st.integers(0, 86_400_000))
@example(1)
def test_every_millisecond_of_a_day_can_be_told(milliseconds: int) -> None:
    for seconds in (milliseconds / 1000, milliseconds * 0.001):
        assert whole_milliseconds("ttft_s", seconds, Dialect.INTEGERS) == milliseconds


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize(
    ("seconds", "possible"),
    [
        (0.0009, r"0\.001 s \(1 ms\)$"),
        (5e-324, r"0\.001 s \(1 ms\)$"),
        (0.0025, r"0\.002 s \(2 ms\) or 0\.003 s \(3 ms\)$"),
        (0.0020000001, r"0\.002 s \(2 ms\) or 0\.003 s \(3 ms\)$"),
        (86_399.99999, r"86399\.999 s \(86399999 ms\) or 86400\.0 s \(86400000 ms\)$"),
    ],
)
def test_no_time_is_cut(dialect: Dialect, seconds: float, possible: str) -> None:
    """The durations too: the simulator cuts them to milliseconds itself."""
    says = rf"^itl_s: {seconds!r} s is .* {dialect}.*; possible is {possible}"
    with pytest.raises(SimCannotExpress, match=says) as caught:
        asked(itl_s=seconds).arguments(Speech(dialect, speech().flags), port=1, nonce="n", tokenizers=None)
    assert caught.value.option == "itl_s"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ttft_s": -0.001}, "ttft_s: must be from 0 to 86400 seconds, not -0.001"),
        ({"itl_s": math.inf}, "itl_s: must be from 0 to 86400 seconds, not inf"),
        ({"itl_s": math.nan}, "itl_s: must be from 0 to 86400 seconds, not nan"),
        ({"ttft_s": 1e9}, "ttft_s: must be from 0"),
        ({"max_num_seqs": 0}, "max_num_seqs: must be from 1 to 1000000, not 0"),
        ({"max_num_seqs": 10**7}, "max_num_seqs: must be from 1 to 1000000"),
        ({"max_waiting": 0}, "max_waiting: must be from 1"),
        ({"max_model_len": 0}, "max_model_len: must be from 1"),
        ({"seed": 2**63}, "seed: must be from -9223372036854775808 to 9223372036854775807"),
        ({"extra_args": ("--port", "1")}, "extra_args: --port is not yours to set: the runner chooses"),
        ({"extra_args": ("--mode", "echo", "--port=1")}, "extra_args: --port is not yours to set"),
        (
            {"extra_args": ("--inter-token-latency", "5900us")},
            "extra_args: --inter-token-latency is not yours to set: give the runner `itl_s`",
        ),
        *[({"extra_args": (f"{flag}=1",)}, f"extra_args: {flag} is not yours to set") for flag in OURS],
        ({"extra_args": ("--model=x",)}, "extra_args: --model is not yours to set"),
        ({"extra_args": ("--served-model-name", "x")}, "extra_args: --served-model-name is not yours to set"),
        ({"extra_args": ("--tokenizers-cache-dir", "x")}, "extra_args: --tokenizers-cache-dir is not yours to set"),
        ({"extra_args": ("--mode", "a\0b")}, "extra_args: no argument can hold a NUL character"),
    ],
)
def test_what_can_never_be_asked(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        asked(**options)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    "model",
    ["", ".", "..", "../m", "a/../b", "a//b", "/m", "m/", "a\0b", "a\nb", "a b", " m", "-m", "\udc80", "m" * 201],
)
def test_names_that_no_model_has(model: str) -> None:
    with pytest.raises(UsageProblem, match=r"^model: .* cannot be a model's name here; use letters"):
        asked(model=model)


@pytest.mark.parametrize("model", ["m", "google/gemma-3-270m", "a/b/c", "..a", "m" * 200, "\u6771/m-1.0_x"])
def test_names_of_models(model: str) -> None:
    assert asked(model=model).arguments(speech(), port=1, nonce="n", tokenizers=None)[3] == model


@pytest.mark.parametrize("lacking", ["--max-waiting-queue-length", "--seed", "--inter-token-latency"])
def test_a_flag_of_ours_that_it_lacks_is_named(lacking: str) -> None:
    with pytest.raises(SimRejectedFlag, match=f"does not know {lacking}; `llm-d-inference-sim --help` lists"):
        asked().arguments(speech(without=lacking), port=1, nonce="n", tokenizers=None)


def test_a_version_without_a_tokenizer_is_told_so() -> None:
    lacking = speech(without="tokenizers-cache-dir")
    with pytest.raises(SimRejectedFlag, match=r"does not know --tokenizers-cache-dir; versions from 0\.7 on have no"):
        asked().arguments(lacking, port=1, nonce="n", tokenizers=Path("/t"))
    assert asked().arguments(lacking, port=1, nonce="n", tokenizers=None)


@pytest.mark.parametrize(
    ("extra", "unknown"),
    [
        (("--absent", "1"), "--absent"),
        (("--absent=1",), "--absent"),
        (("--mode", "echo", "--absent"), "--absent"),
        (("--dataset-in-memory", "--absent"), "--absent"),
        (("--mode", "--absent"), None),  # a value
        (("--mode=echo", "--absent"), "--absent"),
        (("--mode", "echo", "--", "--absent"), None),  # no flags after that
        (("-v", "5"), None),
    ],
)
def test_flags_of_extra_args(extra: tuple[str, ...], unknown: str | None) -> None:
    rejected = None
    try:
        told = asked(extra_args=extra).arguments(speech(), port=1, nonce="n", tokenizers=None)
    except SimRejectedFlag as problem:
        rejected = str(problem).partition("know ")[2].partition(";")[0]
    else:
        assert tuple(told[-len(extra) :]) == extra
    assert rejected == unknown


def test_metrics_are_summed_over_labels() -> None:
    text = '# TYPE vllm:x counter\nvllm:x_total{a="1"} 3\nvllm:x_total{a="2"} 4\n# TYPE h histogram\n'
    text += 'h_bucket{le="+Inf"} 9\nh_sum 1.5\nh_count 9\n'
    assert summed(text) == {"vllm:x_total": 7, "h_sum": 1.5, "h_count": 9}
    with pytest.raises(ValueError, match="could not convert"):
        summed("this is no exposition {{{ x")
