"""Does the adapter overwrite three values and nothing else, and read the summary as it is written?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from loadproof.errors import BrokenRun, UsageProblem
from loadproof.reported import Distribution, Reported
from loadproof.tools.base import Setting
from loadproof.tools.inference_perf import InferencePerf

TOOL = InferencePerf()
CASES = Path(__file__).parents[1] / "parity" / "cases"

FULL = """\
# a comment at the top
server:
    base_url: 'http://example.invalid:1'   # ours
    model_name: "google/gemma-3-270m"
    ignore_eos: yes
load:   {type: constant,   stages: [{rate: 1e1, duration: 0x10}]}

data:
    - 'one'
    -   two  # odd, and none of our business
tokenizer:
    pretrained_model_name_or_path: >-
        google/gemma-3-270m
storage:
    local_storage: {path: reports, report_file_prefix: null}
    simple_storage_service:
"""

SUMMARY = {
    "load_summary": {"count": 3},
    "benchmark_time_seconds": 2.5,
    "successes": {
        "count": 2,
        "latency": {
            "request_latency": {"mean": 0.25, "min": 0.2, "p90": 0.28, "median": 0.24, "p99": 0.3},
            "time_to_first_token": {"mean": 0.1, "median": 0.09, "p90": 0.11, "p99": 0.12},
            "time_per_output_token": {"mean": 0.01, "median": 0.011, "p90": 0.012, "p99": 0.013},
            "inter_token_latency": {"mean": 0.02, "median": 0.021, "p90": 0.022, "p99": 0.023},
        },
        "throughput": {"requests_per_sec": 0.8, "output_tokens_per_sec": 12.8},
        "prompt_tokens": {"total": 256.0, "mean": 128.0},
        "output_tokens": {"total": 32.0, "mean": 16.0},
    },
    "failures": {"count": 1, "request_latency": None},
}


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    out = tmp_path / "out"
    out.mkdir()
    return Setting(base_url="http://127.0.0.1:8", model="m", tokenizer=Path("/t/it is"), out=out, seed=0)


def _config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "inference-perf.yaml"
    path.write_text(text, newline="")
    return path


def _written(config: Path, setting: Setting) -> str:
    command = TOOL.command(config, Path("/bin/inference-perf"), setting)
    assert command.argv == ["/bin/inference-perf", "--config_file", str(setting.out / "inference-perf.yaml")]
    assert command.cwd == setting.out
    assert command.env["HF_HUB_OFFLINE"] == "1"
    return (setting.out / "inference-perf.yaml").read_text(newline="")


def test_only_three_values_change(tmp_path: Path, setting: Setting) -> None:
    config = _config(tmp_path, FULL)
    reports = setting.out / "reports"
    assert _written(config, setting) == (
        FULL.replace("'http://example.invalid:1'", '"http://127.0.0.1:8"')
        .replace(">-\n        google/gemma-3-270m\n", '"/t/it is"\n')
        .replace("path: reports", f'path: "{reports}"')
    )  # fmt: skip
    assert config.read_text() == FULL


def test_line_ends_stay(tmp_path: Path, setting: Setting) -> None:
    text = "server:\r\n  base_url: x\r\ntokenizer: {pretrained_model_name_or_path: y}\r\nstorage: {}\r\n"
    lines = _written(_config(tmp_path, text), setting).split("\r\n")
    assert lines[0] == "server:"
    assert lines[1] == '  base_url: "http://127.0.0.1:8"'
    assert len(lines) == 5


@pytest.mark.parametrize("case", ["a_fixed_rate", "b_fixed_concurrency"])
def test_starter_cases_keep_every_other_line(setting: Setting, case: str) -> None:
    config = CASES / case / "inference-perf.yaml"
    before, after = config.read_text().splitlines(), _written(config, setting).splitlines()
    changed = [
        (old.split(":")[0].strip(), new.split(": ")[1]) for old, new in zip(before, after, strict=True) if old != new
    ]
    assert changed == [
        ("base_url", '"http://127.0.0.1:8"'),
        ("pretrained_model_name_or_path", '"/t/it is"'),
        ("path", f'"{setting.out / "reports"}"'),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "api: {type: chat}\n",
        "{api: {type: chat}}\n",
        "server: {}\ntokenizer:\nstorage:\n  # of several kinds\n  local_storage:\n",
        "server:\n  base_url:  # to be said\n  model_name: m\nstorage: ~",
        "server: {model_name: m}\nstorage: {local_storage: {}}\n",
        "%YAML 1.2\n---\napi: {type: chat}\n? server\n: base_url: x\n...\n",
    ],
)
def test_what_is_not_there_is_added(tmp_path: Path, setting: Setting, text: str) -> None:
    written = _written(_config(tmp_path, text), setting)
    read, before = YAML(typ="safe").load(written), YAML(typ="safe").load(text)
    assert read["server"]["base_url"] == "http://127.0.0.1:8"
    assert read["tokenizer"] == {"pretrained_model_name_or_path": "/t/it is"}
    assert read["storage"] == {"local_storage": {"path": str(setting.out / "reports")}}
    assert {key: value for key, value in read.items() if key == "api"} == {
        k: v for k, v in before.items() if k == "api"
    }
    assert read["server"].get("model_name") == (before.get("server") or {}).get("model_name")
    assert written.count("#") == text.count("#")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- 1\n", ": must be a mapping of keys"),
        ("", ": must be a mapping of keys"),
        ("{}", ": must be a mapping of keys"),
        ("server: [\n", ":2: a value is missing here, or a bracket above is not closed"),
        ("a: 1\n---\nb: 1\n", ":2: a second document begins here"),
        ("a: 1\nserver: x\n", ":2: server must be a mapping that holds base_url"),
        ("storage:\n  local_storage: [x]\n", ":2: storage.local_storage must be a mapping that holds path"),
        ("server:\n  base_url: {a: 1}\n", ":2: server.base_url must be one text"),
        ("x: &u http://1\nserver:\n  base_url: *u\n", ":3: base_url is an anchor or an alias"),
        ("server: &s {base_url: x}\n", ":1: server is an anchor or an alias"),
        ("? server\n: a: 1\n", ": server.base_url cannot be overwritten; write it on a line of its own"),
        ("server: {a: 1}\nserver: {b: 2}\n", ":2: the key 'server' is given twice; keep one of them"),
    ],
)  # fmt: skip
def test_what_cannot_be_used(tmp_path: Path, setting: Setting, text: str, says: str) -> None:
    config = _config(tmp_path, text)
    for ask in (lambda: TOOL.check(config), lambda: TOOL.command(config, Path("x"), setting)):
        with pytest.raises(UsageProblem) as raised:
            ask()
        assert str(raised.value).startswith(f"{config}{says}")
    assert list(setting.out.iterdir()) == []


def test_check_accepts_and_writes_nothing(tmp_path: Path) -> None:
    config = _config(tmp_path, FULL)
    TOOL.check(config)
    assert [path.name for path in tmp_path.iterdir()] == [config.name]


def _summary(out: Path, summary: object) -> None:
    (out / "reports").mkdir()
    (out / "reports" / "summary_lifecycle_metrics.json").write_text(json.dumps(summary))


def test_claims(tmp_path: Path) -> None:
    _summary(tmp_path, SUMMARY)
    assert TOOL.claims(tmp_path) == Reported(
        tool="inference-perf", completed=2, failed=1, duration_s=2.5, request_rate_per_s=0.8,
        ttft_s=Distribution(mean=0.1, p50=0.09, p90=0.11, p99=0.12),
        tpot_s=Distribution(mean=0.01, p50=0.011, p90=0.012, p99=0.013),
        itl_s=Distribution(mean=0.02, p50=0.021, p90=0.022, p99=0.023),
        latency_s=Distribution(mean=0.25, p50=0.24, p90=0.28, p99=0.3),
        input_tokens=256.0, output_tokens=32.0,
    )  # fmt: skip


def test_claims_without_a_latency(tmp_path: Path) -> None:
    """As it is written when no request succeeded."""
    _summary(tmp_path, {"successes": {"count": 0, "latency": None, "throughput": None}, "failures": {"count": 4}})
    assert TOOL.claims(tmp_path) == Reported(tool="inference-perf", completed=0, failed=4)


def test_claims_with_one_latency_null(tmp_path: Path) -> None:
    """As it is written without streaming: there is no first token to time."""
    latency = {"request_latency": {"mean": 0.2}, "time_to_first_token": None}
    _summary(tmp_path, {"successes": {"count": 1, "latency": latency}, "failures": {"count": 0}})
    claimed = TOOL.claims(tmp_path)
    assert claimed is not None
    assert claimed.ttft_s is None
    assert claimed.latency_s == Distribution(mean=0.2)


def test_no_summary_is_no_claim(tmp_path: Path) -> None:
    assert TOOL.claims(tmp_path) is None


@pytest.mark.parametrize(
    "summary",
    [[], {}, {"successes": {"count": 1}}, {"successes": {"count": "two"}, "failures": {"count": 0}}, None],
)
def test_odd_summary_is_broken(tmp_path: Path, summary: object) -> None:
    _summary(tmp_path, summary)
    with pytest.raises(BrokenRun, match=r"summary_lifecycle_metrics\.json: cannot be read as the summary of inference"):
        TOOL.claims(tmp_path)
