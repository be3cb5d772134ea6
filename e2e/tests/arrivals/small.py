"""Small loads of the reference sender, as case folders that a test makes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

EXPECTED = """\
why: a small load for the reference sender
absorber: {{ttft_s: {ttft}, itl_s: 0.01}}
workload:
  num_requests: {count}
  prompt_tokens: 48
  max_tokens: 5
  stream: true
  ignore_eos: true
  unique_prompts: true
  {workload}
  headers: {{Content-Type: application/json}}
load: {load}
tools:
  metronome: {declared}
"""


@dataclass(frozen=True)
class Small:
    """A load: how `expected.yaml` and the sender's arguments say it."""

    count: int
    load: str
    arguments: tuple[str, ...]
    arrival: str = ""
    ttft: str = "0.06"  # with 5 tokens a reply takes 0.1 s
    workload: str = ""

    def write(self, folder: Path, *extra: str) -> Path:
        folder.mkdir()
        declared = f"{{arrival: {self.arrival}}}" if self.arrival else "{}"
        text = EXPECTED.format(
            count=self.count, load=self.load, declared=declared, ttft=self.ttft, workload=self.workload
        )
        (folder / "expected.yaml").write_text(text)
        spaced = ("--arrival", self.arrival) if self.arrival else ()
        size = ("--prompt-tokens", "48", "--max-tokens", "5")
        (folder / "metronome.args").write_text("\n".join([*self.arguments, *spaced, *size, *extra]))
        return folder


def at_a_rate(rate: int, count: int, arrival: str, *, cap: int | None = None) -> Small:
    load = f"{{mode: rate, rate: {rate}" + (f", cap: {cap}}}" if cap else "}")
    arguments = ["--rate", f"{rate}", "--num-requests", f"{count}", *(["--cap", f"{cap}"] if cap else [])]
    return Small(count, load, tuple(arguments), arrival)


def with_slots(slots: int, count: int, *, ttft: str = "0.06") -> Small:
    load = f"{{mode: concurrency, concurrency: {slots}}}"
    return Small(count, load, ("--concurrency", f"{slots}", "--num-requests", f"{count}"), ttft=ttft)


def in_stages(*stages: str, arrival: str = "", count: int) -> Small:
    """Each stage as the sender's argument says it."""
    listed = ", ".join("{" + stage.replace("=", ": ").replace(",", ", ") + "}" for stage in stages)
    arguments = tuple(part for stage in stages for part in ("--stage", stage))
    return Small(count, f"{{mode: stages, stages: [{listed}]}}", arguments, arrival)
