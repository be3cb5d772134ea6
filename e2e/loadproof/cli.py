"""The command line: words to calls, results to text, outcomes to exit codes. It decides nothing else.

Exit codes: 0 clean, 1 fail, 2 unclear, 3 broken or a required tool is missing, 64 usage.
"""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from loadproof import __version__
from loadproof.absorber.recording import Options
from loadproof.bench import Job, plan_jobs, run_job
from loadproof.case import read_case
from loadproof.case_rules import warnings
from loadproof.checks.every import check_allowances
from loadproof.cli_options import (
    Cases,
    Cpus,
    Isolate,
    Itl,
    Level,
    Levels,
    Out,
    ProfileFile,
    Seed,
    Server,
    Tokens,
    ToolNames,
    Ttft,
    Workers,
    placed,
)  # fmt: skip
from loadproof.errors import Exit, LoadproofError, UsageProblem
from loadproof.interruptible import Interrupted, to_the_end
from loadproof.journal import read_journal
from loadproof.judging import Judgement, judge_journal, judge_run
from loadproof.load.measured import COLUMNS, measure
from loadproof.load.offered import offered
from loadproof.metronome.__main__ import main as metronome
from loadproof.observing import observe
from loadproof.profile_flags import read_profile
from loadproof.report.progress import ProgressLine
from loadproof.report.terminal import console, show
from loadproof.requirements import required
from loadproof.run_folder import ABSORBER
from loadproof.serving import serve_here
from loadproof.simulated import simulator_row
from loadproof.tools.environments import sync, tool_rows
from loadproof.verdict import EXIT_CODES, merge

app = typer.Typer(
    name="loadproof", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Judge LLM load generators: did the tool offer the load that was asked, and are its claims true?",
)  # fmt: skip
tools_app = typer.Typer(invoke_without_command=True, help="The tools: what is pinned, what is installed.")
app.add_typer(tools_app, name="tools")


