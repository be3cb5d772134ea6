"""Does a person see every finding as it is, one line each, and what to do about those that did not pass?"""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadproof.bench import Progress
from loadproof.judging import Judgement, not_made, row_of_missing_tool
from loadproof.report.progress import ProgressLine
from loadproof.report.terminal import attention, claims_table, console, findings_table, summary_line
from loadproof.verdict import Claim, Finding, Outcome, verdict_of

PASSED = Finding(
    check="payload.prompt_tokens", requirement="bare text: prompt_tokens - 1 BOS", expected="127 x 240",
    measured="127 x 240", outcome=Outcome.PASS, n=240, smallest_deviation="-12.3%/+14.5%", evidence="journal/x",
)  # fmt: skip
FAILED = msgspec.structs.replace(PASSED, check="rate.mean", measured="44/s", outcome=Outcome.FAIL, detail="too fast")
ALLOWED = msgspec.structs.replace(FAILED, counted=False, allowed_because="it is known [red] for that")
UNCLEAR = msgspec.structs.replace(PASSED, check="rate.mean", outcome=Outcome.UNCLEAR, detail="too few")
LATE = msgspec.structs.replace(PASSED, check="instrument.lateness", outcome=Outcome.UNCLEAR, counted=False)


def judged(*findings: Finding, reason: str = "", case: str = "a case", claims: tuple[Claim, ...] = ()) -> Judgement:
    return Judgement(verdict_of(case, "a tool", () if reason else findings, reason=reason), findings, claims)


def shown(what: Table | Text, width: int = 160) -> list[str]:
    target = Console(file=io.StringIO(), width=width, highlight=False)
    target.print(what)
    assert isinstance(target.file, io.StringIO)
    return [line.rstrip() for line in target.file.getvalue().splitlines() if line.strip()]


def test_a_passing_finding_is_one_line_with_all_its_values() -> None:
    lines = shown(findings_table([judged(PASSED)]))
    assert len(lines) == 5  # two of heading, one of the run, the finding, the verdict
    assert lines[2].split() == ["a", "case", "a", "tool"]
    for value in (PASSED.check, PASSED.requirement, PASSED.expected, PASSED.measured, "240", PASSED.smallest_deviation):
        assert value in lines[3]
    assert lines[3].endswith("pass")
    assert lines[4].split() == ["verdict", "PASS"]
    assert attention(judged(PASSED), "run", "again") == []


def test_a_long_case_name_takes_no_room_from_the_findings() -> None:
    lines = shown(findings_table([judged(PASSED, case="case_" * 20)]))
    [line] = [line for line in lines if PASSED.check in line]
    assert PASSED.requirement in line
    assert line.endswith("pass")


def test_several_runs_are_in_one_table() -> None:
    lines = shown(findings_table([judged(PASSED, case="one"), judged(FAILED, case="two")]))
    assert [line.split()[0] for line in lines if line.split()[0] in {"finding", "one", "two", "verdict"}] == [
        "finding", "one", "verdict", "two", "verdict",
    ]  # fmt: skip
    assert lines[-1].split() == ["verdict", "FAIL"]


def test_a_failure_is_spelled_out() -> None:
    assert shown(findings_table([judged(FAILED)]))[3].endswith("fail")
    assert attention(judged(FAILED), "runs/x", "loadproof run it") == [
        "a case x a tool: rate.mean: fail",
        "  too fast",
        "  bare text: prompt_tokens - 1 BOS: expected 127 x 240, measured 44/s, n 240; evidence runs/x/journal/x",
        "  again: loadproof run it",
    ]


def test_an_allowed_failure_says_why_and_passes() -> None:
    judgement = judged(PASSED, ALLOWED)
    lines = shown(findings_table([judgement]))
    assert lines[4].endswith("allowed")
    assert lines[5].split() == ["verdict", "PASS"]
    told = attention(judgement, "run", "again")
    assert told[0] == "a case x a tool: rate.mean: allowed: because it is known [red] for that"
    assert "  again: again" not in told


