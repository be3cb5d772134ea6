"""Does the script behind the docker commands say what is missing, and hand words, signals and exit codes through?

A small shell script stands in for docker and notes how it is called; test_docker.py runs real containers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.environment.workshop import ROOT, own_environ

SCRIPT = ROOT / "e2e" / "in_docker.py"
DEADLINE_S = 60.0
FAKE = """#!/bin/sh
echo "$*" >> {here}/calls
case "$1 $2" in
"info --format") {info} ;;
"buildx version") {buildx} ;;
"buildx build")
    while [ "$1" != --iidfile ]; do shift; done
    echo sha256:made > "$2"
    exit {build}
    ;;
"run --rm") {run} ;;
"rm --force") {rm} ;;
esac
"""


class Docker:
    """A PATH that has a docker, and little else."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir()
        self.does()

    def does(
        self, *, info: str = "echo 1", buildx: str = "echo 1", build: int = 0, run: str = ":", rm: str = ":"
    ) -> None:
        text = FAKE.format(here=self.folder, info=info, buildx=buildx, build=build, run=run, rm=rm)
        (self.bin / "docker").write_text(text)
        (self.bin / "docker").chmod(0o755)

    def environ(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in own_environ().items() if not name.startswith(("LOADPROOF", "NIX_"))}
        return kept | {"PATH": f"{self.bin}:/usr/bin:/bin"} | more

    def call(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", SCRIPT, *words],
            env=self.environ(**more), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S,
            check=False,
        )  # fmt: skip

    def calls(self, first: str) -> list[list[str]]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [line.split() for line in lines if line.startswith(first)]


@pytest.fixture
def docker(tmp_path: Path) -> Docker:
    return Docker(tmp_path)


def test_build_prints_the_images_id(docker: Docker) -> None:
    ended = docker.call("build")
    assert (ended.returncode, ended.stdout) == (0, "sha256:made\n")
    [words] = docker.calls("buildx build")
    assert "--load" in words
    assert words[-1] == str(ROOT)
    assert words[words.index("--file") + 1] == str(ROOT / "Dockerfile.e2e-test")
    assert "--build-arg" not in words


@pytest.mark.parametrize("dashes", [[], ["--"]])
def test_run_hands_the_command_on_and_returns_its_exit_code(docker: Docker, dashes: list[str]) -> None:
    docker.does(run="exit 7")
    ended = docker.call("run", *dashes, "pdm", "run", "-o", "log_cli_level=DEBUG", "--")
    assert ended.returncode == 7
    [words] = docker.calls("run")
    assert words[words.index("sha256:made") :] == ["sha256:made", "pdm", "run", "-o", "log_cli_level=DEBUG", "--"]
    assert "--tty" not in words
    name = words[words.index("--name") + 1]
    assert docker.calls("rm") == [["rm", "--force", name]]


def test_without_a_command_the_images_own_is_run_each_time_under_another_name(docker: Docker) -> None:
    for _ in range(2):
        assert docker.call("run").returncode == 0
    first, second = docker.calls("run")
    assert first[-1] == second[-1] == "sha256:made"
    assert first[first.index("--name") + 1] != second[second.index("--name") + 1]


def test_what_the_caller_has_set_is_handed_in_and_nothing_else(docker: Docker, tmp_path: Path) -> None:
    docker.call("run", LOADPROOF_REQUIRE="clear", LOADPROOF_SUMMARY=str(tmp_path / "new" / "folder"), OTHER="1")
    [words] = docker.calls("run")
    given = [words[at + 1] for at, word in enumerate(words) if word == "--env"]
    assert given == ["LOADPROOF_REQUIRE", "LOADPROOF_SUMMARY=/summary"]
    assert words[words.index("--volume") + 1] == f"{tmp_path}/new/folder:/summary"
    assert (tmp_path / "new" / "folder").is_dir()


def test_another_base_image_is_an_argument_of_the_build(docker: Docker) -> None:
    docker.call("build", NIX_IMAGE="another")
    [words] = docker.calls("buildx build")
    assert words[words.index("--build-arg") + 1] == "NIX_IMAGE"


def test_a_build_that_fails_runs_nothing(docker: Docker) -> None:
    docker.does(build=3)
    assert docker.call("run").returncode == 3
    assert docker.calls("run") == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"info": "echo no engine >&2; exit 1"}, ["no engine", "start it"]),
        ({"info": ":"}, ["start it"]),  # as an old client says that there is none
        ({"buildx": "echo not a command >&2; exit 1"}, ["not a command", "docker-buildx-plugin"]),
    ],
)
def test_what_docker_lacks_is_told(docker: Docker, wrong: dict[str, Any], words: list[str]) -> None:
    docker.does(**wrong)
    ended = docker.call("run")
    assert (ended.returncode, ended.stdout) == (64, "")
    assert [word for word in words if word not in ended.stderr] == []
    assert "docker was not found" not in ended.stderr
    assert docker.calls("buildx build") == docker.calls("run") == []


def test_no_docker_is_told(docker: Docker) -> None:
    (docker.bin / "docker").unlink()
    ended = docker.call("run", PATH=str(docker.bin))
    assert (ended.returncode, ended.stdout) == (64, "")
    assert "docker was not found: install it" in ended.stderr


@pytest.mark.parametrize("words", [[], ["biuld"], ["build", "x"]])
def test_wrong_words_are_told(docker: Docker, words: list[str]) -> None:
    ended = docker.call(*words)
    assert (ended.returncode, "in_docker.py run" in ended.stderr) == (64, True)


@pytest.mark.parametrize(("number", "reaches"), [(signal.SIGTERM, True), (signal.SIGHUP, True), (signal.SIGINT, False)])
def test_a_signal_reaches_docker_which_decides(docker: Docker, number: signal.Signals, *, reaches: bool) -> None:
    """A terminal sends an interrupt to docker itself, so a second one from us would be one too many."""
    here = docker.folder
    docker.does(run=f"trap 'echo got > {here}/got; exit 5' TERM HUP INT; touch {here}/ready; "
                    f"until [ -e {here}/go ]; do sleep 0.02; done; exit 6")  # fmt: skip
    with subprocess.Popen([sys.executable, "-I", SCRIPT, "run"], env=docker.environ()) as process:
        try:
            until(here / "ready")
            process.send_signal(number)
            if reaches:
                until(here / "got")
            (here / "go").touch()
            assert process.wait(DEADLINE_S) == (5 if reaches else 6)
        finally:
            (here / "go").touch()
            process.kill()
    assert (here / "got").exists() == reaches
    assert docker.calls("rm") != []


def test_who_hurries_does_not_hinder_the_removal(docker: Docker) -> None:
    """Stopped, and stopped again while the container is being removed: it is removed all the same."""
    here = docker.folder
    docker.does(run="exit 143", rm=f"touch {here}/removing; until [ -e {here}/go ]; do sleep 0.02; done; "
                                   f"touch {here}/removed")  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-I", SCRIPT, "run"], env=docker.environ(), start_new_session=True
    ) as process:
        try:
            until(here / "removing")
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.killpg(process.pid, number)  # as a terminal does it
            (here / "go").touch()
            assert process.wait(DEADLINE_S) == 143
        finally:
            process.kill()
    assert (here / "removed").exists()


def until(path: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        os.sched_yield()
