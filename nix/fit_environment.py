"""Make an environment of wheels work on a Linux that keeps nothing where wheels expect it, such as a Nix image.

    fit_environment.py [--library PATH]... [--program PATH]... ENVIRONMENT

Wheels' shared objects want libstdc++ and libz on the loader's default path. Each library is loaded when a Python of
the environment starts (a `.pth` file), and the loader then takes what is loaded already: no LD_LIBRARY_PATH, which
every program that a test starts would inherit. Wheels' executables want /lib64's loader: those in bin/ are replaced
by links to the programs of the same name. One for which no program is given is told, and stays. Run it again as
often as you like. Left out: executables outside bin/.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

PTH = "wheel_libraries.pth"
_ELF = b"\x7fELF"


def main(argv: list[str] | None = None) -> int:
    """Return 0, or 1 with a message when the folder is no environment or a path that is given is not there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--library", type=Path, action="append", default=[], dest="libraries")
    parser.add_argument("--program", type=Path, action="append", default=[], dest="programs")
    parser.add_argument("environment", type=Path)
    arguments = parser.parse_args(argv)
    packages = sorted(arguments.environment.glob("lib/python3*/site-packages"))
    problems = [f"{path}: is not there" for path in arguments.libraries + arguments.programs if not path.is_file()]
    if len(packages) != 1:
        problems.append(f"{arguments.environment}: is no Python environment")
    if problems:
        sys.stderr.write("".join(f"fit-environment: {problem}\n" for problem in problems))
        return 1
    preload(packages[0], arguments.libraries)
    replace(arguments.environment / "bin", {path.name: path for path in arguments.programs})
    return 0


def preload(packages: Path, libraries: list[Path]) -> None:
    """Let each Python of the environment load the libraries as it starts."""
    paths = [str(path) for path in libraries]
    (packages / PTH).write_text(f"import ctypes; [ctypes.CDLL(path) for path in {paths!r}]\n")


def replace(folder: Path, programs: dict[str, Path]) -> None:
    """Put links to the programs in the place of what is called so in `folder`; tell of any other executable."""
    for file in sorted(folder.iterdir()):
        if file.name in programs:
            file.unlink()
            file.symlink_to(programs[file.name])
        elif not file.is_symlink() and file.is_file() and _is_elf(file):
            sys.stderr.write(f"fit-environment: {file}: no program is given to stand for it\n")


def _is_elf(file: Path) -> bool:
    with file.open("rb") as handle:
        return handle.read(len(_ELF)) == _ELF


if __name__ == "__main__":
    sys.exit(main())