def test_unclear() -> None:
    assert shown(findings_table([judged(UNCLEAR)]))[-1].split() == ["verdict", "UNCLEAR"]
    assert attention(judged(UNCLEAR), "run", "it") == [
        "a case x a tool: rate.mean: unclear",
        "  too few",
        "  again: it",
    ]


def test_what_does_not_count_is_in_parentheses() -> None:
    lines = shown(findings_table([judged(PASSED, LATE)]))
    assert lines[4].endswith("(unclear)")
    assert lines[5].split() == ["verdict", "PASS"]


def test_broken_gives_the_reason_and_the_way_to_repeat_it() -> None:
    judgement = judged(PASSED, reason="it ended [bold]early\n--- last lines of log\n  [/red] boo")
    assert shown(findings_table([judgement]))[-1].split() == ["verdict", "BROKEN"]
    assert attention(judgement, "run", "loadproof run it") == [
        "a case x a tool: broken: it ended [bold]early\n--- last lines of log\n  [/red] boo",
        "  again: loadproof run it",
    ]


def test_a_missing_tool_is_a_visible_row() -> None:
    judgement = not_made("a case", "a tool", (row_of_missing_tool("`get it`"),))
    lines = shown(findings_table([judgement]))
    assert "missing" in lines[3]
    assert lines[3].endswith("unsupported")
    assert lines[4].split() == ["verdict", "UNSUPPORTED"]
    assert "a case x a tool: unsupported: not installed: `get it`" in attention(judgement, "run", "again")


def test_a_run_against_another_server_says_so() -> None:
    of = judged(PASSED)
    assert "against" not in "\n".join(shown(findings_table([of])))
    other = Judgement(of.verdict, of.findings, (), "some-simulator")
    assert "a tool against some-simulator" in shown(findings_table([other]))[2]


def test_markup_characters_are_letters() -> None:
    odd = Finding(check="[red]c", requirement="[bold]r[/]", expected="[/e]", measured="[link=x]m", outcome=Outcome.PASS,
                  n=1, smallest_deviation="[s]")  # fmt: skip
    text = "\n".join(shown(findings_table([judged(odd, case="[blue]case")])))
    for value in ("[red]c", "[bold]r[/]", "[/e]", "[link=x]m", "[s]", "[blue]case"):
        assert value in text
    claim = Claim(quantity="[red]q", unit="[u]", claimed=1, truth=1, definition="[/d]")
    text = "\n".join(shown(claims_table([claim], "[t] title")))
    for value in ("[red]q", "1 [u]", "[/d]", "[t] title"):
        assert value in text
    assert shown(summary_line(judged(PASSED, case="[red]"), "runs/[x]")) == ["[red] x a tool: pass, in runs/[x]"]


@pytest.mark.parametrize(
    ("claimed", "truth", "unit", "cells"),
    [
        (0.1012, 0.1, "s", ["101.200 ms", "100.000 ms", "+1.200 ms (+1.2%)"]),
        (7.5, 8.0, "s", ["7.500 s", "8.000 s", "-500.000 ms (-6.2%)"]),
        (31.7, 31.7, "/s", ["31.700 /s", "31.700 /s", "0"]),
        (240, 239, "requests", ["240 requests", "239 requests", "+1 requests (+0.4%)"]),
        (3, 0, "requests", ["3 requests", "0 requests", "+3 requests"]),
    ],
)
def test_claims(claimed: float, truth: float, unit: str, cells: list[str]) -> None:
    unknown = Claim(quantity="u", unit="tokens", claimed=3, truth=None, definition="def")
    one = Claim(quantity="q", unit=unit, claimed=claimed, truth=truth, definition="def")
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()]
            for line in shown(claims_table([one, unknown], "t"))[-2:]]  # fmt: skip
    assert rows == [["q", *cells, "def"], ["u", "3 tokens", "-", "-", "def"]]


