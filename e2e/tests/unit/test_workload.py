"""Is what a case says of its requests read as it is meant, and is every contradiction in it told?"""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.allowances import BY_STAGE, MAY_BE_ALLOWED, Allowance, problem_of, split_stage
from loadproof.case import Case, Expected, Workload
from loadproof.errors import UsageProblem
from loadproof.lengths import Between, Counted, average, counts_for, longest
from loadproof.strict_yaml import read_strict_text
from loadproof.workload import OWN_KEYS
from tests.unit.case_texts import CLOSED, RATE

PROMPT = "prompt_tokens: 128"


def with_keys(*lines: str) -> str:
    return RATE.replace(PROMPT, "\n  ".join([PROMPT, *lines]))


def read(text: str) -> Workload:
    return read_strict_text(text, "e.yaml", Expected).workload


def told(text: str) -> list[str]:
    with pytest.raises(UsageProblem) as raised:
        read_strict_text(text, "e.yaml", Expected)
    return str(raised.value).splitlines()


# --- lengths

LENGTHS: dict[str, tuple[int | Between | Counted, float, int]] = {
    "128": (128, 128.0, 128),
    "{min: 64, max: 256}": (Between(min=64, max=256), 160.0, 256),
    "{min: 7, max: 7}": (Between(min=7, max=7), 7.0, 7),
    "{counts: {'64': 450, '128': 150}}": (Counted(counts={64: 450, 128: 150}), 80.0, 128),
}


@pytest.mark.parametrize("key", ["prompt_tokens: 128", "max_tokens: 16"])
@pytest.mark.parametrize("text", LENGTHS)
def test_lengths_are_a_number_bounds_or_counts(key: str, text: str) -> None:
    name = key.partition(":")[0]
    expected = read_strict_text(RATE.replace(key, f"{name}: {text}"), "e.yaml", Expected)
    lengths, mean, most = LENGTHS[text]
    assert getattr(expected.workload, name) == lengths
    assert (average(lengths), longest(lengths)) == (mean, most)
    assert Expected.model_validate_json(expected.model_dump_json()) == expected


def test_counts_are_known_unless_there_are_bounds() -> None:
    assert counts_for(5, 3) == {5: 3}
    assert counts_for(5, 0) == {}
    assert counts_for(Counted(counts={5: 2, 6: 1}), 9) == {5: 2, 6: 1}
    assert counts_for(Between(min=5, max=6), 3) is None


FORMS = "expected a whole number, {min, max} or {counts}, got"
A_LENGTH = "a length must be a whole number from 1 to 1000000000, got the text"
BAD_LENGTHS = {
    "many": f": {FORMS} the text 'many'",
    "128.0": f": {FORMS} 128.0; did you mean 128?",
    "'128'": f": {FORMS} the text '128'; did you mean 128?",
    "true": f": {FORMS} true",
    "[1]": f": {FORMS} a list",
    "{}": f": {FORMS} a mapping",
    "0": ": must be at least 1, got 0",
    "{min: 1}": ".max: this required key is missing",
    "{min: 5, max: 4}": ".max: must be at least the min of 5, got 4",
    "{min: 0, max: 4}": ".min: must be at least 1, got 0",
    "{min: 1, max: 3, mean: 2}": ".mean: unknown key; the keys here are min, max",
    "{mn: 1, max: 3}": ".mn: unknown key; did you mean 'min'?",
    "{count: {'5': 600}}": ".count: unknown key; did you mean 'counts'?",
    "{counts: {}}": ".counts: must not be empty; say how many requests have each length",
    "{counts: {'5': 599}}": ".counts: makes 599 requests together, got 600",
    "{counts: {'5': 600}, max: 3}": ": both min or max and counts are given; give bounds or counts",
    "{counts: {5: 600}}": ".counts: a key must be plain text, got '5'; put quotes around it",
    "{counts: {x: 600}}": f".counts.x: {A_LENGTH} 'x'",
    "{counts: {'05': 600}}": f".counts.05: {A_LENGTH} '05'",
    "{counts: {'0': 600}}": f".counts.0: {A_LENGTH} '0'",
    "{counts: {'5': 0}}": ".counts.5: must be at least 1, got 0",
}


@pytest.mark.parametrize("text", BAD_LENGTHS)
def test_a_length_that_is_none_is_told(text: str) -> None:
    assert told(RATE.replace(PROMPT, f"prompt_tokens: {text}")) == [
        f"e.yaml:5: workload.prompt_tokens{BAD_LENGTHS[text]}"
    ]


