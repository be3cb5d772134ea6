"""Does every command in README and docs/ really run?

The fenced `console` blocks of a page are run in order, line by line, in one new folder that sees the repository.
`pdm run` is taken off: we are inside it, and our environment is first on PATH. Blocks tagged `slow` are left out,
and those tagged `needs:<tool>` run where that tool is installed or on PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loadproof.tools.environments import executable_of
from loadproof.tools.lockfile import PACKAGES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```console([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
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
