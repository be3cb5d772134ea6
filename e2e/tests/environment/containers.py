"""A place where images are built and run as by docker, without docker: a shim, a storage and a base image of its own.

The base image stands for the Nix image: it has a Nix without settings and nothing else; programs come from this
machine's /usr, mounted. Its `nix` takes the stand-in for nixpkgs where a flake is named, as there is no network for
the real one. Everything lies in one folder, and is removed with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.environment import docker_shim
from tests.environment.nix_standin import program, standin
from tests.environment.workshop import copy_of_the_project, needs, not_here, own_environ, run

SHIM = Path(docker_shim.__file__)
NIX = """#!/bin/sh
# A flake that is named gets the stand-in for its nixpkgs; a profile has been evaluated.
for word; do
  case $word in path:*) flake=1 ;; esac
done
[ -n "${flake:-}" ] || exec /usr/bin/nix "$@"
[ "$1" = develop ] || exec /usr/bin/nix "$@" --offline
shift
exec /usr/bin/nix develop --offline --no-write-lock-file --override-input nixpkgs path:/standin "$@"
"""
DEADLINE_S = 500.0
SETTINGS = "sandbox = false\nbuild-users-group =\nsubstituters =\n"  # of the real image's, what matters here


class Containers:
    """The folder, the environment in which `docker` is the shim, and the base image's id as NIX_IMAGE."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self.state.mkdir()
        self.standin = standin(folder / "nixpkgs")
        shim = folder / "bin" / "docker"
        shim.parent.mkdir()
        shim.write_text(f'#!/bin/sh\nexec {sys.base_prefix}/bin/python3.13 -I {SHIM} {self.state} "$@"\n')
        shim.chmod(0o755)
        (self.state / "mounts").write_text("".join(f"{path}\n" for path in mounts()))
        # By default podman shares its locks with the containers that this machine's owner has, and resets them.
        own = [f'tmp_dir = "{self.state}/podman"', 'lock_type = "file"', 'events_logger = "none"']
        (self.state / "containers.conf").write_text("\n".join(["[engine]", *own]) + "\n")
        environ = own_environ()
        self.environ = environ | {
            "PATH": f"{shim.parent}{os.pathsep}{environ['PATH']}",
            "CONTAINERS_CONF": str(self.state / "containers.conf"),
        }
        self.environ["NIX_IMAGE"] = self._base_image()

    def _base_image(self) -> str:
        root = self.folder / "root"
        for name in ("etc/nix", "tmp", "root", "nix", "standin", "wrapper", "usr", "var/tmp"):
            (root / name).mkdir(parents=True)
        for name in ("bin", "lib", "lib64", "sbin"):
            (root / name).symlink_to(f"usr/{name}")
        shutil.copytree(self.standin, root / "standin", dirs_exist_ok=True, symlinks=True)
        host = (root / "standin" / "host.json").read_text()
        (root / "standin" / "host.json").write_text(host.replace(str(self.standin), "/standin"))
        (root / "wrapper" / "nix").write_text(NIX)
        (root / "wrapper" / "nix").chmod(0o755)
        (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (root / "etc" / "group").write_text("root:x:0:\n")
        (root / "etc" / "nix" / "nix.conf").write_text(SETTINGS)
        certificates = os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
        lines = ["FROM scratch", "COPY root /", "ENV PATH=/wrapper:/usr/bin:/bin HOME=/root LANG=C.UTF-8",
                 f"ENV SSL_CERT_FILE={certificates}"]  # fmt: skip
        (self.folder / "base").write_text("\n".join(lines) + "\n")
        argv = ["docker", "buildx", "build", "--load", "--iidfile", "id", "--file", "base", "."]
        built = run(argv, env=self.environ, cwd=self.folder)
        if built.returncode != 0:
            not_here(f"no image can be built here: {built.stderr[-500:]}")
        return (self.folder / "id").read_text().strip()

    def _storage(self) -> list[str]:
        return docker_shim.storage(self.state)

    def containers(self) -> list[str]:
        """Return the names of the containers that there are, running or not."""
        listed = run(
            ["podman", *self._storage(), "ps", "--all", "--format", "{{.Names}}"], env=self.environ, cwd=self.folder
        )
        assert listed.returncode == 0, listed.stderr
        return listed.stdout.split()

    def remove(self) -> None:
        """Remove all of it, images and their layers too."""
        subprocess.run(["buildah", *self._storage(), "rmi", "--all", "--force"], capture_output=True, check=False)
        subprocess.run(["chmod", "-R", "u+w", str(self.folder)], check=False)
        shutil.rmtree(self.folder)


class Project:
    """A copy of the project, and its pdm scripts with a docker that is the shim."""

    def __init__(self, folder: Path, place: Containers) -> None:
        self.root, self.place = copy_of_the_project(folder), place
        # The scripts need a Python, not an environment: this one, so that pdm makes none.
        self.environ = place.environ | {"PDM_PYTHON": sys.executable, "PDM_CHECK_UPDATE": "0"}

    def pdm(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return run(["pdm", *words], env=self.environ | more, cwd=self.root, deadline_s=DEADLINE_S)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command in a container, in a session of its own, as in a terminal."""
        argv = ["pdm", "run", "docker:e2e-test:run", "--", *words]
        return subprocess.Popen(
            argv,
            env=self.environ,
            cwd=self.root,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert old in text
        (self.root / name).write_text(text.replace(old, new))


def containers() -> Containers:
    """Return such a place, or skip the test with the reason."""
    needs("buildah", "podman", "runc", "nix", "catatonit")
    if os.geteuid() != 0:
        not_here("building images without a daemon wants root here")
    return Containers(Path(tempfile.mkdtemp(prefix="lp-")))  # podman wants short names: at most 50 characters


def mounts() -> list[str]:
    """Return what a container needs of this machine: /usr, certificates, and where programs are that lie elsewhere."""
    used = [Path(found) for found in map(program, ("python3.13", "pdm", "uv", "ruff")) if found]
    theirs = {str(path.parent.parent) for path in used if not path.is_relative_to("/usr")}
    return ["/usr", "/etc/ssl", *sorted(theirs)]