def test_counts_need_a_number_of_requests() -> None:
    text = RATE.replace("num_requests: 600", "duration_s: 15").replace(PROMPT, "prompt_tokens: {counts: {'5': 600}}")
    assert told(text) == [
        "e.yaml:5: workload.prompt_tokens.counts: needs num_requests; with duration_s give bounds, {min, max}"
    ]


@pytest.mark.parametrize(
    ("lengths", "latency"), [("16", 0.2), ("{min: 6, max: 26}", 0.2), ("{counts: {'6': 450, '46': 150}}", 0.2)]
)
def test_a_reply_of_several_lengths_is_planned_by_their_mean(lengths: str, latency: float, tmp_path: Path) -> None:
    expected = read_strict_text(CLOSED.replace("max_tokens: 16", f"max_tokens: {lengths}"), "e.yaml", Expected)
    assert expected.workload.usual_max_tokens == 16
    assert Case(name="c", folder=tmp_path, expected=expected).latency_s == pytest.approx(latency)


# --- prompts

BAD_PROMPTS = {
    ("distinct_prompts: 601",): "distinct_prompts: must be at most num_requests, 600, got 601",
    ("distinct_prompts: 0",): "distinct_prompts: must be at least 1, got 0",
    ("distinct_prompts: 10", "unique_prompts: true"): (
        "distinct_prompts: with unique_prompts every prompt differs: leave it out, or make it num_requests, 600"
    ),
    ("distinct_prefixes: 601",): "distinct_prefixes: must be at most num_requests, 600, got 601",
    ("distinct_prefixes: 11", "distinct_prompts: 10"): (
        "distinct_prefixes: must be at most distinct_prompts, 10, got 11"
    ),
}


@pytest.mark.parametrize("lines", BAD_PROMPTS)
def test_prompts_that_contradict_each_other_are_told(lines: tuple[str, ...]) -> None:
    assert told(with_keys(*lines)) == [f"e.yaml:6: workload.{BAD_PROMPTS[lines]}"]


@pytest.mark.parametrize(
    "lines",
    [
        ("distinct_prompts: 600", "unique_prompts: true"),
        ("distinct_prompts: 10", "distinct_prefixes: 10"),
        ("distinct_prefixes: 600", "unique_prompts: true"),
    ],
)
def test_prompts_that_do_not_contradict_each_other_are_read(lines: tuple[str, ...]) -> None:
    assert read(with_keys(*lines)) != read(RATE)


def test_by_a_duration_any_number_of_prompts_may_be_asked() -> None:
    by_time = RATE.replace("num_requests: 600", "duration_s: 15")
    assert read(by_time.replace(PROMPT, f"{PROMPT}\n  distinct_prompts: 5000")).distinct_prompts == 5000
    unique = by_time.replace(PROMPT, f"{PROMPT}\n  distinct_prompts: 5\n  unique_prompts: true")
    assert told(unique)[0].endswith("leave it out, or make it num_requests")


# --- fields and headers


def test_fields_are_any_json() -> None:
    asked = read(with_keys("extra_fields: {temperature: 0, stop: [a, null], x: {y: [1.5, true]}}")).extra_fields
    assert asked == {"temperature": 0, "stop": ["a", None], "x": {"y": [1.5, True]}}
    assert read(with_keys("extra_fields: {}")).extra_fields == {}
    assert read(RATE).extra_fields is None


@pytest.mark.parametrize("name", OWN_KEYS)
def test_a_field_that_has_a_key_is_no_extra_field(name: str) -> None:
    assert told(with_keys(f"extra_fields: {{{name}: 1}}")) == [
        f"e.yaml:6: workload.extra_fields.{name}: is no extra field: {OWN_KEYS[name]}; leave it out here"
    ]


@pytest.mark.parametrize("value", [".nan", "-.inf", "[1, {a: .inf}]"])
def test_a_number_that_json_does_not_have_is_told(value: str) -> None:
    assert told(with_keys(f"extra_fields: {{x: {value}}}")) == [
        "e.yaml:6: workload.extra_fields.x: JSON has no such number; give a finite one"
    ]


def test_headers_go_by_their_name_in_lower_case() -> None:
    asked = read(with_keys("headers: {Content-Type: application/json, X-A: 'b c', x-empty: ''}")).headers
    assert asked == {"content-type": "application/json", "x-a": "b c", "x-empty": ""}


