"""What do a case, a journal and a tool's own files say together? Offline, and the same each time.

Reads a run folder (or a journal of `serve`) and returns findings, claims and the verdict; a run that did not
end as it must is `broken`, with the reason, whatever was found. A run against a simulator has no journal: there the
tool's own report is all that is judged.
"""

from __future__ import annotations

import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from loadproof.case import read_case
from loadproof.checks.claims import beside, required_but_not_judged, unreadable
from loadproof.checks.every import ask_all, ask_without_journal
from loadproof.checks.without_journal import counts_words
from loadproof.errors import BrokenRun, LoadproofError, UsageProblem
from loadproof.journal import FILE_NAME, read_journal
from loadproof.load import measured, truth
from loadproof.parts import stream_files
from loadproof.process import tail
from loadproof.reported import Reported, read_claims
from loadproof.run_folder import ABSORBER, RunFolder
from loadproof.sealing import seal
from loadproof.tools.registry import tool_named
from loadproof.verdict import Claim, Finding, Outcome, Verdict, verdict_of

if TYPE_CHECKING:
    from loadproof.case import Case
    from loadproof.journal import Journal
    from loadproof.load.measured import Load
    from loadproof.run_folder import RunRecord


@dataclass(frozen=True)
class Judgement:
    """All that judging says of one run; `server` is what the tool ran against."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    claims: tuple[Claim, ...]
    server: str = ABSORBER


def judge_run(path: Path) -> Judgement:
    """Judge a run folder and write findings.json, claims.json and verdict.json into it.

    Raises UsageProblem for a folder that is no run, BrokenRun for one whose record cannot be read.
    """
    folder = RunFolder(path)
    record = folder.read_record()
    broken = _how_it_broke(folder, record)
    findings: tuple[Finding, ...] = ()
    claims: tuple[Claim, ...] = ()
    try:
        found, findings, claims = _judged_record(folder, record)
        broken = broken or found
    except LoadproofError as error:
        broken = broken or str(error)
    except Exception:  # noqa: BLE001 -- whatever is wrong with our own checks, the run is broken by it and says so
        broken = broken or f"this is a defect of loadproof\n{traceback.format_exc()}"
    counted = () if broken else findings  # without any the verdict is broken
    # The copy of the case is named `case`; the case's own name is in the record.
    verdict = verdict_of(record.case, record.tool, counted, reason=broken, run=path.resolve().name)
    folder.write("findings.json", findings)
    folder.write("claims.json", claims)
    folder.write("verdict.json", verdict)
    return Judgement(verdict, findings, claims, record.server)


def _judged_record(folder: RunFolder, record: RunRecord) -> tuple[str, tuple[Finding, ...], tuple[Claim, ...]]:
    """Return why the run is broken (empty if it is not), findings and claims."""
    case, ended = read_case(folder.case), record.tool_ended
    unread: tuple[Finding, ...] = ()
    try:
        reported = tool_named(record.tool).claims(folder.tool_out)
    except BrokenRun as error:  # what the tool says is of no use then; what it did is judged all the same
        reported, unread = None, (unreadable(str(error).replace(f"{folder.path}/", "")),)
    if record.server != ABSORBER:
        findings, claims = _judge_report(case, record, reported)
        return "", (*findings, *unread), claims
    journal = _sealed(folder.journal, case, reported)
    load = _measured(case, journal, ended.ended_ns if ended else None)
    broken = _not_whole(journal)
    if ended is not None and not load.requests.n:
        broken = f"{record.tool} {ended.says()} and never sent a request to a generation path{_log_tail(folder)}"
    findings, claims = _judge(case, record.tool, load, journal, reported)
    return broken, (*findings, *unread), claims


def _how_it_broke(folder: RunFolder, record: RunRecord) -> str:
    """Return why the run is broken, with the tail of the log; empty when it is not."""
    tool, absorber = record.tool_ended, record.absorber_ended
    server = absorber if record.server == ABSORBER else record.simulator_ended
    if record.broken or tool is None or server is None:
        return f"{record.broken.rstrip() or 'the run did not come to its end'}{_log_tail(folder, if_empty='')}"
    if absorber is not None and absorber.exit_code != 0:  # a simulator's code says nothing: it was told to end
        return f"the absorber {absorber.says()}\n{tail(folder.path / 'absorber.stderr')}".rstrip()
    if tool.stopped_because or tool.exit_code != 0:
        return f"{record.tool} {tool.says()}{_log_tail(folder)}"
    return ""


def _log_tail(folder: RunFolder, if_empty: str = "\n(its output is empty)") -> str:
    log = tail(folder.path / "tool.stdout", folder.path / "tool.stderr")
    return f"\n{log}" if log else if_empty


def judge_journal(case: Case, tool: str, journal_path: Path, claims_path: Path | None) -> Judgement:
    """Judge a journal of `serve`: the tool ran elsewhere. Writes nothing, but seals what a killed server left.

    Raises UsageProblem for an unknown tool, and for a journal or claims that are not there or are not read.
    """
    case.declaration(tool)
    try:
        reported = read_claims(claims_path) if claims_path else None
    except BrokenRun as error:
        raise UsageProblem(str(error)) from error
    journal = _sealed(journal_path, case, reported)
    findings, claims = _judge(case, tool, _measured(case, journal, None), journal, reported)
    # Findings name their evidence from a run folder; here the journal itself was named.
    findings = tuple(replace(found, evidence=FILE_NAME if found.evidence else "") for found in findings)
    broken = _not_whole(journal)
    counted = () if broken else findings
    return Judgement(verdict_of(case.name, tool, counted, reason=broken, run=str(journal_path)), findings, claims)


def _sealed(path: Path, case: Case, reported: Reported | None) -> Journal:
    """Read what of a journal is judged; a killed server's live streams are sealed first, where that can be done."""
    if path.is_dir() and stream_files(path):
        with suppress(OSError):
            seal(path)
    headers = ["headers"] if case.expected.workload.headers else []
    return read_journal(path, {*measured.COLUMNS, *(truth.COLUMNS if reported else ()), *headers})


