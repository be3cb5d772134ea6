"""inference-perf: a YAML file of which three values are ours, and a summary in seconds.

Overwritten: server.base_url, tokenizer.pretrained_model_name_or_path, storage.local_storage.path (and the
other stores are not touched). Everything else stays as it is written, byte for byte. Read back:
summary_lifecycle_metrics.json. Left out: its per-request file.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from loadproof.errors import BrokenRun
from loadproof.reported import Distribution, Reported
from loadproof.tools.base import OFFLINE, Command, Setting
from loadproof.tools.environments import executable_of, own_build
from loadproof.tools.lockfile import read_lock
from loadproof.tools.verbatim_yaml import with_values

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

    def check(self, config: Path) -> None:
        """Raise UsageProblem where our three values cannot be put into the file."""
        _with_ours(config, "", Path(), Path())

    def command(self, config: Path, executable: Path, setting: Setting) -> Command:
        """Write the configuration with our three values into `setting.out` and return the command."""
        written = setting.out / config.name
        text = _with_ours(config, setting.base_url, setting.tokenizer, setting.out / "reports")
        written.write_text(text, newline="")
        return Command(argv=[str(executable), "--config_file", str(written)], env=OFFLINE, cwd=setting.out)

    def claims(self, out: Path) -> Reported | None:
        """Read the summary."""
        path = out / "reports" / SUMMARY
        if not path.is_file():
            return None
        try:
            summary = msgspec.json.decode(path.read_bytes(), type=_Summary)
        except (OSError, msgspec.DecodeError) as error:
            raise BrokenRun(f"{path}: cannot be read as the summary of {NAME} {read_lock(NAME).version}: {error}; "
                            "an own build may write another form") from error  # fmt: skip
        return _reported(summary)


def _with_ours(config: Path, base_url: str, tokenizer: Path, reports: Path) -> str:
    return with_values(config, {
        ("server", "base_url"): base_url,
        ("tokenizer", "pretrained_model_name_or_path"): str(tokenizer),
        ("storage", "local_storage", "path"): str(reports),
    })  # fmt: skip


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
