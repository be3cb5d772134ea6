"""Does every command in README and docs/ really run?

The fenced `console` blocks of a page are run in order, line by line, in one new folder that sees the repository.
`pdm run` is taken off: we are inside it, and our environment is first on PATH. Blocks tagged `slow` are left out,
and those tagged `needs:<tool>` run where that tool, or simulator, is installed or on PATH. The README's `python` blocks
are run beside a sealed and a cut journal that lie where they look for them; what other pages import is there.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loadproof.journal import host_identity
from loadproof.record import Metadata
from loadproof.sealing import seal
from loadproof.streams import JournalWriter
from loadproof.tools.environments import executable_of
from loadproof.tools.lockfile import PACKAGES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```console([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DEADLINE_S = 120


def blocks(page: Path) -> list[tuple[set[str], list[str]]]:
    """Return (tags, commands) of each console block of a page."""
    return [
        (set(match[1].split()), [line.removeprefix("$ ") for line in match[2].splitlines() if line.startswith("$ ")])
        for match in BLOCK.finditer(page.read_text())
    ]


def wanted(tags: set[str]) -> bool:
    needed = [tag.removeprefix("needs:") for tag in tags if tag.startswith("needs:")]
    return "slow" not in tags and all(shutil.which(tool) or is_installed(tool) for tool in needed)


def is_installed(tool: str) -> bool:
    return tool in PACKAGES and executable_of(tool, PACKAGES[tool].program) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    for name in ("e2e", "pyproject.toml", "pdm.lock", "README.md", "LICENSE", "NOTICE"):
        (tmp_path / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in [command for tags, commands in blocks(page) if wanted(tags) for command in commands]:
        ended = subprocess.run(
            ["bash", "-c", command.removeprefix("pdm run ")], check=False, cwd=tmp_path, timeout=DEADLINE_S,
            env=os.environ | {"PATH": path}, capture_output=True, text=True,
        )  # fmt: skip
        assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"


def test_there_are_blocks_of_each_kind() -> None:
    every = [block for page in PAGES for block in blocks(page)]
    assert sum(wanted(tags) for tags, _ in every) >= 5
    assert sum("slow" in tags for tags, _ in every) >= 3
    assert all(commands for _, commands in every)


def live_journal(folder: Path) -> None:
    """Leave the streams of three batches of four requests, each answered with one chunk after 50 ms."""
    folder.mkdir(parents=True)
    host, boot_id = host_identity()
    writer = JournalWriter(folder, Metadata(host=host, boot_id=boot_id, model="m", clock_offset_ns=(0, 0), profile={}))
    for k in range(12):
        raw = b"POST /v1/completions HTTP/1.1\r\n\r\n{}"
        writer.request(k, 0, k, 10**9 + k, 1, 10**9 + k, 10**9 + k, raw, b"d" * 16, k, 0)
        writer.chunk(k, 105 * 10**7 + k, 105 * 10**7 + k, 1, 9, 0)
        writer.end(k, 105 * 10**7 + k, 200, 1, 9, 0, 0, 1, 2, 0, 2, 1)
        if k % 4 == 3:
            writer.flush(0)
    writer.close()


def test_the_readme_opens_a_sealed_journal_and_one_that_was_cut(tmp_path: Path) -> None:
    sealed = tmp_path / "runs" / "readme" / "b_fixed_concurrency-metronome" / "journal"
    killed = tmp_path / "runs" / "killed"
    live_journal(sealed)
    seal(sealed)
    live_journal(killed)
    requests = killed / "requests-0.arrows"
    requests.write_bytes(requests.read_bytes()[:-50])  # into the third batch
    said = [
        subprocess.run(
            [sys.executable, "-c", block], check=True, cwd=tmp_path, timeout=DEADLINE_S, capture_output=True, text=True
        ).stdout
        for block in PYTHON.findall((ROOT / "README.md").read_text())
    ]
    assert len(said) == 2
    assert said[0].startswith("12 ")
    assert "0.05" in said[0]
    assert said[1] == "8\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_imports_is_there(page: Path) -> None:
    for block in PYTHON.findall(page.read_text()):
        for node in ast.parse(block).body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("loadproof"):
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == [], node.module


def test_messages_name_only_pages_that_are_there() -> None:
    named = {
        page
        for module in (ROOT / "e2e" / "loadproof").rglob("*.py")
        for page in re.findall(r"docs/[\w-]+\.md", module.read_text())
    }
    assert "docs/own-tool.md" in named
    assert [page for page in named if not (ROOT / page).is_file()] == []


def test_pages_name_only_files_that_are_there() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
