"""Are all questions asked, allowances kept to what they may touch, and findings merged by the stated order?"""

from __future__ import annotations

import ast
import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import loadproof
from loadproof.allowances import BY_STAGE, MAY_BE_ALLOWED, split_stage
from loadproof.checks.claims import beside, required_but_not_judged
from loadproof.checks.every import CHECKS, check_allowances
from loadproof.errors import UsageProblem
from loadproof.load.truth import DEFINITIONS, truth
from loadproof.reported import UNITS, Distribution, Reported, numbers
from loadproof.tools.names import TOOL_FILES
from loadproof.verdict import EXIT_CODES, Finding, Outcome, merge, verdict_of
from tests.unit.forge import ask, case, changed, closed_case, constant, journal, rate_case, without
from tests.unit.forge_client import honest

N = 100
EVEN = journal(constant(N, 20))
BECAUSE = "it is known"
UNUSUAL = {"count.leading_extras", "instrument.profile"}  # test_checks_count, test_checks_instrument
OF_A_REPORT = {"reports.output_tokens"}  # asked where there is no journal: test_checks_reports


def allowing(*checks: str) -> dict[str, Any]:
    return {"allowances": [{"check": check, "because": BECAUSE} for check in checks]}


STAGES = {
    "mode": "stages",
    "stages": [{"rate": 20, "duration_s": 10, "gap_s": 2}, {"concurrency": 4, "num_requests": 100}],
}
CASES = {
    "constant": rate_case(300, 20, "constant"),
    "random": rate_case(300, 20, "poisson"),
    "capped": case({"mode": "rate", "rate": 20, "cap": 50}, arrival="constant", workload={"num_requests": 300}),
    "closed": closed_case(N, 4),
    "timed": case({"mode": "concurrency", "concurrency": 4}, workload={"num_requests": None, "duration_s": 8}),
    "stages": case(STAGES, arrival="constant", workload={"num_requests": 300}),
    "prompts": case({"mode": "rate", "rate": 20}, arrival="constant", workload={"distinct_prompts": 600}),
}


