"""The command line: words to calls, results to text, outcomes to exit codes. It decides nothing else.

Exit codes: 0 clean, 1 fail, 2 unclear, 3 broken or a required tool is missing, 64 usage.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import click
import typer

from loadproof import __version__
from loadproof.absorber.profile import Profile
from loadproof.bench import Job, observe, plan_jobs, run_job
from loadproof.case import read_case, warnings
from loadproof.checks.every import check_allowances
from loadproof.errors import Exit, LoadproofError, UsageProblem
from loadproof.journal import read_journal
from loadproof.judging import Judgement, judge_journal, judge_run
from loadproof.load.measured import measure
from loadproof.load.offered import offered
from loadproof.metronome.__main__ import main as metronome
from loadproof.report.progress import ProgressLine
from loadproof.report.terminal import attention, claims_table, console, findings_table
from loadproof.requirements import required
from loadproof.serving import serve_here
from loadproof.strict_yaml import read_strict
from loadproof.tools.environments import sync, tool_rows
from loadproof.verdict import EXIT_CODES, merge

app = typer.Typer(
    name="loadproof", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Judge LLM load generators: did the tool offer the load that was asked, and are its claims true?",
)  # fmt: skip
tools_app = typer.Typer(invoke_without_command=True, help="The tools: what is pinned, what is installed.")
app.add_typer(tools_app, name="tools")

Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of everything drawn; shown in run.json.")]
ProfileFile = Annotated[Path | None, typer.Option("--profile", help="A YAML file with the absorber's profile.")]
Ttft = Annotated[float | None, typer.Option("--ttft-s", help="Time to first token, in seconds.")]
Itl = Annotated[float | None, typer.Option("--itl-s", help="Time between tokens, in seconds.")]
Tokens = Annotated[int | None, typer.Option("--output-tokens", help="Where the model stops by itself.")]


def _read_profile(file: Path | None, ttft_s: float | None, itl_s: float | None, tokens: int | None) -> Profile:
    base = read_strict(file, Profile) if file else Profile()
    flags = {"ttft_s": ttft_s, "itl_s": itl_s, "output_tokens": tokens}
    try:
        return Profile.model_validate({**base.model_dump(), **{k: v for k, v in flags.items() if v is not None}})
    except ValueError as error:
        raise UsageProblem(f"the profile's flags: {error}") from error


def _new_folder(prefix: str = "") -> Path:
    """Return a name for a folder that is not there yet; who writes into it makes it."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return Path("runs") / f"{prefix}{stamp}-{os.getpid()}"


def _await[T](work: Coroutine[Any, Any, T]) -> T:
    """Run asyncio work; SIGTERM unwinds it like Ctrl-C does, so that nothing is left running."""

    async def guarded() -> T:
        task = asyncio.ensure_future(work)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await task

    return asyncio.run(guarded())


@app.command("run")
def run_command(
    cases: Annotated[list[Path], typer.Argument(metavar="CASE...", help="Case folders.")],
    tool: Annotated[list[str] | None, typer.Option(help="Only this tool; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where run folders go; a new folder in runs/ by default.")] = None,
    seed: Seed = 0,
) -> int:
    """Run the case with the real tool, record, measure and judge."""
    must = required()
    jobs = plan_jobs(cases, tool or [], out or _new_folder(), seed)
    out_console, err_console = console(), console(stderr=True)
    for text in dict.fromkeys(line for job in jobs for line in warnings(job.case)):
        err_console.print(f"warning: {text}", markup=False)
    with ProgressLine(err_console) as progress:
        judgements = [_await(run_job(job, progress)) for job in jobs]
    _show(judgements, [str(job.folder.path) for job in jobs], [_again(job) for job in jobs])
    absent = sorted({job.tool.name for job in jobs if job.executable is None} & must)
    if absent:
        out_console.print(f"required and not installed: {', '.join(absent)}", markup=False)
        return Exit.BROKEN
    return EXIT_CODES[merge(judgement.verdict.outcome for judgement in judgements)]


def _again(job: Job) -> str:
    return f"loadproof run {job.case.folder} --tool {job.tool.name} --seed {job.seed}"


def _show(judgements: list[Judgement], where: list[str], again: list[str]) -> None:
    shown = console()
    for judgement in judgements:
        if judgement.claims:
            title = f"{judgement.verdict.case} x {judgement.verdict.tool}: claims (shown, not judged)"
            shown.print(claims_table(judgement.claims, title))
    shown.print(findings_table(judgements, where))
    for judgement, folder, command in zip(judgements, where, again, strict=True):
        for line in attention(judgement, folder, command):
            shown.print(line, markup=False, soft_wrap=True)


