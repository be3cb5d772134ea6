"""Can every lock of ours be installed by anybody: complete, hashed, and without an address in it?"""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

from loadproof.errors import UsageProblem
from loadproof.tools import lockfile
from loadproof.tools.lockfile import LOCKS, PACKAGES, read_lock

ROOT = Path(__file__).parents[3]
OUR_LOCKS = [ROOT / "pdm.lock", *(LOCKS / f"{tool}.txt" for tool in PACKAGES)]


def unhashed(lock: str) -> list[str]:
    """Return the requirements that have no sha256 of their own."""
    requirements = re.findall(r"^[^\s#].*(?:\n +.*)*", lock, re.MULTILINE)
    assert requirements
    return [r for r in requirements if "==" not in r or not re.search(r"--hash=sha256:[0-9a-f]{64}$", r, re.MULTILINE)]


@pytest.mark.parametrize("path", OUR_LOCKS, ids=lambda path: path.name)
def test_no_lock_holds_an_address_or_a_path(path: Path) -> None:
    text = path.read_text()
    assert "://" not in text
    assert not re.search(r"(^|\s)/\w+/", text)


def test_there_is_a_lock_for_each_registered_tool_and_no_other() -> None:
    assert {path.stem for path in LOCKS.glob("*.txt")} == set(PACKAGES)


@pytest.mark.parametrize("tool", PACKAGES)
def test_header_says_what_the_lock_pins(tool: str) -> None:
    lock = read_lock(tool)
    text = lock.path.read_text()
    assert re.search(rf"^{tool}=={re.escape(lock.version)} ", text, re.MULTILINE)
    assert re.fullmatch(r"3\.\d+", lock.python)
    assert dt.date.fromisoformat(lock.date) >= dt.date(2025, 1, 1)
    assert 10 <= lock.size_mb <= 20_000
    assert re.search(r"^# made by: .*uv pip compile --universal --generate-hashes .*$", text, re.MULTILINE)


@pytest.mark.parametrize("tool", PACKAGES)
def test_every_requirement_has_a_hash(tool: str) -> None:
    assert unhashed(read_lock(tool).path.read_text()) == []


def test_a_requirement_that_lost_its_hashes_is_noticed() -> None:
    text = read_lock("inference-perf").path.read_text()
    cut = re.sub(r"(?<=^tqdm==4\.70\.1) \\(\n +--hash=.*)+", "", text, flags=re.MULTILINE)
    assert cut != text
    assert unhashed(cut) == ["tqdm==4.70.1"]


def test_packages_for_other_systems_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = "# tool: inference-perf\n# version: 1\n# python: 3.13\n# date: 2025-01-01\n# approximate size: 10 MB\n"
    (tmp_path / "inference-perf.txt").write_text(
        f"{header}a==1 \\\n    --hash=sha256:0\ncolorama==1 ; sys_platform == 'win32' \\\n    --hash=sha256:0\n"
    )
    monkeypatch.setattr(lockfile, "LOCKS", tmp_path)
    assert read_lock("inference-perf").packages == 1


def test_a_lock_with_an_incomplete_header_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inference-perf.txt").write_text("# tool: inference-perf\n# version: 1\n# python: 3.13\na==1\n")
    monkeypatch.setattr(lockfile, "LOCKS", tmp_path)
    with pytest.raises(ValueError, match=r"lacks \['approximate size', 'date'\]"):
        read_lock("inference-perf")


def test_a_tool_without_a_lock_is_told_which_have_one() -> None:
    with pytest.raises(UsageProblem, match=r"no-such-tool: .*inference-perf"):
        read_lock("no-such-tool")
