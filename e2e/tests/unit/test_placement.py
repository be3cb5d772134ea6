"""Are the words of `--cpus` read as they are meant, and everything else refused with what could be used?"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from loadproof import cli
from loadproof.errors import Exit, UsageProblem
from loadproof.placement import Placement, read_cpus


@pytest.fixture
def six_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3, 5, 6})


@pytest.mark.parametrize(
    ("words", "cores"),
    [
        (("tool=1", "absorber=0"), ([1], [0])),
        (("absorber=0", "tool=1"), ([1], [0])),
        (("tool=0-2,5", "absorber=6,3"), ([0, 1, 2, 5], [3, 6])),
        (("tool=0-3", "absorber=0-3"), ([0, 1, 2, 3], [0, 1, 2, 3])),
    ],
)
def test_cores(six_cores: None, words: tuple[str, str], cores: tuple[list[int], list[int]]) -> None:
    placement = Placement(cpus=read_cpus(words))
    assert (placement.of_tool, placement.of_absorber) == cores


def test_unpinned() -> None:
    assert (Placement().of_tool, Placement().of_absorber) == ([], [])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("tool=1", "tool=0"), "--cpus tool=1 tool=0: give cores to both, as in --cpus tool=1 absorber=0"),
        (("tool", "case"), "--cpus tool case: give cores to both"),
        (("tool=4", "absorber=0"), "--cpus tool=4: 4 cannot be used, or is named twice"),
        (("tool=3-5", "absorber=0"), "--cpus tool=3-5: 3-5 cannot be used, or is named twice"),
        (("tool=0-999999999", "absorber=0"), "0-999999999 cannot be used"),
        (("tool=1,0-1", "absorber=0"), "--cpus tool=1,0-1: 0-1 cannot be used, or is named twice"),
        (("tool=2-1", "absorber=0"), "'2-1' is neither a core's number nor a range of them, as in 0-2,4"),
        (("tool=", "absorber=0"), "--cpus tool=: '' is neither a core's number"),
        (("tool=1", "absorber=-1"), "--cpus absorber=-1: '-1' is neither a core's number"),
        (("tool=\u0661", "absorber=0"), "is neither a core's number"),
    ],
)
def test_other_words(six_cores: None, words: tuple[str, str], says: str) -> None:
    with pytest.raises(UsageProblem, match=rf"{re.escape(says)}.*; usable: 0, 1, 2, 3, 5, 6$"):
        read_cpus(words)


@pytest.mark.parametrize("command", ["run", "observe"])
def test_the_command_line_refuses_them_before_anything_is_begun(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([command, "--cpus", "tool=0", "absorber=100000", "true"]) == Exit.USAGE
    assert "--cpus absorber=100000: 100000 cannot be used" in capsys.readouterr().err
    assert cli.main([command, "--isolate", "net", "true"]) == Exit.USAGE
    assert "'net' is not one of 'pid'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