@app.command("judge")
def judge_command(
    runs: Annotated[list[Path] | None, typer.Argument(metavar="RUN...", help="Run folders.")] = None,
    case: Annotated[Path | None, typer.Option(help="With --journal: the case that was run elsewhere.")] = None,
    journal: Annotated[Path | None, typer.Option(help="The folder that `serve --journal` wrote.")] = None,
    claims: Annotated[Path | None, typer.Option(help="A claims.json of the tool.")] = None,
    tool: Annotated[str, typer.Option(help="With --journal: whose declarations hold.")] = "command",
) -> int:
    """Judge stored runs again, offline: the same findings. Or a journal of `serve`."""
    if (case is None) != (journal is None) or bool(runs) == (case is not None):
        raise UsageProblem("name run folders, or both --case and --journal")
    if case is not None and journal is not None:
        read = read_case(case)
        check_allowances(read)
        judgements, where = [judge_journal(read, tool, journal, claims)], [str(journal)]
    else:
        where = [str(run) for run in runs or []]
        judgements = [judge_run(run) for run in runs or []]
    _show(judgements, where, [f"loadproof judge {run}" for run in where])
    return EXIT_CODES[merge(judgement.verdict.outcome for judgement in judgements)]


@app.command("observe", context_settings={"allow_interspersed_args": False})
def observe_command(
    command: Annotated[list[str], typer.Argument(metavar="CMD {base_url} ...", help="{base_url} {model} {tokenizer} "
                                                 "{out} {seed} in it are replaced.")],
    profile: ProfileFile = None, ttft_s: Ttft = None, itl_s: Itl = None, output_tokens: Tokens = None,
    out: Annotated[Path | None, typer.Option(help="Where the journal and the logs go.")] = None,
    deadline_s: Annotated[float, typer.Option(min=0.001, help="Stop the command after this many seconds.")] = 600,
    seed: Seed = 0,
) -> int:  # fmt: skip
    """Run any command against the absorber and print what it offered; no case, nothing is judged."""
    behaviour = _read_profile(profile, ttft_s, itl_s, output_tokens)
    where = out or _new_folder("observe-")
    seen = _await(observe(command, behaviour, where, seed=seed, deadline_s=deadline_s))
    shown = console()
    for name, value in offered(measure(read_journal(seen.journal))):
        shown.print(f"{name + ':':30}{value}", markup=False, soft_wrap=True)
    shown.print(f"{'the command:':30}{seen.ended.says()}, {seen.ended.usage.cpu_s:.1f} CPU s", markup=False)
    shown.print(f"{'journal and logs:':30}{where}", markup=False, soft_wrap=True)
    if seen.ended.exit_code != 0:
        shown.print(seen.log, markup=False, soft_wrap=True)
        return Exit.BROKEN
    return Exit.CLEAN


@app.command("serve")
def serve_command(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any.")] = 0,
    profile: ProfileFile = None, ttft_s: Ttft = None, itl_s: Itl = None, output_tokens: Tokens = None,
    journal: Annotated[Path | None, typer.Option(help="Where the journal goes; a new folder by default.")] = None,
) -> int:  # fmt: skip
    """Run the absorber alone, until Ctrl-C, for a person with another terminal."""
    behaviour = _read_profile(profile, ttft_s, itl_s, output_tokens)
    return serve_here(behaviour, host, port, journal or _new_folder("serve-"), console())


@tools_app.callback()
def tools_command(context: typer.Context) -> int:
    """Show a table of the tools: pinned version, installed, where, size."""
    if context.invoked_subcommand is None:
        shown = console()
        for row in tool_rows():
            size = f"{row.size_mb} MB" if row.size_mb is not None else ""
            state = "installed" if row.installed else "not installed"
            shown.print(f"{row.name:20}{row.version:12}{state:15}{size:>9}  {row.where if row.installed else row.how}",
                        markup=False, soft_wrap=True)  # fmt: skip
    return Exit.CLEAN


@tools_app.command("sync")
def tools_sync(names: Annotated[list[str], typer.Argument(metavar="NAME...")]) -> int:
    """Give each named tool its own environment, from its lock."""
    for name in names:
        path = _await(sync(name, say=lambda line: console(stderr=True).print(line, markup=False, soft_wrap=True)))
        console().print(f"{name}: {path}", markup=False, soft_wrap=True)
    return Exit.CLEAN


_PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@app.command("metronome", context_settings=_PASS_ON)
def metronome_command(context: typer.Context) -> int:
    """Run the reference sender; `loadproof metronome --help` lists its options."""
    return metronome(context.args)


@app.command("version")
def version_command() -> int:
    """Print the version."""
    console().print(__version__)
    return Exit.CLEAN


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code; errors for people go to standard error."""
    try:
        result = app(args=argv, prog_name="loadproof", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return Exit.USAGE
    except click.ClickException as error:
        sys.stderr.write(f"loadproof: {error.format_message()}\nTry `loadproof --help`.\n")
        return Exit.USAGE
    except LoadproofError as error:
        sys.stderr.write(f"loadproof: {error}\n")
        return error.exit_code
    except (KeyboardInterrupt, click.Abort, asyncio.CancelledError):
        sys.stderr.write("loadproof: interrupted\n")
        return 130
    except Exception:  # noqa: BLE001 -- anything unforeseen in our own code is broken, never a fail and never a pass
        traceback.print_exc()
        sys.stderr.write("loadproof: this is a defect of loadproof; the run is broken\n")
        return Exit.BROKEN
    return int(result or 0)
