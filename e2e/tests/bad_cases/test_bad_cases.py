"""Is each of these broken cases and profiles refused with file, line, what is wrong and what was meant?

A folder of `corpus/` is a good case of `good/` with one mistake: the files in it take the place of the good ones.
Its `says.yaml` names the good case, files that are taken away, and every line that must be said, in full (one that
ends in `...` only so far), `case` being the folder. Nothing else may be said, and nothing may be left.

In-process but for a few that are told by a real process; nothing here is begun, so both are the same code.
"""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from ruamel.yaml import YAML

from loadproof.absorber.profile import Profile
from loadproof.bench import plan_jobs
from loadproof.case import read_case
from loadproof.cli import main
from loadproof.errors import Exit, UsageProblem
from loadproof.expected import Expected
from loadproof.strict_yaml import read_strict
from tests.test_bad_input import Shell

HERE = Path(__file__).parent
GOOD = HERE / "good"
RATE = (GOOD / "rate" / "expected.yaml").read_text()
SAYS = "says.yaml"
CASES = sorted(path.name for path in GOOD.iterdir() if (path / "expected.yaml").exists())
BROKEN = sorted(path.name for path in (HERE / "corpus").iterdir())
REAL = [
    "aliases-that-multiply", "args-with-a-misspelt-placeholder", "tool-yaml-with-a-tab",
    "profile-law-misspelt",
]  # fmt: skip
SEVERAL = {"many-mistakes", "merge-conflict"}
"""What is wrong in several places of the file."""


@dataclass(frozen=True)
class Broken:
    """One entry of the corpus."""

    name: str
    good: Path
    says: list[str]
    removes: list[str]

    @classmethod
    def read(cls, name: str) -> Broken:
        told = YAML(typ="safe").load(HERE / "corpus" / name / SAYS)
        return cls(name, GOOD / told.pop("good"), told.pop("says"), told.pop("removes", []), **told)

    @property
    def files(self) -> list[Path]:
        """What takes the place of the good files."""
        return sorted(path for path in (HERE / "corpus" / self.name).iterdir() if path.name != SAYS)

    def lay_out(self, folder: Path) -> list[str]:
        """Make the folder, and return the command that must refuse it."""
        shutil.copytree(self.good, folder)
        for name in self.removes:
            (folder / name).unlink()
        for file in self.files:
            shutil.copyfile(file, folder / file.name)
        if self.good.name == "profile":
            return ["observe", "--profile", f"{folder.name}/profile.yaml", "--out", "out", "--", "true"]
        return ["run", folder.name, "--out", "out"]

    def assert_says(self, told: str) -> None:
        lines, wanted = told.removeprefix("loadproof: ").splitlines(), self.says
        assert told.startswith("loadproof: ")
        assert len(lines) == len(wanted), told
        for line, words in zip(lines, wanted, strict=True):
            assert line.startswith(words.removesuffix("...")) if words.endswith("...") else line == words


