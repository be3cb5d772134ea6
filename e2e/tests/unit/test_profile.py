"""Is a profile read strictly, from a file, a name, flags or a case, and is every mistake in it told?"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from loadproof.absorber.laws import MOST_VALUES
from loadproof.absorber.plan import plan_reply
from loadproof.absorber.profile import LAWS, NAMED, Profile
from loadproof.case import Expected
from loadproof.cli import app
from loadproof.errors import UsageProblem
from loadproof.profile_flags import read_profile
from loadproof.strict_yaml import read_strict_text
from tests.unit.case_texts import RATE

EVERY_LAW = """\
ttft_s: {law: normal, mean: 0.1, std: 0.02}
itl_s: {law: empirical, values: [0.02, 1, 0]}
output_tokens: {law: gamma, mean: 64.5, shape: 2}
seed: 7
slots: 3
chunk_text: trailing_space
"""


def read(text: str) -> Profile:
    return read_strict_text(text, "p.yaml", Profile)


def test_every_law_is_read_and_survives_json_and_a_dump() -> None:
    profile = read(EVERY_LAW)
    assert profile.model_dump() == {
        "ttft_s": {"law": "normal", "mean": 0.1, "std": 0.02},
        "itl_s": {"law": "empirical", "values": [0.02, 1.0, 0.0]},
        "output_tokens": {"law": "gamma", "mean": 64.5, "shape": 2.0},
        "seed": 7,
        "slots": 3,
        "chunk_text": "trailing_space",
        "precompiled": False,
    }
    assert Profile.model_validate_json(profile.model_dump_json()) == profile
    assert Profile.model_validate(profile.model_dump()) == profile
    # The journal keeps a dump as JSON, and the instrument check compares it with the dump of a case's profile.
    assert msgspec.json.decode(msgspec.json.encode(profile.model_dump())) == profile.model_dump()
    assert read(EVERY_LAW.replace("0.02}", "0.021}")).model_dump() != profile.model_dump()


def test_a_profile_does_not_change_and_can_be_a_key() -> None:
    profile = read(EVERY_LAW)
    with pytest.raises(ValidationError, match="frozen"):
        profile.ttft_s = 1.0  # type: ignore[misc] # that is the question
    assert {profile: 1}[read(EVERY_LAW)] == 1


def test_the_largest_profile_fits_into_one_argument_of_a_command() -> None:
    values = [1000 * math.sin(i) ** 2 for i in range(MOST_VALUES)]
    lengths = [999_999 - i for i in range(MOST_VALUES)]
    largest = {"ttft_s": {"law": "empirical", "values": values}, "itl_s": {"law": "empirical", "values": values},
               "output_tokens": {"law": "empirical", "values": lengths}}  # fmt: skip
    assert len(Profile.model_validate(largest).model_dump_json()) < 128 * 1024


A_LAW = f"a number, or a mapping with a law ({', '.join(LAWS)})"
WRONG = {
    "ttft_s: -0.1": "1: ttft_s: must be at least 0, got -0.1",
    "ttft_s: .nan": "1: ttft_s: expected a finite number, got nan",
    "itl_s: .inf": "1: itl_s: ",
    "itl_s: 3601": "1: itl_s: must be at most 3600, got 3601",
    "itl_s: '0.1'": f"1: itl_s: expected {A_LAW}, got the text '0.1'",
    "itl_s: true": f"1: itl_s: expected {A_LAW}, got true",
    "itl_s: [0.1]": f"1: itl_s: expected {A_LAW}, got a list",
    "output_tokens: 0": "1: output_tokens: must be at least 1, got 0",
    "output_tokens: 1.5": "1: output_tokens: expected a whole number, got 1.5",
    "seed: -1": "1: seed: must be at least 0, got -1",
    "slots: 0": "1: slots: must be at least 1, got 0",
    "slots: 1.5": "1: slots: expected a whole number, got 1.5",
    "slots: true": "1: slots: expected a whole number, got true",
    "slots: 1000001": "1: slots: must be at most 1000000, got 1000001",
    "chunk_text: trailing":
        "1: chunk_text: expected one of exact, trailing_space, got the text 'trailing'; did you mean",
    "ttft: 0.1": "1: ttft: unknown key; did you mean 'ttft_s'?",
    "precompiled: 1": "1: precompiled: expected true or false, got 1",
    "ttft_s: {mean: 1}": f"1: ttft_s.law: this required key is missing; give one of {', '.join(LAWS)}",
    "ttft_s: {law: gama, mean: 1}":
        f"1: ttft_s.law: expected one of {', '.join(LAWS)}, got the text 'gama'; did you mean 'gamma'?",
    "ttft_s: {law: [gamma]}": f"1: ttft_s.law: expected one of {', '.join(LAWS)}, got a list",
    "ttft_s: {law: normal, mean: 1}": "1: ttft_s.std: this required key is missing",
    "ttft_s: {law: normal, mean: 1, std: 0}": "1: ttft_s.std: must be greater than 0, got 0",
    "ttft_s: {law: normal, mean: 1, std: 0.1, sigma: 1}":
        "1: ttft_s.sigma: this key belongs to law: lognormal; the keys here are law, mean, std",
    "ttft_s: {law: lognormal, median: 0.1, sigma: 1, medain: 1}":
        "1: ttft_s.medain: unknown key; did you mean 'median'?",
    "ttft_s: {law: lognormal, median: 5000, sigma: 1}": "1: ttft_s.median: must be at most 3600, got 5000",
    "ttft_s: {law: lognormal, median: 1, sigma: 6}": "1: ttft_s.sigma: must be at most 5, got 6",
    "itl_s: {law: gamma, mean: 0, shape: 1}": "1: itl_s.mean: must be greater than 0, got 0",
    "itl_s:\n  law: empirical\n  values:\n  - 1\n  - x":
        "5: itl_s.values[1]: expected a number, got the text 'x'",
    "itl_s: {law: empirical, values: []}": f"1: itl_s.values: must hold 1 to {MOST_VALUES} values, got 0",
    "itl_s: {law: empirical, values: 1}": "1: itl_s.values: expected a list, got 1",
    "output_tokens: {law: empirical, values: [1.5]}":
        "1: output_tokens.values[0]: expected a whole number, got 1.5",
    "output_tokens: {law: empirical, values: [0]}": "1: output_tokens.values[0]: must be at least 1, got 0",
    "output_tokens: {law: gamma, mean: 0.5, shape: 1}": "1: output_tokens.mean: must be at least 1, got 0.5",
    "precompiled: true\nttft_s: 0.1": "2: ttft_s: must be 0 with precompiled, because every reply is then the same",
    "precompiled: true\nitl_s: {law: gamma, mean: 1, shape: 1}": "2: itl_s: must be 0 with precompiled",
    "precompiled: true\noutput_tokens: {law: gamma, mean: 1, shape: 1}":
        "2: output_tokens: must be a number with precompiled",
    "precompiled: true\nslots: 2": "2: slots: must be left out with precompiled, because every reply is then the same",
    "precompiled: true\noutput_tokens: null": "2: output_tokens: must be a number with precompiled",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_a_profile_is_read_strictly(text: str) -> None:
    with pytest.raises(UsageProblem) as raised:
        read(text)
    [told] = str(raised.value).splitlines()
    assert told.startswith(f"p.yaml:{WRONG[text]}")


def test_precompiled_has_a_length_of_its_own() -> None:
    assert read("precompiled: true").output_tokens == 16
    assert read("precompiled: true\noutput_tokens: 5").output_tokens == 5
    assert read("precompiled: false").output_tokens is None


def test_a_case_takes_a_name_for_its_profile() -> None:
    text = RATE.replace("{ttft_s: 0.05, itl_s: 0.01}", "max-throughput")
    expected = read_strict_text(text, "e.yaml", Expected)
    assert expected.absorber == Profile(precompiled=True, output_tokens=16)
    assert Expected.model_validate_json(expected.model_dump_json()) == expected


def test_a_case_takes_every_law() -> None:
    text = RATE.replace("{ttft_s: 0.05, itl_s: 0.01}", "\n  " + EVERY_LAW.strip().replace("\n", "\n  "))
    assert read_strict_text(text, "e.yaml", Expected).absorber == read(EVERY_LAW)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("max-thruput", "no profile has the name 'max-thruput'; did you mean 'max-throughput'?"),
        ("x", "no profile has the name 'x'; the names are max-throughput, variable-response"),
        ("[1]", "expected a mapping"),
    ],
)
def test_a_case_with_another_name_is_told(name: str, told: str) -> None:
    with pytest.raises(UsageProblem) as raised:
        read_strict_text(RATE.replace("{ttft_s: 0.05, itl_s: 0.01}", name), "e.yaml", Expected)
    assert str(raised.value).startswith(f"e.yaml:2: absorber: {told}")


@pytest.mark.parametrize("name", NAMED)
def test_a_name_is_a_profile_and_a_flag_wins(name: str) -> None:
    plain = read_profile(name, None, None, None)
    assert plain == Profile.model_validate(NAMED[name])
    assert read_profile(name, None, None, 5) == Profile.model_validate({**NAMED[name], "output_tokens": 5})


@pytest.mark.parametrize("command", ["serve", "observe"])
def test_the_help_names_every_name(command: str) -> None:
    told = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"}).output
    assert "--profile" in told
    assert [name for name in NAMED if name not in told] == []


def test_a_file_is_a_profile_and_a_flag_wins(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(EVERY_LAW)
    assert read_profile(str(file), None, None, None) == read(EVERY_LAW)
    told = read_profile(str(file), 0.5, None, None)
    assert told == Profile.model_validate({**read(EVERY_LAW).model_dump(), "ttft_s": 0.5})
    assert read_profile(None, None, 0.5, None) == Profile(itl_s=0.5)


def test_a_name_goes_before_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "max-throughput").write_text("ttft_s: 0.5\n")
    assert read_profile("max-throughput", None, None, None).precompiled
    assert read_profile("./max-throughput", None, None, None) == Profile(ttft_s=0.5)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("max_thruput", "did you mean 'max-throughput'?"),
        ("p.yaml", "the names are max-throughput, variable-response"),
        ("", "the names are max-throughput, variable-response"),
    ],
)
def test_neither_name_nor_file_is_told(source: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageProblem) as raised:
        read_profile(source, None, None, None)
    assert str(raised.value) == f"--profile: {source}: no such file, and no profile has the name {source!r}; {told}"


def test_what_is_no_file_at_all_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no such file"):
        read_profile("x" * 5000, None, None, None)
    with pytest.raises(UsageProblem, match=str(tmp_path)):
        read_profile(str(tmp_path), None, None, None)


@pytest.mark.parametrize(
    ("name", "ttft_s", "itl_s", "told"),
    [
        (None, None, -1.0, "--itl-s: must be at least 0, got -1.0"),
        ("max-throughput", 0.1, None, "--ttft-s: must be 0 with precompiled"),
    ],
)
def test_a_wrong_flag_is_told(name: str | None, ttft_s: float | None, itl_s: float | None, told: str) -> None:
    with pytest.raises(UsageProblem) as raised:
        read_profile(name, ttft_s, itl_s, None)
    assert str(raised.value).startswith(told)


@pytest.mark.parametrize(
    "law",
    [
        {"law": "normal", "mean": 0.1, "std": 0.1},
        {"law": "lognormal", "median": 0.1, "sigma": 0.5},
        {"law": "gamma", "mean": 0.1, "shape": 2.0},
        {"law": "empirical", "values": [0.1, 0.1, 0.5]},
    ],
)
def test_latency_is_the_mean_of_what_is_drawn(law: dict[str, object]) -> None:
    profile = Profile.model_validate({"ttft_s": law, "itl_s": law, "seed": 3})
    plans = (plan_reply(profile, max_tokens=11, min_tokens=0, ignore_eos=True, digest=i.to_bytes(16))
             for i in range(4000))  # fmt: skip
    seen = np.array([plan.due_ns(10) for plan in plans]) / 1e9
    assert abs(seen.mean() - profile.latency_s(11)) < 5 * seen.std() / math.sqrt(len(seen))
    assert 5 * seen.std() / math.sqrt(len(seen)) < 0.03 * profile.latency_s(11)  # or it would show nothing
    assert profile.latency_s(11) == pytest.approx(11 * profile.latency_s(1))


@pytest.mark.parametrize(
    ("output_tokens", "ignore_eos", "usual"),
    [
        (None, False, 100), (8, False, 8), (8, True, 100), (200, False, 100),
        ({"law": "empirical", "values": [10, 11, 30]}, False, 17),
        ({"law": "empirical", "values": [10, 11, 30]}, True, 100),
        ({"law": "gamma", "mean": 400, "shape": 1}, False, 100),
    ],
)  # fmt: skip
def test_the_usual_length(output_tokens: object, *, ignore_eos: bool, usual: int) -> None:
    profile = Profile.model_validate({"output_tokens": output_tokens})
    assert profile.usual_tokens(100, ignore_eos=ignore_eos) == usual


def test_the_usual_length_of_what_is_precompiled() -> None:
    assert Profile(precompiled=True, output_tokens=9).usual_tokens(4, ignore_eos=True) == 9


def test_what_is_unpaced() -> None:
    assert Profile().unpaced
    assert Profile(slots=2, output_tokens=3).unpaced
    assert Profile(precompiled=True, output_tokens=3).unpaced
    assert not Profile(ttft_s=0.1).unpaced
    assert not Profile(itl_s=0.1).unpaced
    assert not Profile.model_validate({"output_tokens": {"law": "gamma", "mean": 4, "shape": 1}}).unpaced


def test_named_profiles_are_written_as_in_a_file() -> None:
    for values in NAMED.values():
        assert read(json.dumps(values)) == Profile.model_validate(values)


def test_the_docs_show_profiles_as_they_are() -> None:
    docs = (Path(__file__).parents[3] / "docs" / "cases.md").read_text()
    example = docs.split("The absorber's profile", 1)[1].split("```yaml\n", 1)[1].split("```", 1)[0]
    assert read(example).output_tokens == Profile.model_validate(
        {"output_tokens": {"law": "empirical", "values": [8, 8, 64]}}
    ).output_tokens  # fmt: skip
    rows = re.findall(r"^\| `([\w-]+)` \| `(\{.*\})` \|$", docs, re.MULTILINE)
    assert {name: read(text) for name, text in rows} == {name: read_profile(name, None, None, None) for name in NAMED}
