"""Does `run_tool` run one tool once, in a folder of its own, and return what it reported and how it ended?"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from loadproof.bench import ToolRun, run_tool
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.reported import Reported

URL = "http://127.0.0.1:9"  # nobody is asked anything
CLAIMS = '{"completed": 3, "failed": 1}'
TELL = """\
import json, os, pathlib, sys
names = "base_url", "model", "tokenizer", "out", "seed"
given = dict(zip(names, sys.argv[1:], strict=True))
given |= {"hub": os.environ["HF_HOME"], "cwd": os.getcwd(), "proxy": os.environ.get("http_proxy")}
print(json.dumps(given))
pathlib.Path(given["out"], "claims.json").write_text('{"completed": 3, "failed": 1}')
"""
PLACEHOLDERS = ("{base_url}", "{model}", "{tokenizer}", "{out}", "{seed}")


def config_of(folder: Path, script: str = TELL, name: str = "mine.args") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "tool.py").write_text(script)
    config = folder / name
    config.write_text("\n".join([sys.executable, "-S", str(folder / "tool.py"), *PLACEHOLDERS, ""]))
    return config


def run(config: Path, **options: object) -> ToolRun:
    return asyncio.run(run_tool("command", config, URL, **options))  # type: ignore[arg-type]  # passed through


def test_what_it_reported_how_it_ended_and_where_its_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config_of(tmp_path / "made")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    ran = asyncio.run(run_tool("command", Path("made/mine.args"), f"{URL}/", seed=7))
    own = tmp_path / "made" / "mine-out" / "tool"
    assert ran.reported == Reported(completed=3, failed=1)
    assert (ran.ended.exit_code, ran.ended.stopped_because) == (0, "")
    assert ran.out == own
    given = json.loads((own.parent / "tool.stdout").read_text())
    assert Path(given.pop("tokenizer"), "tokenizer.json").is_file()
    assert given == {"base_url": URL, "model": "google/gemma-3-270m", "out": str(own), "seed": "7",
                     "hub": str(own / "hub"), "cwd": str(own), "proxy": None}  # fmt: skip
    assert f'"seed": "7", "hub": "{own}' in ran.log


def test_a_folder_is_used_once(tmp_path: Path) -> None:
    config = config_of(tmp_path / "made")
    run(config)
    with pytest.raises(UsageProblem, match="mine-out: is not an empty folder"):
        run(config)
    assert run(config, out=tmp_path / "other", model="m").reported == Reported(completed=3, failed=1)


def test_several_at_once_each_have_their_own_and_two_never_the_same(tmp_path: Path) -> None:
    config = config_of(tmp_path / "made")

    async def several() -> list[ToolRun | BaseException]:
        outs = [tmp_path / "a", tmp_path / "b", tmp_path / "a"]
        asked = [run_tool("command", config, URL, out=out, seed=number) for number, out in enumerate(outs)]
        return await asyncio.gather(*asked, return_exceptions=True)

    ended = asyncio.run(several())
    ran = [each for each in ended if isinstance(each, ToolRun)]
    [refused] = [each for each in ended if isinstance(each, BaseException)]
    assert isinstance(refused, UsageProblem)
    assert "another run has just begun there" in str(refused)
    assert sorted(each.out.parent.name for each in ran) == ["a", "b"]
    for each in ran:
        assert json.loads((each.out.parent / "tool.stdout").read_text())["out"] == str(each.out)


FAILS = f"{TELL}\nprint('the last words')\nraise SystemExit(3)\n"
HALF = TELL.replace('"failed": 1}', '"fai')


def test_a_tool_that_fails_is_returned_with_what_it_said(tmp_path: Path) -> None:
    ran = run(config_of(tmp_path / "made", FAILS))
    assert ran.ended.exit_code == 3
    assert ran.reported == Reported(completed=3, failed=1)
    assert "the last words" in ran.log


def test_a_report_that_cannot_be_read_is_broken_where_the_tool_ended_well(tmp_path: Path) -> None:
    with pytest.raises(BrokenRun, match=r"claims\.json: is not a claims file"):
        run(config_of(tmp_path / "made", HALF))


def test_what_a_failing_tool_left_half_written_is_no_report(tmp_path: Path) -> None:
    ran = run(config_of(tmp_path / "made", f"{HALF}\nraise SystemExit(3)\n"))
    assert (ran.ended.exit_code, ran.reported) == (3, None)


def test_a_tool_without_a_report_has_none(tmp_path: Path) -> None:
    assert run(config_of(tmp_path / "made", "")).reported is None


def test_past_its_deadline_it_is_stopped_and_returned(tmp_path: Path) -> None:
    ran = run(config_of(tmp_path / "made", "import signal; signal.pause()"), deadline_s=0.05)
    assert ran.ended.stopped_because == "was still running after its deadline of 0.05 s and was stopped"
    assert ran.reported is None


def test_a_program_that_cannot_be_started_is_broken(tmp_path: Path) -> None:
    config = config_of(tmp_path / "made")
    program = tmp_path / "made" / "program"
    program.write_text("no program at all")
    program.chmod(0o755)
    config.write_text("./program\n")
    with pytest.raises(BrokenRun, match="program: "):
        run(config)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("comand", "mine.args", URL), "comand: unknown tool.*command"),
        (("command", "other.args", URL), r"other\.args: there is no such file; name command's configuration"),
        (("command", "empty.args", URL), "holds no argument"),
        (("command", "mine.args", "127.0.0.1:9"), "is not a base URL; give one as http://"),
        (
            ("inference-perf", "perf.yaml", URL),
            "inference-perf is not installed: `loadproof tools sync inference-perf`",
        ),
        (("vllm", "mine.args", URL), "vllm is not installed: this version of loadproof cannot run it"),
    ],
)
def test_what_cannot_be_run_is_told_before_anything_is_made(
    asked: tuple[str, str, str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADPROOF_CACHE", str(tmp_path / "cache"))  # where no tool is installed
    monkeypatch.delenv("LOADPROOF_INFERENCE_PERF", raising=False)
    folder = config_of(tmp_path / "made").parent
    (folder / "empty.args").write_text("# nothing\n")
    (folder / "perf.yaml").write_text("api: {type: completion}\n")
    before = sorted(folder.rglob("*"))
    name, config, url = asked
    with pytest.raises(UsageProblem, match=says):
        asyncio.run(run_tool(name, folder / config, url))
    assert sorted(folder.rglob("*")) == before