def test_plain_and_wide_when_not_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    console().print(findings_table([judged(FAILED)]))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    [line] = [line for line in out.splitlines() if FAILED.requirement in line]
    assert line.rstrip().endswith("fail")


def _progress(seen: int) -> Progress:
    return Progress(case="[red]", tool="t", seen=seen, expected=9, elapsed_s=1.4)


def test_progress_elsewhere_is_a_plain_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 100.0, 104.9, 105.1, 105.1])
    monkeypatch.setattr("loadproof.report.progress.time.monotonic", lambda: next(now))
    file = io.StringIO()
    with ProgressLine(Console(file=file, width=20)) as progress:
        for seen in (1, 2, 3):
            progress(_progress(seen))
    assert file.getvalue() == "[red] x t: 1 / 9 requests, 1 s\n[red] x t: 3 / 9 requests, 1 s\n"


def test_progress_on_a_terminal_is_one_line_that_goes_away() -> None:
    file = io.StringIO()
    with ProgressLine(Console(file=file, force_terminal=True, width=80)) as progress:
        progress(_progress(1))
        progress(msgspec.structs.replace(_progress(2), expected=None))
    text = file.getvalue()
    assert "[red] x t: 2 requests, 1 s" in text
    assert text.endswith("\x1b[2K") or "\x1b[?25h" in text  # the cursor is back


def test_a_narrow_terminal_shows_no_requirements_and_whole_names() -> None:
    long = msgspec.structs.replace(PASSED, check="payload.prompt_tokens", requirement="bare text")
    wide, narrow = (shown(findings_table([judged(long)], width), width) for width in (130, 80))
    assert any("bare text" in line for line in wide)
    assert not any("bare text" in line for line in narrow)
    assert any("payload.prompt_tokens" in line and line.endswith("pass") for line in narrow)
    assert narrow[-1].split() == ["verdict", "PASS"]
    assert max(map(len, narrow)) <= 80


@pytest.mark.parametrize("width", range(60, 200, 4))
def test_the_outcome_is_whole_at_any_width(width: int) -> None:
    said = "google/gemma-3-270m x 600"
    odd = Finding(check="payload.prompt_tokens", requirement=said, expected=said, measured=said, n=600,
                  smallest_deviation="-1.8%/+5.7%", outcome=Outcome.UNSUPPORTED)  # fmt: skip
    lines = shown(findings_table([judged(odd, case="b_fixed_concurrency")], width), width)
    assert any(line.rstrip().endswith("unsupported") for line in lines)
    assert lines[-1].split() == ["verdict", "UNSUPPORTED"]


def test_what_was_not_made_names_no_folder_and_says_why_once() -> None:
    judgement = not_made("a case", "a tool", (row_of_missing_tool("`get it`"),))
    assert shown(summary_line(judgement, "")) == ["a case x a tool: unsupported, not run"]
    assert attention(judgement, "", "again") == ["a case x a tool: unsupported: not installed: `get it`"]


def test_an_unsupported_verdict_tells_what_passed() -> None:
    silent = msgspec.structs.replace(PASSED, outcome=Outcome.UNSUPPORTED)
    [line] = shown(summary_line(judged(PASSED, PASSED, silent), "run"))
    assert line == "a case x a tool: unsupported (2 pass, 1 unsupported), in run"


def test_claims_without_a_journal_stand_alone() -> None:
    lines = shown(
        claims_table([Claim(quantity="q", unit="tokens", claimed=3, truth=None, definition="no journal")], "t")
    )
    assert lines[-1].split() == ["q", "3", "tokens"]
    assert "journal" not in "".join(lines)


def test_a_broken_run_shows_no_findings() -> None:
    judgement = judged(FAILED, reason="it broke")
    broken = Judgement(msgspec.structs.replace(judgement.verdict, outcome=Outcome.BROKEN), judgement.findings, ())
    assert not any(FAILED.check in line for line in shown(findings_table([broken])))
    assert attention(broken, "run", "") == ["a case x a tool: broken: it broke"]
