"""What is the absorber told to do?

One frozen model, read from a case's `absorber:` block, a YAML file, a name or flags. It says how the server
behaves and never what is expected of a tool. Times and lengths are numbers, which are constants, or laws
(`laws`) by which each request draws. Left out: what becomes of it for one request (`plan`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from loadproof.absorber.laws import Empirical, Gamma, Law, Lognormal, Normal
from loadproof.plain_words import LocatedProblems, Problem, nearest, shown

LONGEST_S = 3600
MOST_TOKENS = 1_000_000
MOST_SLOTS = 1_000_000
PRECOMPILED_TOKENS = 16

LAWS = ("normal", "lognormal", "gamma", "empirical")

NAMED: dict[str, dict[str, Any]] = {
    "max-throughput": {"precompiled": True, "output_tokens": PRECOMPILED_TOKENS},
    "variable-response": {
        "ttft_s": {"law": "lognormal", "median": 0.1, "sigma": 0.5},
        "itl_s": {"law": "lognormal", "median": 0.02, "sigma": 0.3},
        "output_tokens": {"law": "lognormal", "median": 64, "sigma": 0.6},
    },
}
"""The profiles that have a name, as one would write them in a file."""


def _branch(value: object) -> str:
    """Return which branch a value belongs to: a law's name, or the number that is a constant."""
    law = value.get("law") if isinstance(value, dict) else getattr(value, "law", None)
    return str(law) if law else "number"


def _number_or_law(value: object) -> object:
    """Refuse what is neither, in words: pydantic would tell what is wrong with it as each of them."""
    if isinstance(value, Law) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    options = ", ".join(LAWS)
    if not isinstance(value, dict):
        problem = Problem((), f"expected a number, or a mapping with a law ({options}), got {shown(value)}")
    elif "law" not in value:
        problem = Problem(("law",), f"this required key is missing; give one of {options}")
    elif (law := value["law"]) not in LAWS:
        problem = Problem(("law",), f"expected one of {options}, got {shown(law)}{nearest(str(law), LAWS)}")
    else:
        return value
    raise LocatedProblems([problem])


Seconds = Annotated[float, Field(ge=0, le=LONGEST_S, allow_inf_nan=False)]
MeanSeconds = Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)]
Tokens = Annotated[int, Field(ge=1, le=MOST_TOKENS)]
MeanTokens = Annotated[float, Field(ge=1, le=MOST_TOKENS, allow_inf_nan=False)]

Time = Annotated[
    Annotated[Seconds, Tag("number")]
    | Annotated[Normal[MeanSeconds], Tag("normal")]
    | Annotated[Lognormal[MeanSeconds], Tag("lognormal")]
    | Annotated[Gamma[MeanSeconds], Tag("gamma")]
    | Annotated[Empirical[Seconds], Tag("empirical")],
    Discriminator(_branch), BeforeValidator(_number_or_law),
]  # fmt: skip
Length = Annotated[
    Annotated[Tokens, Tag("number")]
    | Annotated[Normal[MeanTokens], Tag("normal")]
    | Annotated[Lognormal[MeanTokens], Tag("lognormal")]
    | Annotated[Gamma[MeanTokens], Tag("gamma")]
    | Annotated[Empirical[Tokens], Tag("empirical")],
    Discriminator(_branch), BeforeValidator(_number_or_law),
]  # fmt: skip


def _average(amount: float | Law) -> float:
    return amount.average if isinstance(amount, Law) else amount


class Profile(BaseModel):
    """The server's behaviour; times in seconds, lengths in tokens.

    `ttft_s`: from a request's arrival to its first token. `itl_s`: between two tokens of a stream.
    `output_tokens`: how long the model would talk if nobody stopped it (None: until `max_tokens`).
    `seed`: of everything drawn; constants draw nothing.
    `slots`: how many requests are served at once (None: all); the others wait in the order of arrival, and their TTFT
    counts from the arrival all the same.
    `chunk_text`: a chunk of a stream has its space before the word, and is one token alone ("exact"), or behind it, as
    llm-d-inference-sim has ("trailing_space"); then the last has none, so that the text as a whole still is as many
    tokens as are claimed.
    `precompiled`: every choice is the same `output_tokens` tokens (16 by default), at once and whatever is asked.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    ttft_s: Time = 0.0
    itl_s: Time = 0.0
    output_tokens: Length | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS)] | None = None
    chunk_text: Literal["exact", "trailing_space"] = "exact"
    precompiled: bool = False

    @model_validator(mode="before")
    @classmethod
    def _precompiled_length(cls, given: object) -> object:
        if isinstance(given, dict) and given.get("precompiled") is True:
            return {"output_tokens": PRECOMPILED_TOKENS, **given}
        return given

    @model_validator(mode="after")
    def _precompiled_alone(self) -> Self:
        if not self.precompiled:
            return self
        why = "with precompiled, because every reply is then the same and leaves at once"
        found = [Problem((name,), f"must be 0 {why}") for name in ("ttft_s", "itl_s") if getattr(self, name) != 0]
        if not isinstance(self.output_tokens, int):
            found.append(Problem(("output_tokens",), f"must be a number {why}"))
        if self.slots is not None:
            found.append(Problem(("slots",), f"must be left out {why}"))
        if found:
            raise LocatedProblems(found)
        return self

    @property
    def draws(self) -> bool:
        """Whether anything is drawn, so that a plan needs the request's digest."""
        # Asked for every request: a built-in type is recognised several times faster than a Law is.
        constant = isinstance(self.ttft_s, float) and isinstance(self.itl_s, float)
        return not (constant and isinstance(self.output_tokens, int | None))

    @property
    def unpaced(self) -> bool:
        """Whether every token of every reply is due with the arrival."""
        return not self.draws and self.ttft_s == 0 and self.itl_s == 0

    def latency_s(self, tokens: int) -> float:
        """Return the mean time from the begin of service to the last token of a reply of `tokens` tokens, in seconds.

        Of constants it is the time itself. Without `slots` service begins with the arrival.
        """
        return _average(self.ttft_s) + max(0, tokens - 1) * _average(self.itl_s)

    def usual_tokens(self, max_tokens: int, *, ignore_eos: bool) -> int:
        """Return how long a reply to such a request is; of drawn lengths the mean, cut at `max_tokens`."""
        talks = self.output_tokens
        if talks is None or (ignore_eos and not self.precompiled):
            return max_tokens
        usual = max(1, round(_average(talks)))
        return usual if self.precompiled else min(max_tokens, usual)


def profile_named(name: str) -> Profile:
    """Return the profile of that name. Raises ValueError that names the nearest, or all."""
    if name not in NAMED:
        all_of_them = f"; the names are {', '.join(NAMED)}"
        raise ValueError(f"no profile has the name {name!r}{nearest(name, NAMED) or all_of_them}")
    return Profile.model_validate(NAMED[name])


def named(value: object) -> object:
    """Return the profile where the value is text, as `profile_named` does; give back what is not text."""
    return profile_named(value) if isinstance(value, str) else value
