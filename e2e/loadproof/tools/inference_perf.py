"""inference-perf: a YAML file of which three values are ours, and a summary in seconds.

Overwritten: server.base_url, tokenizer.pretrained_model_name_or_path, storage.local_storage.path (and the
other stores are not touched). Everything else stays as it is written, comments included. Read back:
summary_lifecycle_metrics.json. Left out: its per-request file.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from loadproof.errors import BrokenRun, UsageProblem
from loadproof.reported import Distribution, Reported
from loadproof.tools.base import OFFLINE, Command, Setting
from loadproof.tools.environments import executable_of, own_build
from loadproof.tools.lockfile import read_lock

NAME = "inference-perf"
OWN_BUILD = "LOADPROOF_INFERENCE_PERF"
SUMMARY = "summary_lifecycle_metrics.json"


class _Latency(msgspec.Struct, frozen=True):
    mean: float | None = None
    median: float | None = None
    p90: float | None = None
    p99: float | None = None

    def distribution(self) -> Distribution:
        return Distribution(mean=self.mean, p50=self.median, p90=self.p90, p99=self.p99)


class _Latencies(msgspec.Struct, frozen=True):
    request_latency: _Latency | None = None
    time_to_first_token: _Latency | None = None
    time_per_output_token: _Latency | None = None
    inter_token_latency: _Latency | None = None


class _Throughput(msgspec.Struct, frozen=True):
    requests_per_sec: float | None = None


class _Tokens(msgspec.Struct, frozen=True):
    total: float | None = None


class _Successes(msgspec.Struct, frozen=True):
    count: int
    latency: _Latencies | None = None
    throughput: _Throughput | None = None
    prompt_tokens: _Tokens | None = None
    output_tokens: _Tokens | None = None


class _Failures(msgspec.Struct, frozen=True):
    count: int


class _Summary(msgspec.Struct, frozen=True):
    successes: _Successes
    failures: _Failures
    benchmark_time_seconds: float | None = None


class InferencePerf:
    """The adapter."""

    name = NAME

    def executable(self, config: Path) -> Path | None:
        """Return the person's own build if one is named, else the installed one."""
        del config
        return own_build(OWN_BUILD) or executable_of(NAME, NAME)

    def how_to_get(self) -> str:
        """Return the one line that says how to get it."""
        return f"`loadproof tools sync {NAME}`, or {OWN_BUILD}=/path/to/{NAME}"

    def version(self) -> str:
        """Return the pinned version; an own build's is its own."""
        return "own build" if own_build(OWN_BUILD) else read_lock(NAME).version

    def command(self, config: Path, executable: Path, setting: Setting) -> Command:
        """Write the configuration with our three values into `setting.out` and return the command."""
        yaml = YAML()
        yaml.preserve_quotes = True
        yaml.width = 4096
        try:
            document = yaml.load(config.read_text())
        except YAMLError as error:
            raise UsageProblem(f"{config}: is not valid YAML: {error}") from error
        if not isinstance(document, CommentedMap):
            raise UsageProblem(f"{config}: must be a mapping, as `inference-perf --config_file` wants it")
        _put(document, ("server", "base_url"), setting.base_url, config)
        _put(document, ("tokenizer", "pretrained_model_name_or_path"), str(setting.tokenizer), config)
        _put(document, ("storage", "local_storage", "path"), str(setting.out / "reports"), config)
        written = setting.out / config.name
        with written.open("w") as file:
            yaml.dump(document, file)
        return Command(argv=[str(executable), "--config_file", str(written)], env=OFFLINE, cwd=setting.out)

    def claims(self, out: Path) -> Reported | None:
        """Read the summary."""
        path = out / "reports" / SUMMARY
        if not path.is_file():
            return None
        try:
            summary = msgspec.json.decode(path.read_bytes(), type=_Summary)
        except msgspec.DecodeError as error:
            raise BrokenRun(f"{path}: cannot be read as this version's summary: {error}") from error
        return _reported(summary)


def _put(document: CommentedMap, keys: tuple[str, ...], value: str, config: Path) -> None:
    place = document
    for key in keys[:-1]:
        place = place.setdefault(key, CommentedMap())
        if not isinstance(place, CommentedMap):
            raise UsageProblem(f"{config}: {key} must be a mapping that holds {keys[-1]}")
    place[keys[-1]] = value


def _reported(summary: _Summary) -> Reported:
    good = summary.successes
    latency = good.latency or _Latencies()

    def told(value: _Latency | None) -> Distribution | None:
        return value.distribution() if value is not None else None

    return Reported(
        tool=NAME,
        completed=good.count,
        failed=summary.failures.count,
        duration_s=summary.benchmark_time_seconds,
        request_rate_per_s=good.throughput.requests_per_sec if good.throughput else None,
        ttft_s=told(latency.time_to_first_token),
        itl_s=told(latency.inter_token_latency),
        tpot_s=told(latency.time_per_output_token),
        latency_s=told(latency.request_latency),
        input_tokens=good.prompt_tokens.total if good.prompt_tokens else None,
        output_tokens=good.output_tokens.total if good.output_tokens else None,
    )
