"""Does Nix fetch exactly the wheels that our locks mean, on both systems?

Each list in nix/ is compared with its lock (wheel_lists); the mutants show what is found. Of the script that makes the
lists only what needs no network is tried here, the rest in test_assembling.
"""

from __future__ import annotations

import base64
import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.environment.wheel_lists import (
    LOCKS,
    MACHINES,
    SCRIPT,
    Wheel,
    Wheels,
    maker,
    pdm_lock,
    problems_of,
    wheels_in,
)
from tests.environment.workshop import ROOT, own_environ, run

SHA256_OF_ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1


@pytest.mark.parametrize("file", LOCKS)
def test_a_list_is_what_its_lock_means(file: str) -> None:
    assert problems_of(wheels_in(file), LOCKS[file]()) == []


def test_there_is_a_list_of_each_kind_and_no_other() -> None:
    assert {path.name for path in (ROOT / "nix").glob("*-wheels.json")} == LOCKS.keys()


def test_the_lists_hold_what_we_ask_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    roots = {
        "inference-perf-wheels.json": ["inference-perf"],
        "loadproof-wheels.json": project["project"]["dependencies"],
        "loadproof-test-wheels.json": project["dependency-groups"]["dev"],
    }
    for file, wanted in roots.items():
        wheels = wheels_in(file)
        for system in MACHINES:
            have = {canonicalize_name(wheel["pname"]) for wheel in wheels["any"] + wheels[system]}
            assert {canonicalize_name(Requirement(one).name) for one in wanted} - have == set()


def own(wheels: Wheels) -> list[Wheel]:
    return wheels["aarch64-linux"]


def dropped(wheels: Wheels) -> str:
    return f"{own(wheels).pop()['pname']}: is missing"


def dropped_everywhere(wheels: Wheels) -> str:
    return f"{wheels['any'].pop(0)['pname']}: is missing"


def twice(wheels: Wheels) -> str:
    wheels["any"].append(wheels["any"][3])
    return f"{wheels['any'][3]['pname']}: is twice"


def of_the_other_system(wheels: Wheels) -> str:
    own(wheels)[0] = wheels["x86_64-linux"][0]
    return f"{own(wheels)[0]['pname']}: is for another system"


def other_system(wheels: Wheels) -> str:
    wheels["riscv64-linux"] = own(wheels)
    return "riscv64-linux"


def unknown(wheels: Wheels) -> str:
    wheels["any"][0]["pname"] = "left_pad"
    return "left_pad: is not in the lock"


def changed(key: str, value: Callable[[str], str], word: str) -> Callable[[Wheels], str]:
    def mutate(wheels: Wheels) -> str:
        wheel = own(wheels)[-1]
        wheel[key] = value(wheel[key])
        return f"{wheel['pname']}: {word}"

    mutate.__name__ = f"{key} {word}"
    return mutate


def another_letter(text: str) -> str:
    return text[:20] + ("A" if text[20] != "A" else "B") + text[21:]


MUTANTS = [
    dropped, dropped_everywhere, twice, of_the_other_system, other_system, unknown,
    changed("version", lambda text: f"{text}.1", "is not "),
    changed("version", lambda text: f"{text}-1", "has a build number"),
    changed("hash", another_letter, "has another hash"),
    changed("python", lambda _text: "cp314", "is for another"),
    changed("abi", lambda text: f"{text}t", "is for another"),
    changed("platform", lambda _text: "musllinux_1_2_aarch64", "is for another"),
    changed("platform", lambda _text: "manylinux_2_41_aarch64", "is for another"),
    changed("dist", lambda _text: "source", "is looked for under"),
    changed("platform", lambda _text: "https://example.org/", "has {"),
    changed("abi", lambda text: f"{text}-0-1", "Invalid wheel filename"),
]  # fmt: skip


@pytest.mark.parametrize("file", LOCKS)
@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
def test_a_wrong_list_is_found(file: str, mutate: Callable[[Wheels], str]) -> None:
    wheels = wheels_in(file)
    word = mutate(wheels)
    assert word.replace("_", "-") in "\n".join(problems_of(wheels, LOCKS[file]())).replace("_", "-")


def test_the_hash_of_another_file_of_the_package_is_found() -> None:
    wheels, lock = wheels_in("loadproof-wheels.json"), pdm_lock("default")
    wheel = wheels["x86_64-linux"][0]
    of_aarch64 = next(one["hash"] for one in own(wheels) if one["pname"] == wheel["pname"])
    wheel["hash"] = of_aarch64
    [problem] = problems_of(wheels, lock)
    assert "is not the file of that hash" in problem


@pytest.mark.parametrize("file", LOCKS)
def test_the_files_are_as_the_script_writes_them(file: str) -> None:
    text = (ROOT / "nix" / file).read_text()
    assert maker().text_of(json.loads(text)) == text


def test_a_wheel_with_a_build_number_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "left_pad-1.0-2-py3-none-any.whl"
    wheel.touch()
    with pytest.raises(SystemExit, match=f"^{wheel.name}: has a build number"):
        maker().entry(wheel)


def test_a_wheels_arguments_name_it(tmp_path: Path) -> None:
    wheel = tmp_path / "left_pad-1.0-cp39-abi3-manylinux1_x86_64.manylinux_2_5_x86_64.whl"
    wheel.write_bytes(b"abc")
    assert list(maker().entry(wheel).items()) == [
        ("pname", "left_pad"), ("version", "1.0"), ("dist", "cp39"), ("python", "cp39"), ("abi", "abi3"),
        ("platform", "manylinux1_x86_64.manylinux_2_5_x86_64"),
        ("hash", "sha256-" + base64.b64encode(bytes.fromhex(SHA256_OF_ABC)).decode()),
    ]  # fmt: skip


def test_without_uv_nothing_is_written(tmp_path: Path) -> None:
    before = {file: (ROOT / "nix" / file).read_bytes() for file in LOCKS}
    ended = run([sys.executable, SCRIPT], env=own_environ(PATH=str(tmp_path)), cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "uv, which runs pip, is not on PATH" in ended.stderr
    assert {file: (ROOT / "nix" / file).read_bytes() for file in LOCKS} == before
