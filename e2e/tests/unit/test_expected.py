"""Does `expected.yaml` mean exactly what is written there, and is every mistake in it told with line and nearest?"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from loadproof.arrival import Arrival, Law
from loadproof.case import Case, Expected, StagesLoad, ToolDeclaration
from loadproof.case_rules import warnings
from loadproof.errors import UsageProblem
from loadproof.strict_yaml import read_strict_text
from loadproof.tools.names import TOOL_FILES
from tests.unit.case_texts import CLOSED, RATE

STAGES = RATE.replace("mode: rate\n  rate: 40", "mode: stages\n  stages:\n    - {rate: 40, duration_s: 15}")


def problems(text: str) -> list[str]:
    with pytest.raises(UsageProblem) as raised:
        read_strict_text(text, "e.yaml", Expected)
    return str(raised.value).splitlines()


def test_defaults_are_those_of_the_design() -> None:
    expected = read_strict_text(RATE, "e.yaml", Expected)
    assert (expected.deadline_s, expected.claims, expected.workload.api) == (120.0, "shown", "completions")
    assert not expected.workload.unique_prompts
    assert expected.tools["vllm"] == ToolDeclaration(arrival=Arrival(Law.FIXED_SPAN))
    assert (ToolDeclaration().leading_extra_requests, ToolDeclaration().prompt_extra.bos) == (0, 1)
    assert ToolDeclaration().prompt_extra.template_tokens == 0


@pytest.mark.parametrize("text", [RATE, CLOSED, STAGES])
def test_what_was_read_survives_json(text: str) -> None:
    expected = read_strict_text(text, "e.yaml", Expected)
    assert Expected.model_validate_json(expected.model_dump_json()) == expected


@pytest.mark.parametrize(
    ("text", "law", "shape"),
    [
        ("constant", Law.CONSTANT, 1.0),
        ("fixed-span", Law.FIXED_SPAN, 1.0),
        ("fixed-span(0.5)", Law.FIXED_SPAN, 0.5),
        ("poisson", Law.POISSON, 1.0),
        ("gamma(0.5)", Law.GAMMA, 0.5),
        ("gamma(1)", Law.GAMMA, 1.0),
        ("gamma(1e-07)", Law.GAMMA, 1e-7),
    ],
)
def test_an_arrival_is_read_and_written_back(text: str, law: Law, shape: float) -> None:
    arrival = Arrival.parse(text)
    assert (arrival.law, arrival.shape, str(arrival)) == (law, shape, text)


ARRIVALS = "constant, fixed-span, fixed-span(shape), poisson, gamma(shape)"
POSITIVE = "the shape of the gaps must be a number greater than 0, got the text"
BAD_ARRIVALS = {
    "poison": f"expected one of {ARRIVALS}, got the text 'poison'; did you mean 'poisson'?",
    "5": f"expected one of {ARRIVALS}, got 5",
    "gamma": "gamma needs the shape of its gaps, as in gamma(0.5)",
    "gamma(0)": f"{POSITIVE} '0'",
    "gamma(-1)": f"{POSITIVE} '-1'",
    "gamma(nan)": f"{POSITIVE} 'nan'",
    "gamma(inf)": f"{POSITIVE} 'inf'",
    "gamma()": f"{POSITIVE} ''",
    "fixed-span(x)": f"{POSITIVE} 'x'",
    "gamma 0.5": f"expected one of {ARRIVALS}, got the text 'gamma 0.5'; did you mean 'gamma(0.5)'?",
    "fixed-span[2]": f"expected one of {ARRIVALS}, got the text 'fixed-span[2]'; did you mean 'fixed-span(2)'?",
    "{law: gamma, shape: 3}": f"expected one of {ARRIVALS}, got a mapping; did you mean 'gamma(3)'?",
    "poisson(2)": "poisson takes no shape, got the text 'poisson(2)'; did you mean 'poisson'?",
    "gamma(1)(2)": f"expected one of {ARRIVALS}, got the text 'gamma(1)(2)'",
}


@pytest.mark.parametrize(("arrival", "what"), BAD_ARRIVALS.items(), ids=BAD_ARRIVALS)
def test_a_wrong_arrival_is_told(arrival: str, what: str) -> None:
    assert problems(RATE.replace("fixed-span", arrival)) == [f"e.yaml:14: tools.vllm.arrival: {what}"]


MISSING_ARRIVAL = f"this required key is missing: with a rate, say how the tool spaces its requests: {ARRIVALS}"
WRONG = {
    "empty why": (RATE.replace("a fixed rate", "' '"), "1: why: must not be empty; write one sentence"),
    "both sizes": (
        RATE.replace("  prompt", "  duration_s: 15\n  prompt"),
        "3: workload: both num_requests and duration_s are given; give exactly one of them",
    ),
    "no size": (
        RATE.replace("  num_requests: 600\n", ""),
        "3: workload: num_requests or duration_s is missing; give exactly one of them",
    ),
    "no requests": (RATE.replace("600", "0"), "4: workload.num_requests: must be at least 1, got 0"),
    "wrong api": (
        RATE.replace("  stream", "  api: chats\n  stream"),
        "7: workload.api: expected one of completions, chat, got the text 'chats'; did you mean 'chat'?",
    ),
    "rate with a unit": (
        RATE.replace("40", "40/s"),
        "11: load.rate: expected a number, got the text '40/s'; did you mean 40?",
    ),
    "rate zero": (RATE.replace("40", "0"), "11: load.rate: must be greater than 0, got 0"),
    "wrong mode": (
        RATE.replace("mode: rate", "mode: rates"),
        "10: load.mode: expected one of rate, concurrency, stages, got the text 'rates'; did you mean 'rate'?",
    ),
    "key of another mode": (
        RATE.replace("rate: 40", "rate: 40\n  concurrency: 8"),
        "12: load.concurrency: this key belongs to mode: concurrency; the keys here are mode, rate, cap",
    ),
    "absorber key": (
        RATE.replace("itl_s", "itl"),
        "2: absorber.itl: unknown key; did you mean 'itl_s'?",
    ),
    "no stages": (
        RATE.replace("mode: rate\n  rate: 40", "mode: stages\n  stages: []"),
        "11: load.stages: must not be empty",
    ),
    "stage with both loads": (
        STAGES.replace("{rate: 40,", "{rate: 40, concurrency: 8,"),
        "12: load.stages[0]: both rate and concurrency are given; give exactly one of them",
    ),
    "stage without a size": (
        STAGES.replace(", duration_s: 15", ""),
        "12: load.stages[0]: duration_s or num_requests is missing; give exactly one of them",
    ),
    "stages that add up to something else": (
        STAGES.replace("15}", "15}\n    - {concurrency: 8, num_requests: 1}"),
        "4: workload.num_requests: the stages make 601 requests together, got 600",
    ),
    "unknown tool": (
        RATE.replace("vllm", "inference_perf"),
        "13: tools.inference_perf: unknown tool; did you mean 'inference-perf'?",
    ),
    "unknown tool, none near": (
        RATE.replace("vllm", "zzz"),
        f"13: tools.zzz: unknown tool; known are {', '.join(TOOL_FILES)}",
    ),
    "no arrival at a rate": (
        RATE.replace("arrival: fixed-span", "claims: {}"),
        f"13: tools.vllm.arrival: {MISSING_ARRIVAL}",
    ),
    "no arrival in stages": (
        STAGES.replace("arrival: fixed-span", "claims: {}"),
        f"14: tools.vllm.arrival: {MISSING_ARRIVAL}",
    ),
    "arrival at a concurrency": (
        CLOSED.replace("leading_extra_requests: 1", "arrival: constant"),
        "14: tools.vllm.arrival: with a fixed concurrency there is no arrival process; leave this key out",
    ),
    "allowance for the count": (
        CLOSED.replace("leading_extra_requests: 1", "allowances: [{check: count.total, because: it is so}]"),
        "14: tools.vllm.allowances[0].check: a wrong count is never allowed; leave this allowance out",
    ),
    "allowance for an unknown check": (
        CLOSED.replace("leading_extra_requests: 1", "allowances: [{check: rate.men, because: it is so}]"),
        "14: tools.vllm.allowances[0].check: no check 'rate.men'; did you mean 'rate.mean'?",
    ),
    "allowance without a reason": (
        CLOSED.replace("leading_extra_requests: 1", "allowances:\n      - check: rate.mean\n        because: ''"),
        "16: tools.vllm.allowances[0].because: must not be empty; write one sentence",
    ),
    "negative extras": (
        CLOSED.replace("leading_extra_requests: 1", "leading_extra_requests: -1"),
        "14: tools.vllm.leading_extra_requests: must be at least 0, got -1",
    ),
}


@pytest.mark.parametrize(("text", "what"), WRONG.values(), ids=WRONG)
def test_one_mistake_is_told_with_line_and_nearest(text: str, what: str) -> None:
    assert problems(text) == [f"e.yaml:{what}"]


def test_stages_of_concurrency_alone_have_no_arrival() -> None:
    text = CLOSED.replace(
        "mode: concurrency\n  concurrency: 8", "mode: stages\n  stages: [{concurrency: 8, num_requests: 600}]"
    )
    expected = read_strict_text(text, "e.yaml", Expected)
    assert isinstance(expected.load, StagesLoad)
    assert not expected.open_loop


# --- anything at all

FRAGMENTS = [
    *(
        "",
        " ",
        "\n",
        "\t",
        ":",
        "- ",
        "{",
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "!!int ",
        "!x ",
        "? ",
        "|",
        ">",
        "'",
        '"',
        "#",
        "%",
        "@",
    ),
    *(
        "\x00",
        "\ufeff",
        "\U0001f600",
        "\\ud800",
        "~",
        ".inf",
        ".nan",
        "1e999",
        "0x",
        "9" * 5000,
        "yes",
        "true",
        "-1",
        "<<: ",
    ),
    *(
        "rate",
        "concurrency",
        "stages",
        "mode",
        "gamma(",
        "tools",
        "allowances: [{check: c}]",
        "headers: {a: b}",
        "extra_fields: {x: .nan}",
        "{counts: {'5': 600}}",
        "{min: 5, max: 4}",
        "distinct_prompts: 5",
        "---\n",
        "%YAML 1.1\n---\n",
    ),
]


def mutate(text: str, draw: random.Random) -> str:
    for _ in range(draw.randint(1, 3)):
        lines = text.split("\n")
        start, end = sorted(draw.choices(range(len(text) + 1), k=2))
        match draw.randrange(5):
            case 0:
                text = text[:start] + draw.choice(FRAGMENTS) + text[start:]
            case 1:
                text = text[:start] + draw.choice(FRAGMENTS) + text[min(end, start + 12) :]
            case 2:
                lines.insert(draw.randrange(len(lines)), draw.choice(lines))
                text = "\n".join(lines)
            case 3:
                del lines[draw.randrange(len(lines))]
                text = "\n".join(lines)
            case _:
                digits = [at for at, char in enumerate(text) if char.isdigit()] or [0]
                at = draw.choice(digits)
                text = text[:at] + str(draw.randrange(10)) + text[at + 1 :]
    return text


def outcome(text: str) -> Expected | str:
    try:
        return read_strict_text(text, "e.yaml", Expected)
    except UsageProblem as problem:
        return str(problem)


@seed(20260101)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=st.sampled_from([RATE, CLOSED, STAGES]), draw=st.randoms(use_true_random=False))
def test_a_mutated_case_is_a_case_or_a_usage_problem(text: str, draw: random.Random) -> None:
    found = outcome(mutate(text, draw))
    if isinstance(found, Expected):
        told = warnings(Case(name="c", folder=Path(), expected=found))
        assert all(warning.startswith("c: ") for warning in told)
    else:
        assert all(line.startswith("e.yaml:") for line in found.splitlines())
        assert found.encode()


def test_the_mutations_give_both_cases_and_problems() -> None:
    draw = random.Random(7)
    read = sum(isinstance(outcome(mutate(RATE, draw)), Expected) for _ in range(100))
    assert 5 <= read <= 80
