"""Is the flake right as far as can be seen without a network: syntax, pins, versions, and what it evaluates to?

It is evaluated by the real Nix, for both systems, against a stand-in for nixpkgs (nix_standin). The mutants show that
a wrong hash, dependency or argument, and a file that git does not know, do not pass. Not seen: a real build.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from loadproof import __version__
from loadproof.simulators.problems import HOW_TO_GET
from loadproof.tools.lockfile import PACKAGES, read_lock
from tests.environment.nix_standin import TREE, standin
from tests.environment.workshop import ROOT, copy_of_the_project, needs, nix_environ, run

PINNED = {
    "lastModified": 1782847189,
    "narHash": "sha256-twXPFqFsrrY5r28Zh7Homgcp2gUMBgQ6WDS98Q/3xFI=",
    "owner": "NixOS",
    "repo": "nixpkgs",
    "rev": "b6018f87da91d19d0ab4cf979885689b469cdd41",
    "type": "github",
}
SYSTEMS = ["aarch64-linux", "x86_64-linux"]
PACKAGE_NAMES = ["default", "inference-perf", "libtokenizers", "llm-d-inference-sim", "loadproof"]


class Flake:
    """A copy of the project beside a stand-in for nixpkgs and a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = copy_of_the_project(folder / "project")
        self.standin = standin(folder / "nixpkgs")
        self.environ = nix_environ(folder / "nix")

    def nix(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Nix on the flake."""
        offline = ["--offline", "--no-write-lock-file", "--override-input", "nixpkgs", f"path:{self.standin}"]
        return run(["nix", *words, *offline], env=self.environ, cwd=self.root)

    def check(self) -> subprocess.CompletedProcess[str]:
        """Evaluate every output for every system."""
        return self.nix("flake", "check", "--no-build")

    def git(self, *words: str) -> None:
        assert run(["git", *words], env=self.environ, cwd=self.root).returncode == 0


@pytest.fixture(scope="module")
def flake(tmp_path_factory: pytest.TempPathFactory) -> Flake:
    needs("nix", "git")
    return Flake(tmp_path_factory.mktemp("flake"))


@pytest.mark.parametrize(
    "file", sorted([ROOT / "flake.nix", *ROOT.glob("nix/*.nix"), *TREE.glob("*.nix")]), ids=lambda file: file.name
)
def test_every_nix_file_parses(file: Path, flake: Flake) -> None:
    parsed = run(["nix-instantiate", "--parse", file], env=flake.environ, cwd=ROOT)
    assert parsed.returncode == 0, parsed.stderr


def test_a_syntax_error_would_be_found(flake: Flake, tmp_path: Path) -> None:
    (tmp_path / "wrong.nix").write_text((ROOT / "nix/shell.nix").read_text().replace("packages = [", "packages = ", 1))
    assert run(["nix-instantiate", "--parse", tmp_path / "wrong.nix"], env=flake.environ, cwd=ROOT).returncode == 1


def metadata(root: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    argv = ["nix", "flake", "metadata", "--offline", "--no-update-lock-file", "--json", f"path:{root}"]
    return run(argv, env=environ, cwd=root)


def test_the_lock_is_the_flakes_and_holds_the_pinned_nixpkgs(flake: Flake) -> None:
    told = metadata(flake.root, flake.environ)
    assert told.returncode == 0, told.stderr
    nodes = json.loads(told.stdout)["locks"]["nodes"]
    assert nodes.keys() == {"nixpkgs", "root"}
    assert nodes["nixpkgs"]["locked"] == PINNED


def test_another_input_than_the_locked_one_would_be_found(flake: Flake, tmp_path: Path) -> None:
    for name in ("flake.nix", "flake.lock"):
        text = (ROOT / name).read_text()
        (tmp_path / name).write_text(text.replace("nixos-25.11", "nixos-26.05") if name == "flake.nix" else text)
    told = metadata(tmp_path, flake.environ | {"https_proxy": "http://127.0.0.1:1"})  # it would ask what that is
    assert told.returncode == 1
    assert "nixos-26.05" in told.stderr


def test_everything_evaluates_for_both_systems(flake: Flake) -> None:
    checked = flake.check()
    assert checked.returncode == 0, checked.stderr
    shown = json.loads(flake.nix("flake", "show", "--json").stdout)
    assert {name: sorted(shown[name]) for name in shown} == dict.fromkeys(
        ["apps", "checks", "devShells", "formatter", "packages"], SYSTEMS
    )
    for system in SYSTEMS:
        assert sorted(shown["packages"][system]) == PACKAGE_NAMES
        assert list(shown["devShells"][system]) == ["default"]
        assert list(shown["checks"][system]) == ["unit-tests"]


def text_of(*globs: str) -> dict[Path, str]:
    return {path: path.read_text() for glob in globs for path in ROOT.glob(glob)}


def test_versions_are_those_of_the_locks_and_the_docs(flake: Flake) -> None:
    versions = {}
    for name in PACKAGE_NAMES[1:]:
        told = flake.nix("eval", "--raw", f".#{name}.version")
        assert told.returncode == 0, told.stderr
        versions[name] = told.stdout
    assert versions["loadproof"] == __version__
    assert versions["inference-perf"] == read_lock("inference-perf").version
    assert f"llm-d-inference-sim v{versions['llm-d-inference-sim']} " in HOW_TO_GET
    said = re.compile(r"(inference-perf|llm-d-inference-sim|libtokenizers) v?(\d+\.\d+\.\d+)")
    found = [
        (path.name, name, version)
        for path, text in text_of("README.md", "docs/*.md").items()
        for name, version in said.findall(text)
    ]
    assert {name for _path, name, _version in found} == versions.keys() - {"loadproof"}, "the docs name no version"
    assert [row for row in found if row[2] != versions[row[1]]] == []


def test_the_shell_has_the_python_of_every_lock() -> None:
    shell = (ROOT / "nix" / "shell.nix").read_text()
    wanted = {f"python{read_lock(tool).python.replace('.', '')}" for tool in PACKAGES}
    assert [name for name in sorted(wanted) if not re.search(rf"^    {name}$", shell, re.MULTILINE)] == []


def test_no_lock_of_ours_holds_an_address() -> None:
    locks = text_of(
        "pdm.lock", "flake.lock", "nix/*.json", "e2e/loadproof/tools/locks/*.txt", "e2e/tests/environment/*.txt"
    )
    assert {path.name for path in locks} >= {
        "pdm.lock",
        "flake.lock",
        "inference-perf.txt",
        "inference-perf-wheels.json",
    }
    assert [path for path, text in locks.items() if "://" in text] == []


def truncated_vendor_hash(root: Path) -> str:
    return replaced(root / "nix/llm-d-inference-sim.nix", 'lHebdZxvuvw="', 'lHebdZxvu="')


def misspelt_dependency(root: Path) -> str:
    return replaced(root / "nix/llm-d-inference-sim.nix", "zeromq", "zeromk")


def misspelt_argument(root: Path) -> str:
    return replaced(root / "nix/llm-d-inference-sim.nix", "subPackages", "subPackage")


def misspelt_member(root: Path) -> str:
    return replaced(root / "nix/shell.nix", "lib.getExe", "lib.getExec")


def wrong_wheel_hash(root: Path) -> str:
    text = (root / "nix/inference-perf-wheels.json").read_text()
    [digest, *_] = re.findall(r"sha256-[^\"]+", text)
    return replaced(root / "nix/inference-perf-wheels.json", digest, digest[:-2] + "=")


def missing_builder(root: Path) -> str:
    (root / "nix/assemble.sh").unlink()
    return "assemble.sh"


def replaced(file: Path, old: str, new: str) -> str:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return new.strip('"')


@pytest.mark.parametrize(
    "mutate",
    [
        truncated_vendor_hash,
        misspelt_dependency,
        misspelt_argument,
        misspelt_member,
        wrong_wheel_hash,
        missing_builder,
    ],
)
def test_a_wrong_formula_does_not_evaluate(flake: Flake, mutate: Callable[[Path], str]) -> None:
    try:
        word = mutate(flake.root)
        checked = flake.check()
    finally:
        flake.git("checkout", "--", ".")
    assert checked.returncode == 1
    assert word in checked.stderr
    assert flake.check().returncode == 0


def test_a_formula_that_git_does_not_know_does_not_evaluate(flake: Flake) -> None:
    flake.git("rm", "--cached", "--quiet", "nix/libtokenizers.nix")
    try:
        checked = flake.check()
    finally:
        flake.git("add", "nix/libtokenizers.nix")
    assert checked.returncode == 1
    assert "libtokenizers.nix" in checked.stderr