def _measured(case: Case, journal: Journal, tool_ended_ns: int | None) -> Load:
    return measured.measure(journal, tool_ended_ns=tool_ended_ns, headers=case.expected.workload.headers)


def _not_whole(journal: Journal) -> str:
    """Return why rows may be missing from a journal; empty where none is."""
    kept = journal.metadata
    if kept.closed and not kept.lost_requests:
        return ""
    lost = f", and {kept.lost_requests} requests are known by their replies alone" if kept.lost_requests else ""
    return ("the journal has no end: the server that wrote it was killed, or its disk was full. What came in its last "
            f"moments may be missing{lost}")  # fmt: skip


def _judge(
    case: Case, tool: str, load: Load, journal: Journal, reported: Reported | None
) -> tuple[tuple[Finding, ...], tuple[Claim, ...]]:
    findings = ask_all(case, tool, load)
    claims = beside(reported, truth.truth(journal)) if reported else ()
    if case.expected.claims == "required":
        findings = (*findings, required_but_not_judged(claims))
    return findings, claims


def _judge_report(
    case: Case, record: RunRecord, reported: Reported | None
) -> tuple[tuple[Finding, ...], tuple[Claim, ...]]:
    findings = ask_without_journal(case, record.tool, reported, record.server)
    if not record.counts_tokens:
        findings = (*findings, counts_words(record.server))
    claims = beside(reported, None) if reported else ()
    if case.expected.claims == "required":
        findings = (*findings, required_but_not_judged(claims))
    return findings, claims


def not_made(case: str, tool: str, obstacles: tuple[Finding, ...], server: str = ABSORBER) -> Judgement:
    """Return the visible rows of a run that was not made, and why not."""
    reason = "; ".join(found.detail for found in obstacles)
    return Judgement(verdict_of(case, tool, obstacles, reason=reason), obstacles, (), server)


def row_of_missing_tool(how_to_get: str) -> Finding:
    """Return the visible row of a tool that is not installed."""
    return Finding(check="tool", requirement="the tool can be run", expected="installed", measured="missing",
                   outcome=Outcome.UNSUPPORTED, n=0, detail=f"not installed: {how_to_get}")  # fmt: skip
