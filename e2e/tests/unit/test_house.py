"""Does the house stay in order: imports one way, no tool's name in a check, no module of no question?"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import loadproof
from loadproof.tools.names import TOOL_FILES

PACKAGE = Path(loadproof.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))

# A module imports only from its own room or from lower ranks; the longest matching name counts.
BY_RANK = (
    "loadproof errors data model_places absorber.laws",
    "verdict plain_words yaml_text words cache live host chat_template record ended interruptible strict_model",
    "process_tree warden log_tail lengths allowances",
    "tools.names absorber.profile warden_link workload",
    "stream_file packed_rows prompts",
    "streams raw_request placed_chunks",
    "parts",
    "merging",
    "sealing",
    "arrival tokenizer strict_yaml reported journal process requirements",
    "expected load profile_flags placement",
    "case metronome tools absorber simulators",
    "case_rules checks run_folder",
    "judging tool_run descriptors",
    "together simulated",
    "planning observing",
    "bench",
    "report serving cli_options",
    "plugin cli data.make_tokenizer_tarball data.make_words",
    "__main__",
)
RANKS = {name: rank for rank, names in enumerate(BY_RANK) for name in names.split()}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def group_of(module: str) -> str:
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in RANKS:
            return ".".join(parts[:length])
    return "loadproof" if not module else pytest.fail(f"{module} has no rank; give it one, and say why there")


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return {name.removeprefix("loadproof").lstrip(".") for name in found if name.split(".")[0] == "loadproof"}


def edges() -> list[tuple[str, str]]:
    known = {name_of(path) for path in MODULES}
    return [(name_of(path), target) for path in MODULES for target in imports_of(path) if target in known]


def test_imports_point_one_way() -> None:
    found = edges()
    assert ("bench", "judging") in found
    assert ("checks.rate", "load.arrivals") in found
    wrong = [
        f"{source} imports {target}"
        for source, target in found
        if group_of(source) != group_of(target) and RANKS[group_of(source)] <= RANKS[group_of(target)]
    ]
    assert wrong == []


@pytest.mark.parametrize("room", ["load", "checks"])
@pytest.mark.parametrize(
    "forbidden", ["case", "bench", "tools", "report", "process", "absorber", "run_folder"]
)  # fmt: skip
def test_measuring_and_checking_reach_for_nothing_else(room: str, forbidden: str) -> None:
    """Measuring never sees the expectation; checks open no file. `checks.every` alone is given the Case as it is."""
    allowed = {("checks.every", "case")}
    reached = {
        (source, target)
        for source, target in edges()
        if source.startswith(f"{room}.") and (target == forbidden or target.startswith(f"{forbidden}."))
    }
    assert reached - allowed == set()


def test_load_never_sees_the_expectation() -> None:
    assert [edge for edge in edges() if edge[0].startswith("load.") and edge[1] in {"expected", "arrival"}] == []


def test_the_absorber_gets_a_profile_and_never_a_case() -> None:
    assert [edge for edge in edges() if edge[0].startswith("absorber") and edge[1] in {"expected", "case"}] == []


@pytest.mark.parametrize("tool", sorted(set(TOOL_FILES) - {"command", "metronome"}))
def test_no_check_knows_a_tool(tool: str) -> None:
    spelled = re.compile(tool.replace("-", "[-_ ]?"), re.IGNORECASE)
    files = [path for room in ("load", "checks") for path in (PACKAGE / room).rglob("*.py")]
    assert len(files) > 10
    assert [str(path) for path in files if spelled.search(path.read_text())] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_are_small_and_say_their_question(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert len(text.splitlines()) <= 250
    long = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno > 60
    ]
    assert long == []
    assert path.stem not in {"utils", "helpers", "common", "manager"}
