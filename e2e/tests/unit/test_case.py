"""Does reading a case folder give exactly the case that is written there, or say what is wrong with it?"""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.arrival import Arrival, Law
from loadproof.case import Case, ConcurrencyLoad, Expected, RateLoad, ToolDeclaration, read_case
from loadproof.case_rules import warnings
from loadproof.errors import UsageProblem
from loadproof.strict_yaml import read_strict_text
from tests.unit.case_texts import CLOSED, RATE

STARTERS = Path(__file__).parents[1] / "parity" / "cases"


def folder_of(where: Path, text: str, *files: str) -> Path:
    folder = where / "a_case"
    folder.mkdir()
    (folder / "expected.yaml").write_text(text)
    for file in files:
        (folder / file).touch()
    return folder


def told(folder: Path) -> str:
    with pytest.raises(UsageProblem) as raised:
        read_case(folder)
    return str(raised.value)


# --- the starter cases


def test_starter_case_a_asks_for_40_a_second_with_the_spacing_of_each_tool() -> None:
    case = read_case(STARTERS / "a_fixed_rate")
    assert warnings(case) == []
    assert (case.name, case.n, case.span_s) == ("a_fixed_rate", 600, 15.0)
    assert case.expected.load == RateLoad(mode="rate", rate=40.0)
    assert case.declaration("inference-perf").arrival == Arrival(Law.FIXED_SPAN)
    assert case.declaration("metronome").arrival == Arrival(Law.CONSTANT)
    assert case.declaration("inference-perf").prompt_extra.bos == 1
    assert "inference-perf draws exponential gaps and rescales them" in case.expected.why


def test_starter_case_b_asks_for_8_in_flight_and_fits_the_case_rule() -> None:
    case = read_case(STARTERS / "b_fixed_concurrency")
    assert warnings(case) == []
    assert (case.n, case.span_s) == (240, None)
    assert case.latency_s == pytest.approx(0.25)
    assert case.expected.load == ConcurrencyLoad(mode="concurrency", concurrency=8)
    assert case.declaration("inference-perf") == case.declaration("metronome") == ToolDeclaration()


@pytest.mark.parametrize("name", ["a_fixed_rate", "b_fixed_concurrency"])
def test_starter_cases_ask_for_the_same_workload(name: str) -> None:
    workload = read_case(STARTERS / name).expected.workload
    assert (workload.prompt_tokens, workload.max_tokens, workload.api) == (128, 16, "completions")
    assert workload.stream
    assert workload.ignore_eos
    assert workload.unique_prompts


# --- the folder


def test_the_tools_of_a_case_are_those_with_a_file(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path, CLOSED, "metronome.args", "inference-perf.yaml", "README.md", ".keep", "d.json", "e.jsonl"
    )
    case = read_case(folder)
    assert case.tools_with_files() == ["inference-perf", "metronome"]
    assert case.tool_file("metronome") == folder / "metronome.args"
    assert case.declaration("metronome") == ToolDeclaration()
    assert case.declaration("vllm").leading_extra_requests == 1
    with pytest.raises(UsageProblem) as raised:
        case.tool_file("vllm")
    assert str(raised.value) == (
        f"no vllm-bench.args in {folder}, so vllm is not part of this case; it has: inference-perf, metronome"
    )


@pytest.mark.parametrize("ask", [Case.tool_file, Case.declaration])
def test_an_unknown_tool_is_told_with_the_nearest(tmp_path: Path, ask: object) -> None:
    case = read_case(folder_of(tmp_path, CLOSED))
    assert callable(ask)
    with pytest.raises(UsageProblem) as raised:
        ask(case, "guidelm")
    assert str(raised.value) == "guidelm: unknown tool; did you mean 'guidellm'?"


def test_a_tool_file_without_a_declaration_needs_one_at_a_rate(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, RATE, "metronome.args", "vllm-bench.args")
    assert told(folder) == (
        f"{folder}/expected.yaml:12: tools.metronome.arrival: this required key is missing: with a rate, say how the "
        "tool spaces its requests: constant, fixed-span, fixed-span(shape), poisson, gamma(shape) "
        "(metronome.args is in the folder)"
    )


def test_odd_files_are_told_together_with_mistakes_in_expected_yaml(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, RATE.replace("why", "wy"), "inference_perf.yaml", "notes")
    (folder / "metronome.args").mkdir()
    lines = told(folder).splitlines()
    assert lines[:3] == [
        f"{folder}/expected.yaml:1: wy: unknown key; did you mean 'why'?",
        f"{folder}/inference_perf.yaml: has no place in a case; did you mean 'inference-perf.yaml'?",
        f"{folder}/metronome.args: is not a file",
    ]
    assert lines[3].startswith(f"{folder}/notes: has no place in a case; it may hold expected.yaml, README.md, ")
    assert len(lines) == 4


def test_a_case_that_is_not_there_is_told_with_its_nearest_sibling(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, RATE)
    (tmp_path / "a_cases").mkdir()
    assert told(tmp_path / "acase") == f"{tmp_path}/acase: no such case folder; did you mean 'a_case'?"
    assert told(tmp_path / "zzz") == f"{tmp_path}/zzz: no such case folder; the cases in {tmp_path} are a_case"
    assert told(tmp_path / "no" / "zzz") == f"{tmp_path}/no/zzz: no such case folder"
    assert told(folder / "expected.yaml") == (
        f"{folder}/expected.yaml: is not a folder; a case is the folder that holds expected.yaml"
    )
    missing = "no expected.yaml in it, so it is not a case"
    assert told(tmp_path) == f"{tmp_path}: {missing}; the cases in {tmp_path} are a_case"
    (tmp_path / "a_cases" / "expected.yml").touch()
    assert (
        told(tmp_path / "a_cases")
        == f"{tmp_path}/a_cases: {missing}; did you mean 'expected.yml'? rename it to expected.yaml"
    )