def _new_folder(prefix: str = "") -> Path:
    """Return a name for a folder that is not there yet; who writes into it makes it."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return Path("runs") / f"{prefix}{stamp}-{os.getpid()}"


def _print_version(value: bool) -> None:  # noqa: FBT001 -- as typer calls it
    if value:
        console().print(__version__)
        raise typer.Exit


@app.callback()
def every_command(
    *, version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False
) -> None:
    """Judge LLM load generators: did the tool offer the load that was asked, and are its claims true?"""


@app.command("run")
def run_command(
    cases: Cases, tool: ToolNames = None, out: Out = None, server: Server = ABSORBER, seed: Seed = 0,
    cpus: Cpus = None, isolate: Isolate = None,
) -> int:  # fmt: skip
    """Run the case with the real tool, record, measure and judge."""
    must = required()
    jobs = plan_jobs(cases, tool or [], out or _new_folder(), seed, placed(cpus, isolate), server=server)
    err_console = console(stderr=True)
    for text in dict.fromkeys(line for job in jobs if not job.obstacles for line in warnings(job.case)):
        err_console.print(f"warning: {text}", markup=False, soft_wrap=True)
    judgements: list[Judgement] = []
    try:
        with ProgressLine(err_console) as progress:
            judgements.extend(to_the_end(run_job(job, progress)) for job in jobs)
    finally:  # what had ended before an interruption is shown all the same
        show(judgements, ["" if job.obstacles else str(job.folder.path) for job in jobs], [_again(job) for job in jobs])
    absent = sorted({name for job in jobs for name in job.absent} & must)
    if absent:
        console().print(f"required (LOADPROOF_REQUIRE) and not installed: {', '.join(absent)}", soft_wrap=True)
        return Exit.BROKEN
    return EXIT_CODES[merge(judgement.verdict.outcome for judgement in judgements)]


def _again(job: Job) -> str:
    server = [] if job.server == ABSORBER else ["--server", job.server]
    words = ["loadproof", "run", str(job.case.folder), "--tool", job.tool.name, *server, "--seed", str(job.seed)]
    return shlex.join(words)


@app.command("judge")
def judge_command(
    runs: Annotated[list[Path] | None, typer.Argument(metavar="RUN...", help="Run folders.")] = None,
    case: Annotated[Path | None, typer.Option(help="With --journal: the case that was run elsewhere.")] = None,
    journal: Annotated[Path | None, typer.Option(help="The folder that `serve --journal` wrote.")] = None,
    claims: Annotated[Path | None, typer.Option(help="With --journal: a claims.json of the tool.")] = None,
    tool: Annotated[
        str | None, typer.Option(help="With --journal: whose declarations hold; `command` by default.")
    ] = None,
) -> int:
    """Judge stored runs again, offline: the same findings. Or a journal of `serve`."""
    if case is not None and journal is not None and not runs:
        read = read_case(case)
        check_allowances(read)
        judgements, where = [judge_journal(read, tool or "command", journal, claims)], [str(journal)]
    elif runs and all(value is None for value in (case, journal, claims, tool)):
        judgements, where = [judge_run(run) for run in runs], [str(run) for run in runs]
    else:
        raise UsageProblem("name run folders and nothing else, or both --case and --journal (with --claims and --tool "
                           "if you like)")  # fmt: skip
    show(judgements, where, [""] * len(where))  # judging again says the same again
    return EXIT_CODES[merge(judgement.verdict.outcome for judgement in judgements)]


@app.command("observe", context_settings={"allow_interspersed_args": False})
def observe_command(
    command: Annotated[list[str], typer.Argument(metavar="CMD {base_url} ...", help="{base_url} {model} {tokenizer} "
                                                 "{out} {seed} in it are replaced.")],
    profile: ProfileFile = None, ttft_s: Ttft = None, itl_s: Itl = None, output_tokens: Tokens = None,
    out: Annotated[Path | None, typer.Option(help="Where the journal and the logs go.")] = None,
    deadline_s: Annotated[float, typer.Option(min=0.001, help="Stop the command after this many seconds.")] = 600,
    seed: Seed = 0, cpus: Cpus = None, isolate: Isolate = None, level: Level = Levels.FULL, workers: Workers = 1,
) -> int:  # fmt: skip
    """Run any command against the absorber and print what it offered; no case, nothing is judged."""
    behaviour = read_profile(profile, ttft_s, itl_s, output_tokens)
    where = out or _new_folder("observe-")
    with ProgressLine(console(stderr=True)) as progress:
        seen = to_the_end(observe(command, behaviour, where, seed=seed, deadline_s=deadline_s, watch=progress,
                                  placement=placed(cpus, isolate), level=level, workers=workers))  # fmt: skip
    lines = [*offered(measure(read_journal(seen.journal, COLUMNS))),
             ("the command", f"{seen.ended.says()}, {seen.ended.usage.cpu_s:.1f} CPU s"),
             ("journal and logs", str(where))]  # fmt: skip
    shown = console()
    for name, value in lines:
        shown.print(f"{name + ':':30}{value}", markup=False, soft_wrap=True)
    if seen.ended.exit_code != 0 or seen.ended.stopped_because:
        shown.print(seen.log or "(its output is empty)", markup=False, soft_wrap=True)
        sys.stderr.write(f"loadproof: broken: {command[0]} {seen.ended.says()}\n")
        return Exit.BROKEN
    return Exit.CLEAN


@app.command("serve")
def serve_command(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any.")] = 0,
    profile: ProfileFile = None, ttft_s: Ttft = None, itl_s: Itl = None, output_tokens: Tokens = None,
    journal: Annotated[Path | None, typer.Option(help="Where the journal goes; a new folder by default.")] = None,
    level: Level = Levels.FULL, workers: Workers = 1,
) -> int:  # fmt: skip
    """Run the absorber alone, until Ctrl-C, for a person with another terminal."""
    behaviour = read_profile(profile, ttft_s, itl_s, output_tokens)
    return serve_here(Options(profile=behaviour, journal=journal or _new_folder("serve-"), host=host, port=port,
                              level=level.value, workers=workers), console())  # fmt: skip


@tools_app.callback()
def tools_command(context: typer.Context) -> int:
    """Show a table of the tools: pinned version, installed, where, size."""
    if context.invoked_subcommand is None:
        required()
        shown = console()
        for row in (*tool_rows(), simulator_row()):
            size = f"{row.size_mb} MB" if row.size_mb is not None else ""
            state = "installed" if row.installed else "not installed"
            shown.print(f"{row.name:20}{row.version:12}{state:15}{size:>9}  {row.where or row.how}",
                        markup=False, soft_wrap=True)  # fmt: skip
    return Exit.CLEAN


@tools_app.command("sync")
def tools_sync(names: Annotated[list[str], typer.Argument(metavar="NAME...")]) -> int:
    """Give each named tool its own environment, from its lock."""
    for name in names:
        path = to_the_end(sync(name, say=lambda line: console(stderr=True).print(line, markup=False, soft_wrap=True)))
        console().print(f"{name}: {path}", markup=False, soft_wrap=True)
    return Exit.CLEAN


_PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@app.command("metronome", context_settings=_PASS_ON)
def metronome_command(context: typer.Context) -> int:
    """Run the reference sender; `loadproof metronome --help` lists its options."""
    return metronome(context.args)


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code; errors for people go to standard error."""
    try:
        result = app(args=argv, prog_name="loadproof", standalone_mode=False)
    except typer.TyperException as error:
        return _wrong_usage(error)
    except LoadproofError as error:
        sys.stderr.write(f"loadproof: {error}\n")
        return error.exit_code
    except Interrupted as error:
        sys.stderr.write(f"loadproof: interrupted by {error}; everything that was started has ended\n")
        return error.exit_code
    except Exception:  # noqa: BLE001 -- anything unforeseen in our own code is broken, never a fail and never a pass
        traceback.print_exc()
        sys.stderr.write("loadproof: this is a defect of loadproof; the run is broken\n")
        return Exit.BROKEN
    return int(result or 0)


def _wrong_usage(error: typer.TyperException) -> int:
    """Say what is wrong with the words on the command line; nothing more where typer has printed the help."""
    says = getattr(error, "format_message", error.__str__)()
    context = getattr(error, "ctx", None)
    if says:
        path = context.command_path if context else "loadproof"
        sys.stderr.write(f"loadproof: {says}\nTry `{path} --help`.\n")
    return Exit.USAGE
