"""Does assemble.sh make an environment that works of exactly the wheels that it is given, as Nix gives them?

As Nix does it: wheels with the store's hash before their names and the store's time on them, no network, a folder
that is not there yet. What does not need real wheels is tried with tiny ones made here; real ones are downloaded by
their list in nix/ alone, against its hashes, and skipped without a network. The whole of inference-perf is `soak`.
"""

from __future__ import annotations

import base64
import platform
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.environment.assembly import (
    assemble,
    downloaded,
    installed,
    made,
    says,
    stored,
    wheels_for_this_machine,
    with_uv,
)
from tests.environment.wheel_lists import Wheel, maker, wheels_in

LIST = "inference-perf-wheels.json"
SMALL = {"charset_normalizer", "six", "tqdm"}  # a shared object, scripts, and not one dependency

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 13), reason="the flake's wheels are for Python 3.13")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


def tiny(store: Path, name: str = "tiny", *, requires: str = "", tags: str = "py3-none-any") -> Path:
    """Return a wheel of one module, with a program that prints the module's file."""
    info = f"{name}-1.0.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    files = {
        f"{name}.py": "def main() -> None:\n    print(__file__)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tags}\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    wheel = store.parent / f"{name}-1.0-{tags}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in (files | {f"{info}/RECORD": record}).items():
            archive.writestr(path, text)
    return stored(wheel, store)


def test_exactly_the_wheels_are_there_and_work(store: Path, tmp_path: Path) -> None:
    out = made(tmp_path / "not" / "there" / "yet", tiny(store), tiny(store, "other", requires="tiny>=1"))
    assert installed(out) == [("other", "1.0"), ("tiny", "1.0")]
    assert says(out / "bin" / "other") == str(next(out.glob("lib/python3.13/site-packages/other.py")))


def test_a_wheel_may_be_named_as_it_is(tmp_path: Path, store: Path) -> None:
    tiny(store)
    assert installed(made(tmp_path / "out", tmp_path / "tiny-1.0-py3-none-any.whl")) == [("tiny", "1.0")]


