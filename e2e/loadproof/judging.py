"""What do a case, a journal and a tool's own files say together? Offline, and the same each time.

Reads a run folder (or a journal of `serve`) and returns findings, claims and the verdict; a run that did not
end as it must is `broken`, with the reason, whatever was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loadproof.case import read_case
from loadproof.checks.claims import beside, required_but_not_judged
from loadproof.checks.every import ask_all
from loadproof.errors import BrokenRun
from loadproof.journal import read_journal
from loadproof.load.measured import measure
from loadproof.load.truth import truth
from loadproof.process import tail
from loadproof.reported import Reported, read_claims
from loadproof.run_folder import RunFolder
from loadproof.tools.registry import tool_named
from loadproof.verdict import Claim, Finding, Outcome, Verdict, verdict_of

if TYPE_CHECKING:
    from loadproof.case import Case
    from loadproof.journal import Journal
    from loadproof.run_folder import RunRecord


@dataclass(frozen=True)
class Judgement:
    """All that judging says of one run."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    claims: tuple[Claim, ...]


def judge_run(path: Path) -> Judgement:
    """Judge a run folder and write findings.json, claims.json and verdict.json into it."""
    folder = RunFolder(path)
    record = folder.read_record()
    judgement = _judge_record(folder, record)
    folder.write("findings.json", judgement.findings)
    folder.write("claims.json", judgement.claims)
    folder.write("verdict.json", judgement.verdict)
    return judgement


def _judge_record(folder: RunFolder, record: RunRecord) -> Judgement:
    # The copy of the case is named `case`; the case's own name is in the record.
    case = read_case(folder.case)
    broken = _how_it_broke(folder, record)
    try:
        journal = read_journal(folder.journal)
        if not broken and not measure(journal).requests.n:
            broken = f"{record.tool} {record.tool_ended.says()} and never sent a request to a generation path"
            broken += _log_tail(folder)
        reported = tool_named(record.tool).claims(folder.tool_out)
        findings, claims = _judge(case, record.tool, journal, reported, record.tool_ended.ended_ns)
    except BrokenRun as error:
        broken, findings, claims = broken or str(error), (), ()
    verdict = verdict_of(record.case, record.tool, findings, run=folder.path.name)
    if broken:
        verdict = verdict_of(record.case, record.tool, (), reason=broken, run=folder.path.name)
    return Judgement(verdict, findings, claims)


def _how_it_broke(folder: RunFolder, record: RunRecord) -> str:
    """Return why the run is broken, with the tail of the log; empty when it is not."""
    if record.absorber_ended.exit_code != 0:
        log = tail(folder.path / "absorber.stderr")
        return f"the absorber {record.absorber_ended.says()}; this is a defect of loadproof\n{log}"
    ended = record.tool_ended
    if ended.stopped_because or ended.exit_code != 0:
        return f"{record.tool} {ended.says()}{_log_tail(folder)}"
    return ""


def _log_tail(folder: RunFolder) -> str:
    log = tail(folder.path / "tool.stdout", folder.path / "tool.stderr")
    return f"\n{log}" if log else "\n(its output is empty)"


def judge_journal(case: Case, tool: str, journal_path: Path, claims_path: Path | None) -> Judgement:
    """Judge a journal of `serve`: the tool ran elsewhere. Writes nothing."""
    reported = read_claims(claims_path) if claims_path else None
    journal = read_journal(journal_path)
    findings, claims = _judge(case, tool, journal, reported, None)
    return Judgement(verdict_of(case.name, tool, findings, run=str(journal_path)), findings, claims)


def _judge(
    case: Case, tool: str, journal: Journal, reported: Reported | None, tool_ended_ns: int | None
) -> tuple[tuple[Finding, ...], tuple[Claim, ...]]:
    findings = ask_all(case, tool, measure(journal, tool_ended_ns=tool_ended_ns))
    claims = beside(reported, truth(journal)) if reported else ()
    if case.expected.claims == "required":
        findings = (*findings, required_but_not_judged(claims))
    return findings, claims


def missing(case: str, tool: str, how_to_get: str) -> Judgement:
    """Return the visible row of a tool that is not installed."""
    reason = f"not installed: {how_to_get}"
    finding = Finding(check="tool", requirement="the tool is installed", expected="installed", measured="missing",
                      outcome=Outcome.UNSUPPORTED, n=0, detail=reason)  # fmt: skip
    return Judgement(verdict_of(case, tool, (finding,), reason=reason), (finding,), ())