NEVER_KEPT = "its value is never kept, so only whether it is there can be asked: write present"
BAD_HEADERS = {
    "{X-A: b, x-a: c}": ".X-A: is given twice, in upper and in lower case",
    "{Authorization: Bearer x}": f".authorization: {NEVER_KEPT}",
    "{x-api-key: x}": f".x-api-key: {NEVER_KEPT}",
    "{x-a: bearer 5}": ".x-a: holds a credential, which is never kept; leave this header out",
    "{'a b': c}": ".a b: is no name of a header; it may have letters, digits and -",
    "{a: 1}": ".a: expected text, got 1",
    "{a: ' b'}": ".a: a value must be printable ASCII without spaces around it",
    '{a: "b\\nc"}': ".a: a value must be printable ASCII without spaces around it",
    "{a: ü}": ".a: a value must be printable ASCII without spaces around it",
    "[a]": ": expected a mapping, got a list",
}


@pytest.mark.parametrize("text", BAD_HEADERS)
def test_a_header_that_cannot_be_asked_is_told(text: str) -> None:
    assert told(with_keys(f"headers: {text}")) == [f"e.yaml:6: workload.headers{BAD_HEADERS[text]}"]


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "Cookie"])
def test_that_a_credential_is_there_can_be_asked(name: str) -> None:
    assert read(with_keys(f"headers: {{{name}: present}}")).headers == {name.lower(): "present"}


def test_all_that_is_wrong_is_told_at_once() -> None:
    lines = told(with_keys("distinct_prompts: 601", "extra_fields: {stream: true}", "headers: {a: 'b '}"))
    assert [line.partition(": workload.")[0] for line in lines] == ["e.yaml:6", "e.yaml:7", "e.yaml:8"]


# --- allowances


def allowing(check: str, text: str = RATE) -> str:
    return text.replace(
        "arrival: fixed-span", f"arrival: fixed-span\n    allowances: [{{check: '{check}', because: x}}]"
    )


STAGES = RATE.replace(
    "mode: rate\n  rate: 40",
    "mode: stages\n  stages: [{rate: 40, num_requests: 300}, {rate: 80, num_requests: 300}]",
)


@pytest.mark.parametrize("check", MAY_BE_ALLOWED)
def test_every_check_may_be_allowed_and_covers_its_stages(check: str) -> None:
    assert read(allowing(check, STAGES)) == read(RATE)
    whole = Allowance(check=check, because="x")
    assert whole.covers(check)
    assert not whole.covers(check + "s")
    assert whole.covers(f"{check}[2]")
    if check.partition(".")[0] in BY_STAGE:
        second = Allowance(check=f"{check}[2]", because="x")
        assert [second.covers(name) for name in (check, f"{check}[1]", f"{check}[2]", f"{check}[22]")] == [
            False, False, True, False,
        ]  # fmt: skip
    else:
        assert "is of the load as a whole" in problem_of(f"{check}[2]")


@pytest.mark.parametrize(
    ("check", "text", "what"),
    [
        ("rate.mean[3]", STAGES, "there is no stage 3: the load has 2"),
        ("rate.mean[1]", RATE, "there is no stage 1: the load has none; did you mean 'rate.mean'?"),
        ("rate.mean[0]", STAGES, "no check 'rate.mean[0]'; did you mean 'rate.mean'?"),
        ("rate.meen[2]", STAGES, "no check 'rate.meen[2]'; did you mean 'rate.mean'?"),
        ("payload.path[2]", STAGES, "payload.path is of the load as a whole and not of a stage; did you mean 'payload"),
        ("count.stage[2]", STAGES, "a wrong count is never allowed; leave this allowance out"),
    ],
)
def test_a_stage_that_there_is_not_is_told(check: str, text: str, what: str) -> None:
    [line] = told(allowing(check, text))
    where, _, said = line.partition(": tools.vllm.allowances[0].check: ")
    assert where.startswith("e.yaml:1")
    assert said.startswith(what)


def test_a_stage_is_split_from_the_name_of_its_check() -> None:
    assert [split_stage(name) for name in ("a.b", "a.b[12]", "a.b[]", "a[1].b")] == [
        ("a.b", None), ("a.b", 12), ("a.b[]", None), ("a[1].b", None),
    ]  # fmt: skip


def test_the_docs_show_keys_that_are_read() -> None:
    docs = (Path(__file__).parents[3] / "docs" / "cases.md").read_text(encoding="utf-8")
    keys = docs.split("### The requests", 1)[1].split("```yaml\n", 1)[1].split("```", 1)[0]
    lines = "".join(f"  {line}\n" for line in keys.splitlines())
    asked = read(RATE.replace("  prompt_tokens: 128\n  max_tokens: 16\n", lines))
    assert {name for name in Workload.model_fields if f"\n  {name}: " in f"\n{lines}"} == {
        "prompt_tokens", "max_tokens", "distinct_prompts", "distinct_prefixes", "extra_fields", "headers",
    }  # fmt: skip
    assert asked.headers == {"x-team": "alpha", "authorization": "present"}