def content(folder: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_the_same_wheels_make_the_same_files_and_bytecode_that_outlives_the_stores_times(
    store: Path, tmp_path: Path
) -> None:
    """Nix sets all times to 1, which bytecode with a time in it does not survive, and may compare two builds."""
    out = tmp_path / "out"
    wheels = [tiny(store), tiny(store, "other")]
    first = content(made(out, *wheels))
    shutil.rmtree(out)
    second = content(made(out, *wheels))
    assert {name for name in first | second if first.get(name) != second.get(name)} == set()
    bytecode = [first[name][:8] for name in first if name.endswith(".pyc")]
    assert len(bytecode) == len(wheels)
    assert {bytes(head[4:8]) for head in bytecode if isinstance(head, bytes)} == {b"\x01\0\0\0"}  # PEP 552: unchecked


def fitting(tmp_path: Path, body: str) -> str:
    script = tmp_path / "fit"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return str(script)


def test_the_environment_is_fitted_when_all_is_in_it(store: Path, tmp_path: Path) -> None:
    script = fitting(tmp_path, f'"$1/bin/tiny" >"{tmp_path}/said" && echo "$@" >>"{tmp_path}/said"')
    out = made(tmp_path / "out", tiny(store), LOADPROOF_FIT_ENVIRONMENT=script)
    assert (tmp_path / "said").read_text() == f"{out}/lib/python3.13/site-packages/tiny.py\n{out}\n"


def test_what_the_fitting_finds_wrong_is_an_error(store: Path, tmp_path: Path) -> None:
    script = fitting(tmp_path, "echo does not fit >&2; exit 3")
    ended = assemble(tmp_path / "out", sys.executable, tiny(store), LOADPROOF_FIT_ENVIRONMENT=script)
    assert ended.returncode == 3
    assert ended.stderr.endswith("does not fit\n")


def test_nothing_is_left_beside_it_nor_read_from_home(store: Path, tmp_path: Path) -> None:
    scratch, home = tmp_path / "scratch", tmp_path / "home"
    scratch.mkdir()
    (home / ".config/uv").mkdir(parents=True)
    (home / ".config/uv/uv.toml").write_text("nonsense = 1\n")
    made(tmp_path / "out", tiny(store), TMPDIR=str(scratch), HOME=str(home), XDG_CONFIG_HOME=str(home / ".config"))
    assert list(scratch.iterdir()) == []
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["uv.toml"]


def refused(words: str, code: int, ended: subprocess.CompletedProcess[str]) -> None:
    assert (ended.returncode, ended.stdout) == (code, "")
    assert words in ended.stderr


def test_wrong_usage_is_told(store: Path, tmp_path: Path) -> None:
    out, wheel = tmp_path / "out", tiny(store)
    text = tmp_path / "tiny-1.0.tar.gz"
    text.touch()
    refused("no wheels", 64, assemble(out, sys.executable))
    refused("is no wheel", 64, assemble(out, sys.executable, wheel, text))
    refused("is no wheel", 64, assemble(out, sys.executable, tmp_path / "none-1.0-py3-none-any.whl"))
    refused("is given twice", 64, assemble(out, sys.executable, wheel, tmp_path / "tiny-1.0-py3-none-any.whl"))
    refused("is there already", 64, assemble(tmp_path, sys.executable, wheel))
    refused("uv is not on PATH", 64, assemble(out, sys.executable, wheel, PATH=str(store)))
    assert not out.exists()


def test_a_wheel_that_does_not_fit_is_an_error(store: Path, tmp_path: Path) -> None:
    other = {"x86_64": "aarch64", "aarch64": "x86_64"}[platform.machine()]
    broken = tmp_path / "broken-1.0-py3-none-any.whl"
    broken.write_bytes(b"no archive")
    refused(f"manylinux_2_17_{other}", 1, assemble(tmp_path / "a", sys.executable, foreign(store, other)))
    refused("broken", 1, assemble(tmp_path / "b", sys.executable, stored(broken, store)))
    refused("`absent>=2`", 1, assemble(tmp_path / "c", sys.executable, tiny(store, requires="absent>=2")))


def foreign(store: Path, machine: str) -> Path:
    return tiny(store, tags=f"cp313-cp313-manylinux_2_17_{machine}")


def small_wheels() -> list[Wheel]:
    return [wheel for wheel in wheels_for_this_machine(LIST) if wheel["pname"] in SMALL]


def test_real_wheels_of_the_list_make_an_environment(store: Path, tmp_path: Path) -> None:
    wheels = small_wheels()
    out = made(tmp_path / "out", *downloaded(wheels, store))
    versions = {wheel["pname"]: wheel["version"] for wheel in wheels}
    assert installed(out) == sorted(versions.items())
    assert versions.keys() == SMALL
    assert says(out / "bin" / "tqdm", "--version") == versions["tqdm"]
    code = "import charset_normalizer.md as one; print(one.__file__)"
    assert Path(says(out / "bin" / "python", "-c", code)).suffix == ".so"


def test_another_hash_than_the_lists_is_no_skip(store: Path) -> None:
    [wheel] = [wheel for wheel in small_wheels() if wheel["pname"] == "six"]
    with pytest.raises(AssertionError, match=r"(?i)hash"):
        downloaded([wheel | {"hash": "sha256-" + base64.b64encode(bytes(32)).decode()}], store)


@pytest.mark.parametrize("cold", [True, False], ids=["uv has no pip yet", "uv has pip"])
def test_no_network_is_a_skip(store: Path, tmp_path: Path, cold: bool) -> None:
    downloaded(small_wheels()[:1], store)  # with a network uv has pip from here on; else this is a skip already
    own = {"UV_CACHE_DIR": str(tmp_path / "uv")} if cold else {}
    names = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
    proxies = dict.fromkeys(names, "http://127.0.0.1:1")
    patience = {"UV_HTTP_RETRIES": "0", "PIP_RETRIES": "1", "PIP_NO_CACHE_DIR": "1", "no_proxy": "", "NO_PROXY": ""}
    with pytest.raises(pytest.skip.Exception, match="no network"):
        downloaded(small_wheels(), store, **own, **proxies, **patience)


def test_the_script_that_makes_the_lists_chooses_these_wheels(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloaded(small_wheels()[:1], store)  # without a network nothing can be chosen
    monkeypatch.setenv("PATH", with_uv()["PATH"])
    packages = [package for package in maker().lists()[LIST] if package.name.replace("-", "_") in SMALL]
    listed = {
        system: [wheel for wheel in wheels if wheel["pname"] in SMALL] for system, wheels in wheels_in(LIST).items()
    }
    assert [len(wheels) for wheels in listed.values()] == [2, 1, 1]
    assert maker().list_of(packages) == listed
    without_wheel = replace(packages[0], hashes=frozenset(["0" * 64]))
    with pytest.raises(SystemExit, match="pip found 0 of 1 wheels for x86_64"):
        maker().list_of([without_wheel])


@pytest.mark.soak
@pytest.mark.parametrize(
    ("lists", "program", "knows"),
    [
        ([LIST], "inference-perf", "--config_file"),
        (["loadproof-wheels.json", "loadproof-test-wheels.json"], "pytest", "--hypothesis-seed"),
    ],
)
def test_the_lists_make_whole_environments_that_work(
    store: Path, tmp_path: Path, lists: list[str], program: str, knows: str
) -> None:
    """The environments of nix/inference-perf.nix and nix/unit-tests.nix; each takes about a minute."""
    wheels = wheels_for_this_machine(*lists)
    out = made(tmp_path / "out", *downloaded(wheels, store))
    assert installed(out) == sorted((wheel["pname"], wheel["version"]) for wheel in wheels)
    assert knows in says(out / "bin" / program, "--help")
