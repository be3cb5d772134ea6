"""What may stand in a case's `expected.yaml`?

Frozen, strict models that allow nothing else: the workload, the load, and what each tool is known to do by
design. Left out on purpose: tolerances, which follow from the request count and the declared spacing; and how
the text becomes a model (`loadproof.strict_yaml`) or a folder a case (`loadproof.case`).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    model_validator,
)

from loadproof.absorber.profile import Profile, named
from loadproof.arrival import FORMS, Arrival
from loadproof.model_places import Where
from loadproof.plain_words import LocatedProblems, Problem, nearest
from loadproof.tools.names import TOOL_FILES

MAY_BE_ALLOWED = (
    *(f"payload.{name}" for name in ("path", "model", "stream", "ignore_eos", "max_tokens", "prompt_tokens")),
    "rate.mean",
    "arrivals.even",
    "arrivals.silence",
    *(f"concurrency.{name}" for name in ("slots", "refill", "ramp")),
    "reports.output_tokens",
)
"""The checks that a case may allow a tool to fail; of a report its tokens, which a tool may count in its own way."""


def _sentence(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty; write one sentence")
    return " ".join(text.split())


def known_tool(name: str) -> str:
    """Return the name of a tool of the registry; anything else is a ValueError that names the nearest."""
    if name not in TOOL_FILES:
        raise ValueError(f"unknown tool{nearest(name, TOOL_FILES) or '; known are ' + ', '.join(TOOL_FILES)}")
    return name


def _may_be_allowed(check: str) -> str:
    if check.strip().lower().startswith("count"):
        raise ValueError("a wrong count is never allowed; leave this allowance out")
    if check not in MAY_BE_ALLOWED:
        raise ValueError(
            f"no check {check!r}{nearest(check, MAY_BE_ALLOWED) or '; known are ' + ', '.join(MAY_BE_ALLOWED)}"
        )
    return check


def _at_least_one[T](items: tuple[T, ...]) -> tuple[T, ...]:
    # pydantic's own min_length counts only the valid items and would call a list with one wrong stage empty
    if not items:
        raise ValueError("must not be empty")
    return items


# Bounds are far beyond any real run; they keep arithmetic on what was read free of overflow.
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Duration = Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)]
Sentence = Annotated[str, AfterValidator(_sentence)]
ToolName = Annotated[str, AfterValidator(known_tool)]
CheckName = Annotated[str, Field(min_length=1), AfterValidator(_may_be_allowed)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    def _exactly_one(self, first: str, second: str) -> None:
        match (getattr(self, first), getattr(self, second)):
            case (None, None):
                raise ValueError(f"{first} or {second} is missing; give exactly one of them")
            case (one, other) if one is not None and other is not None:
                raise ValueError(f"both {first} and {second} are given; give exactly one of them")


class Workload(_Strict):
    """What the requests are and how many; `prompt_tokens` count BOS where a tool sends one (`prompt_extra`).

    `unique_prompts` asserts that no body is sent twice.
    """

    num_requests: Count | None = None
    duration_s: Duration | None = None
    prompt_tokens: Count
    max_tokens: Count
    stream: bool
    ignore_eos: bool
    api: Literal["completions", "chat"] = "completions"
    unique_prompts: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self._exactly_one("num_requests", "duration_s")
        return self


class RateLoad(_Strict):
    """Open loop: `rate` requests per second, with at most `cap` in flight where the tool has such a limit."""

    mode: Literal["rate"]
    rate: Rate
    cap: Count | None = None


class ConcurrencyLoad(_Strict):
    """Closed loop: `concurrency` requests in flight, a new one whenever one ends."""

    mode: Literal["concurrency"]
    concurrency: Count


class Stage(_Strict):
    """One stage: a rate or a concurrency, for a duration or a number of requests, then `gap_s` of silence."""

    rate: Rate | None = None
    concurrency: Count | None = None
    duration_s: Duration | None = None
    num_requests: Count | None = None
    gap_s: Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)] = 0.0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self._exactly_one("rate", "concurrency")
        self._exactly_one("duration_s", "num_requests")
        return self

    @property
    def n(self) -> float | None:
        """The number of requests, where the stage says it."""
        if self.num_requests is not None or self.rate is None or self.duration_s is None:
            return self.num_requests
        return self.rate * self.duration_s


class StagesLoad(_Strict):
    """One stage after another."""

    mode: Literal["stages"]
    stages: Annotated[tuple[Stage, ...], AfterValidator(_at_least_one)]


Load = Annotated[RateLoad | ConcurrencyLoad | StagesLoad, Field(discriminator="mode")]


class PromptExtra(_Strict):
    """Tokens beside the bare text: `bos` is within `prompt_tokens`, `template_tokens` is what `usage` adds in chat."""

    bos: Annotated[int, Field(ge=0, le=1000)] = 1
    template_tokens: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class Allowance(_Strict):
    """A check that this tool is known to fail, and why that is accepted; it is printed and never for the count."""

    check: CheckName
    because: Sentence


class ToolDeclaration(_Strict):
    """What a tool does by design in this case; `claims` maps a claimed quantity to the definition it follows."""

    arrival: Annotated[Arrival, PlainValidator(Arrival.parse), PlainSerializer(str)] | None = None
    leading_extra_requests: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    prompt_extra: PromptExtra = PromptExtra()
    claims: dict[str, str] = {}
    allowances: tuple[Allowance, ...] = ()


class Expected(_Strict):
    """The whole of `expected.yaml`; `deadline_s` is for the whole tool process, start-up included.

    The context of a validation may name the tools that take part: {tool: its file}.
    """

    why: Sentence
    absorber: Annotated[Profile, BeforeValidator(named)] = Profile()
    workload: Workload
    load: Load
    deadline_s: Duration = 120.0
    claims: Literal["shown", "required"] = "shown"
    tools: dict[ToolName, ToolDeclaration] = {}

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
        if problems := [Problem(where, what) for where, what in told.items() if what]:
            raise LocatedProblems(problems)
        return self

    def _count_problem(self) -> str:
        counts = [stage.n for stage in self.load.stages] if isinstance(self.load, StagesLoad) else [None]
        asked, known = self.workload.num_requests, [count for count in counts if count is not None]
        if asked is None or len(known) < len(counts) or abs(sum(known) - asked) < 1:
            return ""
        return f"the stages make {sum(known):g} requests together, got {asked}"