def test_a_case_is_named_after_its_folder_however_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder_of(tmp_path, RATE))
    assert read_case(Path()).name == "a_case"


# --- what is too small to carry an answer


def size_warnings(text: str, folder: Path) -> list[str]:
    return warnings(Case(name="c", folder=folder, expected=read_strict_text(text, "e.yaml", Expected)))


def at(text: str, **values: float) -> str:
    for key, value in values.items():
        text = "\n".join(
            f"{line.split(':')[0]}: {value}" if line.strip().startswith(key) else line for line in text.split("\n")
        )
    return text


def test_the_case_rule_for_concurrency_is_exact_at_its_edges(tmp_path: Path) -> None:
    slow = CLOSED.replace("0.05", "0.5").replace("0.01", "0")
    assert size_warnings(at(slow, num_requests=64), tmp_path) == []
    assert size_warnings(at(slow, num_requests=63), tmp_path) == [
        "c: about 63 requests are too few for concurrency 8; ask for at least 64",
        "c: the load lasts 3.94 s; ask for more requests or a slower server, so that it lasts at least 4 s",
    ]
    assert size_warnings(at(slow, num_requests=40000, concurrency=625), tmp_path) == []
    assert size_warnings(at(slow, num_requests=40000, concurrency=626), tmp_path) == [
        "c: a reply takes 0.5 s, too short to fill concurrency 626 first; make it 0.501 s"
    ]
    assert size_warnings(at(slow, num_requests=1920), tmp_path) == [
        "c: the load lasts 120 s and deadline_s is 120; make the deadline longer"
    ]


def test_a_duration_at_a_concurrency_is_sized_by_the_planned_latency(tmp_path: Path) -> None:
    text = CLOSED.replace("num_requests: 600", "duration_s: 4").replace("0.05", "0.5").replace("0.01", "0")
    assert size_warnings(text, tmp_path) == []
    assert size_warnings(text.replace("0.5", "0.51"), tmp_path) == [
        "c: about 63 requests are too few for concurrency 8; ask for at least 64"
    ]
    assert len(size_warnings(text.replace("0.5", "0"), tmp_path)) == 1


def test_random_arrivals_need_requests_and_time(tmp_path: Path) -> None:
    assert size_warnings(at(RATE, num_requests=400), tmp_path) == []
    assert size_warnings(at(RATE, num_requests=399), tmp_path) == [
        "c: 399 requests in 9.97 s; judging random arrivals needs at least 200 in at least 10 s"
    ]
    assert size_warnings(at(RATE, num_requests=199, rate=10), tmp_path) == [
        "c: 199 requests in 19.9 s; judging random arrivals needs at least 200 in at least 10 s"
    ]
    assert size_warnings(at(RATE, num_requests=199), tmp_path)[0] == (
        "c: the load lasts 4.97 s; the rate of fixed-span arrivals needs at least 5 s"
    )
    assert size_warnings(at(RATE, num_requests=160).replace("fixed-span", "constant"), tmp_path) == []
    assert size_warnings(at(RATE, num_requests=159).replace("fixed-span", "constant"), tmp_path) == [
        "c: 159 requests in 3.98 s; judging even spacing needs at least 160 in at least 4 s"
    ]
    assert size_warnings(at(RATE, num_requests=79).replace("fixed-span", "constant"), tmp_path)[:1] == [
        "c: the load lasts 1.98 s; the rate of constant arrivals needs at least 2 s"
    ]
    assert size_warnings(at(RATE, num_requests=4800), tmp_path) == [
        "c: the load lasts 120 s and deadline_s is 120; make the deadline longer"
    ]


def test_a_reply_that_outlasts_the_deadline_is_told(tmp_path: Path) -> None:
    text = RATE.replace("0.05", "120").replace("0.01", "0")
    assert size_warnings(text.replace("120", "119"), tmp_path) == []
    assert size_warnings(text, tmp_path) == [
        "c: a reply takes 120 s and deadline_s is 120; the absorber's times are seconds"
    ]


def test_a_reply_is_as_long_as_the_server_talks_unless_it_must_ignore_eos(tmp_path: Path) -> None:
    text = CLOSED.replace("itl_s: 0.01", "itl_s: 0.01, output_tokens: 6")
    for eos, latency in {"true": 0.2, "false": 0.1}.items():
        expected = read_strict_text(text.replace("ignore_eos: true", f"ignore_eos: {eos}"), "e.yaml", Expected)
        assert Case(name="c", folder=tmp_path, expected=expected).latency_s == pytest.approx(latency)


def test_a_program_may_lie_in_the_folder_and_a_plain_file_may_not(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, CLOSED, "command.args", "my-generator")
    with pytest.raises(UsageProblem, match="my-generator: has no place in a case"):
        read_case(folder)
    (folder / "my-generator").chmod(0o755)
    assert read_case(folder).tools_with_files() == ["command"]
