"""Is a file of arguments read as it stands, and a placeholder that nothing would replace told with its line?"""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.errors import UsageProblem
from loadproof.tools.args_file import filled, read_args
from loadproof.tools.base import Setting

SETTING = Setting(base_url="http://h:1", model="m", tokenizer=Path("/t"), out=Path("/o"), seed=3)


def file_of(folder: Path, text: str) -> Path:
    path = folder / "command.args"
    path.write_bytes(text.encode())
    return path


def test_one_argument_a_line_and_nothing_of_comments(tmp_path: Path) -> None:
    path = file_of(tmp_path, "\ufeff# the program\r\n  prog \r\n\r\n--a b\n  # more\n#--not\n--c=#d\n")
    assert read_args(path) == ["prog", "--a b", "--c=#d"]


UNTOUCHED = [
    "awk '{print}'", '{"model": "x"}', "{model: x}", "{ out; }", "{}", "%{http_code}", "{nothing_like_it}", "$HOME",
    '{"a":{"b":1}}',
]  # fmt: skip


@pytest.mark.parametrize("argument", UNTOUCHED)
def test_braces_of_the_tool_itself_stay(tmp_path: Path, argument: str) -> None:
    read = read_args(file_of(tmp_path, f"{argument}\n"))
    assert filled(read, SETTING) == [argument]


def test_each_placeholder_is_replaced_wherever_it_stands(tmp_path: Path) -> None:
    path = file_of(tmp_path, '{base_url}/v1\n--x={model},{tokenizer}\n{"out": "{out}"}\n{seed}{seed}\n')
    assert filled(read_args(path), SETTING) == ["http://h:1/v1", "--x=m,/t", '{"out": "/o"}', "33"]


PROBLEMS = {
    "{base_ur}": "nothing replaces {base_ur}; did you mean 'base_url'?",
    "{Model}": "nothing replaces {Model}; did you mean 'model'?",
    "{base_url": "the brace before base_url is not closed; did you mean '{base_url}'?",
    "--u={base_url/v1": "the brace before base_url is not closed; did you mean '{base_url}'?",
    "${seed}": "${seed} would keep its sign or outer braces; did you mean '{seed}'?",
    "{{out}}": "{{out}} would keep its sign or outer braces; did you mean '{out}'?",
    "a\0b": "holds a NUL, which no argument can; take it out",
}


@pytest.mark.parametrize(("argument", "says"), PROBLEMS.items(), ids=map(ascii, PROBLEMS))
def test_a_placeholder_that_nothing_replaces_is_told_with_its_line(tmp_path: Path, argument: str, says: str) -> None:
    path = file_of(tmp_path, f"prog\n# {argument}\n{argument}\n")
    with pytest.raises(UsageProblem) as raised:
        read_args(path)
    assert str(raised.value) == f"{path}:3: {says}"


def test_every_problem_is_told(tmp_path: Path) -> None:
    path = file_of(tmp_path, "prog\n{modle}\n{model}\n{sed}\n")
    with pytest.raises(UsageProblem) as raised:
        read_args(path)
    assert str(raised.value).splitlines() == [
        f"{path}:2: nothing replaces {{modle}}; did you mean 'model'?",
        f"{path}:4: nothing replaces {{sed}}; did you mean 'seed'?",
    ]


@pytest.mark.parametrize("text", ["", "\n \n", "# only\n"])
def test_no_argument_is_told(tmp_path: Path, text: str) -> None:
    path = file_of(tmp_path, text)
    with pytest.raises(UsageProblem) as raised:
        read_args(path)
    assert str(raised.value) == f"{path}: holds no argument; write one per line"
