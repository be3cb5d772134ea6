"""The `docker` of the tests: what our scripts ask of docker, done by buildah and podman. Anything else is an error.

    docker_shim.py STATE WORD...

STATE is a folder: `storage/` has the images and containers, `mounts` lists what a container sees of this machine (the
stand-in base image has no programs of its own). A container has no network.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path


def main(state: Path, words: list[str]) -> int:
    if words in (["info", "--format", "{{.ServerVersion}}"], ["buildx", "version"]):
        sys.stdout.write("a stand-in\n")
        return 0
    mounts = [f"--volume={path}:{path}:ro" for path in (state / "mounts").read_text().splitlines()]
    if words[:2] == ["buildx", "build"]:
        return build(storage(state), mounts, words[2:])
    if words[:1] == ["run"]:
        return run(storage(state), mounts, words[1:])
    if words[:1] == ["rm"]:
        return container_removed(storage(state), words[1:])
    raise SystemExit(f"docker (a stand-in): does not know {shlex.join(words)}")


def storage(state: Path) -> list[str]:
    """Return the words with which buildah and podman find images and containers."""
    return ["--root", str(state / "storage"), "--runroot", str(state / "runroot"), "--storage-driver", "overlay"]


def build(place: list[str], mounts: list[str], words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="docker buildx build", allow_abbrev=False)
    parser.add_argument("--load", action="store_true", required=True)
    parser.add_argument("--iidfile", required=True)
    parser.add_argument("--file", required=True)
    parser.add_argument("--build-arg", action="append", default=[])
    parser.add_argument("context")
    given = parser.parse_args(words)
    argv = ["buildah", *place, "bud", "--layers", "--isolation", "chroot", "--network", "host", *mounts]
    argv += [f"--build-arg={argument}" for argument in given.build_arg]
    argv += ["--iidfile", given.iidfile, "--file", given.file, given.context]
    return subprocess.run(argv, stdout=sys.stderr, check=False).returncode  # docker tells its progress there, too


def run(place: list[str], mounts: list[str], words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="docker run", allow_abbrev=False)
    parser.add_argument("--rm", action="store_true", required=True)
    parser.add_argument("--init", action="store_true")
    parser.add_argument("--interactive", action="store_true")
    parser.add_argument("--tty", action="store_true")
    parser.add_argument("--name", required=True)
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--volume", action="append", default=[])
    parser.add_argument("image")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    if given.tty:
        raise SystemExit("the input device is not a TTY")
    # The limits are this machine's: podman would ask for more than it may have.
    argv = ["podman", *place, "--runtime", "runc", "run", "--rm", "--network", "none", "--name", given.name, *mounts]
    argv += ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096", *(["--init"] if given.init else [])]
    argv += [f"--env={variable}" for variable in given.env] + [f"--volume={volume}" for volume in given.volume]
    os.execvp("podman", [*argv, given.image, *given.command])  # noqa: S606 -- signals must reach podman itself


def container_removed(place: list[str], words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="docker rm", allow_abbrev=False)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("name")
    given = parser.parse_args(words)
    return subprocess.run(["podman", *place, "rm", "--force", "--ignore", given.name], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