@pytest.fixture(scope="module")
def honest_findings() -> dict[str, dict[str, Finding]]:
    """Return what is found of an honest client in every case."""
    return {name: ask(of, honest(of, np.random.default_rng(7)), tool_ended_s=600) for name, of in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_findings_come_in_the_order_of_the_checks(name: str, honest_findings: dict[str, dict[str, Finding]]) -> None:
    rooms = [room for room, _ in itertools.groupby(check.partition(".")[0] for check in honest_findings[name])]
    assert rooms == [room for room in CHECKS if room in rooms]
    assert {finding.outcome for finding in honest_findings[name].values() if finding.counted} == {Outcome.PASS}


def test_every_finding_but_count_and_instrument_may_be_allowed(
    honest_findings: dict[str, dict[str, Finding]],
) -> None:
    names = {split_stage(check)[0] for found in honest_findings.values() for check in found}
    judged = {name for name in names if name.partition(".")[0] not in {"count", "instrument"}}
    assert set(MAY_BE_ALLOWED) == judged | OF_A_REPORT


def test_the_docs_list_every_finding(honest_findings: dict[str, dict[str, Finding]]) -> None:
    docs = (Path(__file__).parents[3] / "docs" / "cases.md").read_text(encoding="utf-8")
    table = docs.split("## What is checked", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| ([a-z_., ]+) \|", table, re.MULTILINE)
    listed = [name for row in rows for name in row.split(", ") if "." in name]
    names = {split_stage(check)[0] for found in honest_findings.values() for check in found}
    assert len(listed) == len(set(listed))
    assert set(listed) >= names
    assert set(listed) - names == UNUSUAL | {"reports.requests", "reports.failed", *OF_A_REPORT}


def test_only_rates_arrivals_and_concurrencies_have_a_finding_a_stage(
    honest_findings: dict[str, dict[str, Finding]],
) -> None:
    staged = {check.partition(".")[0] for check in honest_findings["stages"] if split_stage(check)[1] is not None}
    assert staged - {"count"} == set(BY_STAGE)


def test_an_allowance_for_a_stage_is_for_that_stage_alone() -> None:
    def failing(check: str) -> dict[str, Finding]:
        stages = [{"rate": 20, "num_requests": N}, {"rate": 20, "num_requests": N}]
        of = case({"mode": "stages", "stages": stages}, workload={"num_requests": 2 * N}, arrival="constant",
                  **allowing(check))  # fmt: skip
        found = ask(of, journal(np.concatenate([constant(N, 18), N / 18 + constant(N, 18)])))
        assert {found[f"rate.mean[{k}]"].outcome for k in (1, 2)} == {Outcome.FAIL}
        return found

    second = failing("rate.mean[2]")
    assert (second["rate.mean[1]"].counted, second["rate.mean[2]"].counted) == (True, False)
    every = failing("rate.mean")
    assert not every["rate.mean[1]"].counted
    assert not every["rate.mean[2]"].counted


def test_an_allowed_failure_is_shown_and_does_not_count() -> None:
    slow = journal(constant(N, 18))
    plain = ask(rate_case(N, 20, "constant"), slow)
    allowed = ask(rate_case(N, 20, "constant", **allowing("rate.mean")), slow)
    assert verdict_of("c", "t", plain.values()).outcome is Outcome.FAIL
    assert verdict_of("c", "t", allowed.values()).outcome is Outcome.PASS
    finding = allowed["rate.mean"]
    assert (finding.outcome, finding.counted, finding.allowed_because) == (Outcome.FAIL, False, BECAUSE)
    assert finding.measured == plain["rate.mean"].measured


def test_an_allowance_touches_its_own_check_and_only_failures() -> None:
    both = changed(journal(constant(N, 18)), 3, max_tokens=15)
    allowed = ask(rate_case(N, 20, "constant", **allowing("rate.mean")), both)
    assert verdict_of("c", "t", allowed.values()).outcome is Outcome.FAIL
    right = ask(rate_case(N, 20, "constant", **allowing("rate.mean")), EVEN)["rate.mean"]
    assert (right.counted, right.allowed_because) == (True, "")
    short = ask(rate_case(40, 20, "constant", **allowing("rate.mean")), journal(constant(40, 18)))["rate.mean"]
    assert (short.outcome, short.counted, short.allowed_because) == (Outcome.UNCLEAR, True, "")


@pytest.mark.parametrize("check", ["count", "count.requests", " Count.unique"])
def test_a_count_can_never_be_allowed(check: str) -> None:
    with pytest.raises(ValidationError, match="never allowed"):
        rate_case(N, 20, "constant", **allowing(check))
    smuggled = rate_case(N, 20, "constant", **allowing("rate.mean"))
    allowance = smuggled.expected.tools["command"].allowances[0].model_copy(update={"check": "count.requests"})
    declared = smuggled.expected.tools["command"].model_copy(update={"allowances": (allowance,)})
    expected = smuggled.expected.model_copy(update={"tools": {"command": declared}})
    with pytest.raises(UsageProblem, match="a wrong count is never allowed"):
        check_allowances(type(smuggled)(name="c", folder=Path("c"), expected=expected))


@pytest.mark.parametrize(("check", "hint"), [("rate.meen", "rate.mean"), ("instrument.clock", "known are"), ("x", "")])
def test_an_unknown_check_is_refused_with_a_hint(check: str, hint: str) -> None:
    with pytest.raises(ValidationError, match=f"no check '{check}'") as raised:
        rate_case(N, 20, "constant", **allowing(check))
    assert hint in str(raised.value)


def test_every_name_that_may_be_allowed_is_accepted() -> None:
    check_allowances(rate_case(N, 20, "constant", **allowing(*MAY_BE_ALLOWED)))
    with pytest.raises(ValidationError):
        rate_case(N, 20, "constant", **allowing(*MAY_BE_ALLOWED, "nothing"))


ORDER = [Outcome.BROKEN, Outcome.FAIL, Outcome.UNCLEAR, Outcome.UNSUPPORTED, Outcome.PASS]


def test_the_stronger_outcome_wins_in_any_order() -> None:
    for chosen in itertools.chain.from_iterable(itertools.permutations(ORDER, k) for k in range(1, 6)):
        assert merge(chosen) is min(chosen, key=ORDER.index)


def test_nothing_found_is_broken() -> None:
    assert merge([]) is Outcome.BROKEN
    assert verdict_of("c", "t", ()).outcome is Outcome.BROKEN
    shown = Finding(check="x", requirement="r", expected="1", measured="1", outcome=Outcome.PASS, n=1, counted=False)
    assert verdict_of("c", "t", (shown,)).outcome is Outcome.BROKEN


def test_exit_codes_are_those_of_the_design() -> None:
    assert [int(EXIT_CODES[outcome]) for outcome in ORDER] == [3, 1, 2, 0, 0]


def test_the_verdict_counts_every_finding() -> None:
    found = ask(rate_case(N, 20, "constant"), without(EVEN, 5))
    verdict = verdict_of("c", "t", found.values())
    assert verdict.outcome is Outcome.FAIL
    assert (verdict.counts["fail"], sum(verdict.counts.values())) == (1, len(found))


def test_the_same_journal_gives_the_same_findings() -> None:
    odd = changed(changed(EVEN, 3, max_tokens=15), 4, max_tokens=17)
    assert ask(rate_case(N, 20, "constant"), odd) == ask(rate_case(N, 20, "constant"), odd)


def test_an_empty_journal_never_passes() -> None:
    for of in (rate_case(N, 20, "poisson"), closed_case(N, 4), case({"mode": "rate", "rate": 1}, arrival="constant")):
        found = ask(of, journal([]), tool_ended_s=1.0)
        assert {name for name, finding in found.items() if finding.outcome is Outcome.PASS} == {"instrument.clock"}
        assert verdict_of("c", "t", found.values()).outcome is Outcome.FAIL


def test_no_check_and_no_measurement_knows_a_tool() -> None:
    package = Path(loadproof.__file__).parent
    sources = [*package.glob("load/*.py"), *package.glob("checks/*.py")]
    assert len(sources) > 15
    for source in sources:
        text = source.read_text(encoding="utf-8").lower()
        names = set(TOOL_FILES) - {"command", "metronome"} | {"inference_perf", "genai_bench", "inference_endpoint"}
        assert not [name for name in names if name in text], source


ANSWERING = sorted(
    path
    for path in (Path(loadproof.__file__).parent / "checks").glob("*.py")
    if "\ndef findings(" in path.read_text(encoding="utf-8") and path.stem not in {"arrivals", "without_journal"}
)  # those two only hand on


def test_all_modules_of_findings_are_found() -> None:
    assert {path.stem for path in ANSWERING} >= set(CHECKS) - {"arrivals"} | {"fields", "headers", "prompts"}


@pytest.mark.parametrize("path", ANSWERING, ids=lambda path: path.stem)
def test_each_check_says_what_it_cannot_see(path: Path) -> None:
    told = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split())
    assert told.partition(":")[0].partition(",")[0] in {path.stem, path.stem.partition("_")[0], "count"}
    assert "hypothesis" in told
    assert "Cannot see" in told
    assert re.search("false alarm|bound", told, re.IGNORECASE), "how often is an honest client blamed?"
    assert re.search(r"[Ff]rom (n = )?[0-9]|at any n|Smallest n|exact", told)


def test_claims_stand_beside_the_same_quantity_of_the_journal() -> None:
    own = truth(EVEN)
    claimed = Reported(completed=99, abandoned=1, ttft_s=Distribution(mean=0.11, p99=0.2))
    claims = {claim.quantity: claim for claim in beside(claimed, own)}
    assert set(claims) == {"completed", "abandoned", "ttft_s.mean", "ttft_s.p99"}
    assert (claims["completed"].claimed, claims["completed"].truth) == (99, N)
    assert claims["abandoned"].truth is None
    mean = claims["ttft_s.mean"].truth
    assert mean is not None
    assert math.isclose(mean, 0.1)
    assert (claims["ttft_s.mean"].unit, claims["ttft_s.mean"].definition) == ("s", DEFINITIONS["ttft_s"])


def test_every_number_of_the_truth_has_a_definition_and_a_unit() -> None:
    named = {name.partition(".")[0] for name in numbers(truth(EVEN))}
    assert named == set(DEFINITIONS)
    assert named < set(UNITS)


def test_required_claims_are_unsupported_and_not_a_silent_pass() -> None:
    finding = required_but_not_judged(beside(Reported(completed=N), truth(EVEN)))
    assert (finding.outcome, finding.n, finding.counted) == (Outcome.UNSUPPORTED, 1, True)
