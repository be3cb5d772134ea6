"""Build the image of Dockerfile.e2e-test, and run a command in a container of it, by `docker`.

    python e2e/in_docker.py build            builds, and prints the image's id
    python e2e/in_docker.py run [COMMAND...] builds, and runs COMMAND (by default the image's: the suite) in a new
                                             container, which is removed afterwards; its exit code is ours

The pdm scripts call it. It needs docker and its buildx plugin, and of Python only the standard library, on any
system. Handed in when set: LOADPROOF_REQUIRE and PYTEST_ADDOPTS; LOADPROOF_SUMMARY=FOLDER gets the summary, and with
PYTEST_ADDOPTS=--basetemp=/summary/runs the run folders too, which else go with the container; and NIX_IMAGE names
another base image to build on. Images have no name: several runs at once do not meet, and `docker image prune`
removes what is old. Left out: registries, and images of other systems.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
USAGE = 64
HANDED_IN = ("LOADPROOF_REQUIRE", "PYTEST_ADDOPTS")
SUMMARY = "LOADPROOF_SUMMARY"
NO_DOCKER = "docker was not found: install it (docs.docker.com/engine/install) and try again."
NEEDED = {  # each prints a line when all is well
    ("info", "--format", "{{.ServerVersion}}"): (
        "docker has no engine that answers: start it (`sudo systemctl start docker`, or Docker Desktop), or join the "
        "group docker, until `docker info` works."
    ),
    ("buildx", "version"): (
        "docker has no buildx: install its plugin (docker-buildx-plugin, or docker-buildx on Debian) until `docker "
        "buildx version` works."
    ),
}
STOPPED_BY = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]  # Windows has no HUP


def main(argv: list[str]) -> int:
    """Return the exit code: docker's own, and 64 for what cannot be done here or was asked wrongly."""
    what, *rest = argv or [""]
    command = rest[1:] if rest[:1] == ["--"] else rest
    if what not in {"build", "run"} or (what == "build" and command):
        return refuse("use: in_docker.py build, or in_docker.py run [COMMAND...]")
    problem = missing()
    if problem:
        return refuse(problem)
    code, image = build()
    if code == 0 and what == "build":
        sys.stdout.write(f"{image}\n")
    return run(image, command) if code == 0 and what == "run" else code


def refuse(problem: str) -> int:
    """Tell the person, and return the exit code for wrong usage."""
    sys.stderr.write(f"{problem}\n")
    return USAGE


def missing() -> str:
    """Return what this needs and is not there, with what to do; nothing when all is there."""
    if shutil.which("docker") is None:
        return NO_DOCKER
    for words, advice in NEEDED.items():
        ended = subprocess.run(
            ["docker", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if ended.returncode != 0 or not ended.stdout.strip():
            return f"{ended.stderr.strip()}\n{advice}".lstrip()
    return ""


def build() -> tuple[int, str]:
    """Return docker's exit code and the image's id."""
    base = ["--build-arg", "NIX_IMAGE"] if os.environ.get("NIX_IMAGE") else []
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "image")
        words = ["--load", "--iidfile", str(written), "--file", str(ROOT / "Dockerfile.e2e-test"), *base, str(ROOT)]
        code = docker(["buildx", "build", *words])
        return code, written.read_text().strip() if code == 0 else ""


def run(image: str, command: list[str]) -> int:
    """Return the exit code of the command in a container, of which nothing is left."""
    name = f"loadproof-{uuid.uuid4().hex[:12]}"
    words = ["--rm", "--init", "--name", name]  # an init: the suite kills programs whose children nobody waits for
    if sys.stdin.isatty() and sys.stdout.isatty():
        words += ["--interactive", "--tty"]
    for variable in HANDED_IN:
        words += ["--env", variable] if os.environ.get(variable) else []
    if os.environ.get(SUMMARY):
        folder = Path(os.environ[SUMMARY]).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        words += ["--volume", f"{folder}:/summary", "--env", f"{SUMMARY}=/summary"]
    try:
        return docker(["run", *words, image, *command])
    finally:  # gone already, unless docker's client was killed
        remove(name)


def remove(name: str) -> None:
    """Remove the container, if it is there yet, whoever hurries us: the terminal's signals do not reach this docker."""
    argv = ["docker", "rm", "--force", name]
    with handling_signals(lambda _number, _frame: None):
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True, check=False)


def docker(words: list[str]) -> int:
    """Return the exit code of docker, which gets every signal that we get, and decides what it means."""
    started: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def hand_on(number: int, _frame: object) -> None:
        if started:
            started[0].send_signal(number)
        else:
            early.append(number)

    with handling_signals(hand_on), subprocess.Popen(["docker", *words]) as process:
        started.append(process)
        for number in early:
            process.send_signal(number)
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def handling_signals(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Handle TERM and HUP; a terminal's interrupt reaches docker anyhow, and must not end us first."""
    before = {number: signal.signal(number, handler) for number in STOPPED_BY}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        for number, handled in before.items():
            signal.signal(number, handled)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
