"""What may stand in a case's `expected.yaml`?

Frozen, strict models that allow nothing else: the load, what each tool is known to do by design, and with the
workload (`loadproof.workload`) the whole. Left out on purpose: tolerances, which follow from the request count and the
declared spacing; and how the text becomes a model (`loadproof.strict_yaml`) or a folder a case (`loadproof.case`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    model_validator,
)

from loadproof.absorber.profile import Profile, named
from loadproof.allowances import MAY_BE_ALLOWED, Allowance, split_stage
from loadproof.arrival import FORMS, Arrival
from loadproof.model_places import Where
from loadproof.plain_words import LocatedProblems, Problem, nearest
from loadproof.strict_model import Count, Duration, Sentence, Strict
from loadproof.tools.names import TOOL_FILES
from loadproof.workload import Workload

__all__ = [
    "MAY_BE_ALLOWED", "Allowance", "ConcurrencyLoad", "Expected", "Load", "PromptExtra", "RateLoad", "Stage",
    "StagesLoad", "ToolDeclaration", "Workload", "known_tool",
]  # fmt: skip


def known_tool(name: str) -> str:
    """Return the name of a tool of the registry; anything else is a ValueError that names the nearest."""
    if name not in TOOL_FILES:
        raise ValueError(f"unknown tool{nearest(name, TOOL_FILES) or '; known are ' + ', '.join(TOOL_FILES)}")
    return name


def _at_least_one[T](items: tuple[T, ...]) -> tuple[T, ...]:
    # pydantic's own min_length counts only the valid items and would call a list with one wrong stage empty
    if not items:
        raise ValueError("must not be empty")
    return items


Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
ToolName = Annotated[str, AfterValidator(known_tool)]


class RateLoad(Strict):
    """Open loop: `rate` requests per second, with at most `cap` in flight where the tool has such a limit."""

    mode: Literal["rate"]
    rate: Rate
    cap: Count | None = None


class ConcurrencyLoad(Strict):
    """Closed loop: `concurrency` requests in flight, a new one whenever one ends."""

    mode: Literal["concurrency"]
    concurrency: Count


class Stage(Strict):
    """One stage: a rate or a concurrency, for a duration or a number of requests, then `gap_s` of silence."""

    rate: Rate | None = None
    concurrency: Count | None = None
    duration_s: Duration | None = None
    num_requests: Count | None = None
    gap_s: Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)] = 0.0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.exactly_one("rate", "concurrency")
        self.exactly_one("duration_s", "num_requests")
        return self

    @property
    def n(self) -> float | None:
        """The number of requests, where the stage says it."""
        if self.num_requests is not None or self.rate is None or self.duration_s is None:
            return self.num_requests
        return self.rate * self.duration_s


class StagesLoad(Strict):
    """One stage after another."""

    mode: Literal["stages"]
    stages: Annotated[tuple[Stage, ...], AfterValidator(_at_least_one)]


Load = Annotated[RateLoad | ConcurrencyLoad | StagesLoad, Field(discriminator="mode")]


class PromptExtra(Strict):
    """Tokens beside the bare text: `bos` is within `prompt_tokens`, `template_tokens` is what `usage` adds in chat."""

    bos: Annotated[int, Field(ge=0, le=1000)] = 1
    template_tokens: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class ToolDeclaration(Strict):
    """What a tool does by design in this case; `claims` maps a claimed quantity to the definition it follows.

    `connections` are reused from request to request, or each request opens its own.
    """

    arrival: Annotated[Arrival, PlainValidator(Arrival.parse), PlainSerializer(str)] | None = None
    leading_extra_requests: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    prompt_extra: PromptExtra = PromptExtra()
    connections: Literal["reused", "per_request"] = "reused"
    claims: dict[str, str] = Field(default_factory=dict)
    allowances: tuple[Allowance, ...] = ()


class Expected(Strict):
    """The whole of `expected.yaml`; `deadline_s` is for the whole tool process, start-up included.

    The context of a validation may name the tools that take part: {tool: its file}.
    """

    why: Sentence
    absorber: Annotated[Profile, BeforeValidator(named)] = Profile()
    workload: Workload
    load: Load
    deadline_s: Duration = 120.0
    claims: Literal["shown", "required"] = "shown"
    tools: dict[ToolName, ToolDeclaration] = Field(default_factory=dict)

    @property
    def open_loop(self) -> bool:
        """Is anything sent by a clock, so that an arrival process must be declared?"""
        if isinstance(self.load, StagesLoad):
            return any(stage.rate is not None for stage in self.load.stages)
        return isinstance(self.load, RateLoad)

    def arrival_problem(self, tool: str) -> str:
        """Return what is wrong with the tool's `arrival` under this load; empty when nothing is."""
        declared = self.tools[tool].arrival if tool in self.tools else None
        if self.open_loop and declared is None:
            return f"this required key is missing: with a rate, say how the tool spaces its requests: {FORMS}"
        if declared is not None and not self.open_loop:
            return "with a fixed concurrency there is no arrival process; leave this key out"
        return ""

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo) -> Self:
        told: dict[Where, str] = {("tools", tool, "arrival"): self.arrival_problem(tool) for tool in self.tools}
        for tool, file in (info.context or {}).items():
            if tool not in self.tools and (problem := self.arrival_problem(tool)):
                told["tools", tool, "arrival"] = f"{problem} ({file} is in the folder)"
        told["workload", "num_requests"] = self._count_problem()
        told |= {where: self._stage_problem(check) for where, check in self._allowed()}
        if problems := [Problem(where, what) for where, what in told.items() if what]:
            raise LocatedProblems(problems)
        return self

    def _count_problem(self) -> str:
        counts = [stage.n for stage in self.load.stages] if isinstance(self.load, StagesLoad) else [None]
        asked, known = self.workload.num_requests, [count for count in counts if count is not None]
        if asked is None or len(known) < len(counts) or abs(sum(known) - asked) < 1:
            return ""
        return f"the stages make {sum(known):g} requests together, got {asked}"

    def _allowed(self) -> Iterator[tuple[Where, str]]:
        for tool, declared in self.tools.items():
            for k, allowance in enumerate(declared.allowances):
                yield ("tools", tool, "allowances", k, "check"), allowance.check

    def _stage_problem(self, check: str) -> str:
        name, stage = split_stage(check)
        stages = len(self.load.stages) if isinstance(self.load, StagesLoad) else 0
        if stage is None or stage <= stages:
            return ""
        return f"there is no stage {stage}: " + (
            f"the load has {stages}" if stages else f"the load has none; did you mean {name!r}?"
        )