def listing(folder: Path) -> dict[str, bytes | None]:
    """Return every file with its content, everything else with None."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_running() -> Iterator[None]:
    """Asked once, because looking at every process takes longer than a refusal."""
    before = psutil.Process().children(recursive=True)
    yield
    assert psutil.Process().children(recursive=True) == before


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[list[str]], str]:
    """Run a command in the folder and return what it said; it must refuse, and leave everything as it was."""
    monkeypatch.chdir(tmp_path)

    def run(argv: list[str]) -> str:
        before = listing(tmp_path)
        code, told = main(argv), capsys.readouterr()
        assert (code, told.out) == (Exit.USAGE, "")
        assert "Traceback" not in told.err
        assert listing(tmp_path) == before
        return told.err

    return run


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_said_and_nothing_else(refused: Callable[[list[str]], str], tmp_path: Path, name: str) -> None:
    broken = Broken.read(name)
    broken.assert_says(refused(broken.lay_out(tmp_path / "case")))


@pytest.mark.parametrize("name", REAL)
def test_a_real_process_says_the_same(tmp_path: Path, name: str) -> None:
    broken, shell = Broken.read(name), Shell(tmp_path)
    argv = broken.lay_out(tmp_path / "case")
    if argv[0] == "observe":
        argv = ["serve", "--profile", "case/profile.yaml", "--journal", "out"]
    before = shell.listing()
    told = shell.tell(*argv)
    assert (told.code, told.out) == (64, "")
    broken.assert_says(told.err)
    assert shell.listing() == before
    assert shell.left_running() == []


# --- the corpus itself


@pytest.mark.parametrize("name", CASES)
def test_the_good_cases_are_accepted(tmp_path: Path, name: str) -> None:
    jobs = plan_jobs([GOOD / name], [], tmp_path / "out", 0)
    assert {job.tool.name for job in jobs} == set(read_case(GOOD / name).expected.tools)


def test_the_good_profile_is_accepted() -> None:
    assert read_strict(GOOD / "profile" / "profile.yaml", Profile).seed == 7


@pytest.mark.parametrize("name", BROKEN)
def test_repaired_in_one_place_it_is_the_good_case(name: str) -> None:
    """Then nothing but this one place can be what is refused."""
    broken = Broken.read(name)
    assert broken.says
    pairs = [(broken.good / file.name, file) for file in broken.files if (broken.good / file.name).exists()]
    added = [file for file in broken.files if not (broken.good / file.name).exists()]
    assert len(pairs) + max(len(added), len(broken.removes)) == 1
    for good, bad in pairs:
        before, after = (path.read_bytes().splitlines(keepends=True) for path in (good, bad))
        changes = [code for code in difflib.SequenceMatcher(a=before, b=after).get_opcodes() if code[0] != "equal"]
        assert (len(changes) > 1) == (name in SEVERAL)
        assert changes


# --- what cannot lie in a repository, or is made more clearly here


def _replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder": (Path.mkdir, "case/expected.yaml: is not a file"),
    "a pipe": (os.mkfifo, "case/expected.yaml: is not a file"),
    "a link to itself": (
        lambda path: path.symlink_to(path.name),
        "case/expected.yaml: is a symbolic link that leads nowhere",
    ),
    "a link to nothing": (
        lambda path: path.symlink_to("gone.yaml"),
        "case/expected.yaml: is a symbolic link that leads nowhere",
    ),
    "a megabyte": (
        lambda path: path.write_bytes(b"#" * 1024 * 1025),
        "case/expected.yaml: is larger than 1048576 bytes; no file of this kind is that long",
    ),
    "100,000 brackets": (
        lambda path: path.write_text("why: a\nload: " + "[" * 100_000),
        "case/expected.yaml:2: is nested too deeply; at most 32 levels are read",
    ),
    "a key of 1,000 letters": (
        lambda path: path.write_text(f"{RATE}{'k' * 1000}: 1"),
        f"case/expected.yaml:27: {'k' * 57}...: unknown key; the keys here are {', '.join(Expected.model_fields)}",
    ),
    "a number of 100,000 digits": (
        lambda path: path.write_text(RATE.replace("rate: 40", "rate: " + "4" * 100_000)),
        f"case/expected.yaml:14: load.rate: cannot be read as a whole number: '{'4' * 37}...'",
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_expected_yaml_is_something_else(refused: Callable[[list[str]], str], tmp_path: Path, what: str) -> None:
    make, says = ODD[what]
    shutil.copytree(GOOD / "rate", tmp_path / "case")
    _replaced(tmp_path / "case" / "expected.yaml", make)
    assert refused(["run", "case", "--out", "out"]) == f"loadproof: {says}\n"


def test_a_case_that_is_a_link_to_itself(refused: Callable[[list[str]], str], tmp_path: Path) -> None:
    (tmp_path / "case").symlink_to("case")
    assert refused(["run", "case", "--out", "out"]) == "loadproof: case: is a symbolic link that leads nowhere\n"


@pytest.mark.parametrize("name", ["expected.yaml", "command.args"])
def test_a_file_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(shutil.copytree(GOOD / "rate", tmp_path / "case").parent)
    may_open = Path.open

    def refuse(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path.name == name:
            raise PermissionError(13, "Permission denied")
        return may_open(path, *args, **kwargs)

    # the user who runs the tests may be allowed to open everything, so the refusal is forged
    monkeypatch.setattr(Path, "open", refuse)
    assert main(["run", "case", "--out", "out"]) == Exit.USAGE
    assert capsys.readouterr().err == f"loadproof: case/{name}: cannot be read: Permission denied\n"
    assert not (tmp_path / "out").exists()


# --- what is unusual and right

UNUSUAL: dict[str, Callable[[bytes], bytes]] = {
    "line ends of Windows": lambda raw: raw.replace(b"\n", b"\r\n"),
    "a byte order mark": lambda raw: b"\xef\xbb\xbf" + raw,
    "a start of the document": lambda raw: b"---\n" + raw + b"...\n",
    "no line end at the end": lambda raw: raw.rstrip(b"\n"),
    "a number in groups": lambda raw: raw.replace(b"600", b"6_00"),
    "a number in octal": lambda raw: raw.replace(b"600", b"0o1130"),
    "a number with a sign": lambda raw: raw.replace(b"600", b"+600"),
    "a rate with a fraction": lambda raw: raw.replace(b"rate: 40", b"rate: 4.0e1"),
    "True": lambda raw: raw.replace(b"true", b"True"),
    "quoted keys": lambda raw: raw.replace(b"rate:", b'"rate":'),
    "folded text": lambda raw: raw.replace(b"why: a", b"why: >-\n  a"),
}


@pytest.mark.parametrize("how", UNUSUAL)
def test_what_is_unusual_and_right_means_the_same(tmp_path: Path, how: str) -> None:
    shutil.copytree(GOOD / "rate", tmp_path / "case")
    path = tmp_path / "case" / "expected.yaml"
    changed = UNUSUAL[how](path.read_bytes())
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    assert read_case(tmp_path / "case").expected == read_case(GOOD / "rate").expected


def test_a_declared_tool_needs_no_file(tmp_path: Path) -> None:
    """It may be run elsewhere and judged by its journal."""
    shutil.copytree(GOOD / "rate", tmp_path / "case")
    (tmp_path / "case" / "metronome.args").unlink()
    case = read_case(tmp_path / "case")
    assert (case.tools_with_files(), list(case.expected.tools)) == (["command"], ["command", "metronome"])
    with pytest.raises(UsageProblem, match=r"no metronome.args in .*, so metronome is not part of this case"):
        plan_jobs([tmp_path / "case"], ["metronome"], tmp_path / "out", 0)
