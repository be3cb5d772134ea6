"""Does the Dockerfile build, and does the suite run in its image by the pdm scripts, without a network?

Real images and containers, by buildah and podman behind a `docker` of our own (docker_shim.py), on a stand-in for the
Nix image (containers.py). One image has our real pdm.lock; the mutants and the layers are tried with a lock of one
package. Not seen: docker itself, the real base image, and real builds by Nix.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.environment.containers import DEADLINE_S, Containers, Project, containers
from tests.environment.workshop import copy_of_the_project, run

TINY = """[project]
name = "tiny"
version = "1"
requires-python = ">=3.13"
dependencies = ["idna"]
[tool.pdm]
distribution = false
[tool.pdm.scripts]
prepare = { cmd = "python e2e/sync.py" }
"test:e2e" = { cmd = ["python", "-c", "import idna; print('the suite', idna.__name__)"] }
"docker:e2e-test:run" = { cmd = "python e2e/in_docker.py run" }
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Containers]:
    made = containers()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def project(place: Containers, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("docker") / "project", place)


@pytest.fixture(scope="module")
def image(project: Project) -> str:
    """Return the id of the image with everything that pdm.lock names; making it needs a network."""
    built = project.pdm("run", "docker:e2e-test:build")
    assert built.returncode == 0, built.stderr[-3000:]
    return built.stdout.strip()


@pytest.fixture(scope="module")
def locked(place: Containers, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project of one package, and no more of ours than the image is made of."""
    project = Project(tmp_path_factory.mktemp("tiny") / "project", place)
    (project.root / "pyproject.toml").write_text(TINY)
    made = project.pdm("lock")
    assert made.returncode == 0, made.stderr
    return project


@pytest.fixture
def tiny(locked: Project, place: Containers, tmp_path: Path) -> Project:
    """Return such a project of the test's own, whose layers nobody has made, but for those that are the same."""
    project = Project(tmp_path / "project", place)
    for name in ("pyproject.toml", "pdm.lock"):
        (project.root / name).write_bytes((locked.root / name).read_bytes())
    return project


def test_build_prints_the_id_of_an_image_and_the_same_when_nothing_changed(image: str, project: Project) -> None:
    assert re.fullmatch(r"(sha256:)?[0-9a-f]{64}", image)
    assert project.pdm("run", "docker:e2e-test:build").stdout.strip() == image


def test_the_suite_runs_in_the_container_and_its_summary_comes_back(
    image: str, project: Project, tmp_path: Path
) -> None:
    chosen = "e2e/tests/parity/test_starter_cases.py -k 'test_fixed_rate_is_offered_as_asked and metronome'"
    chosen += " --basetemp=/summary/runs"  # so that the run folders come back, too
    ended = project.pdm("run", "e2e:test:docker", PYTEST_ADDOPTS=chosen, LOADPROOF_SUMMARY=str(tmp_path))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert image
    rows = json.loads((tmp_path / "summary.json").read_text())["rows"]
    assert {(row["case"], row["tool"], row["server"]) for row in rows} == {("a_fixed_rate", "metronome", "absorber")}
    assert {row["outcome"] for row in rows} <= {"pass", "unclear"}
    assert len(list(tmp_path.rglob("journal.parquet"))) == len(rows)
    for word in ("STATUS: Resolving", "Install ", "nothing to install"):
        assert (word in ended.stdout + ended.stderr) == (word == "nothing to install"), word
    assert project.place.containers() == []


def test_trailing_words_replace_the_command(image: str, project: Project) -> None:
    told = project.pdm("run", "docker:e2e-test:run", "--", "nix", "flake", "info", "path:///workspace")
    assert told.returncode == 0, told.stderr
    assert "b6018f87da91d19d0ab4cf979885689b469cdd41" in told.stdout
    options = ["-o", "log_cli_level=DEBUG", "--collect-only", "-q", "e2e/tests/parity/test_starter_cases.py"]
    listed = project.pdm("run", "test:e2e:docker", "--", "pdm", "run", "test:e2e", *options)
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert "test_fixed_rate_is_offered_as_asked[metronome]" in listed.stdout
    assert image


def test_the_exit_code_is_the_commands(image: str, project: Project) -> None:
    assert project.pdm("run", "docker:e2e-test:run", "--", "sh", "-c", "exit 7").returncode == 7
    assert image


def test_there_is_no_terminal_and_nothing_is_there_twice(image: str, project: Project) -> None:
    """No second inference-perf beside the flake's, and no downloads beside what was installed from them."""
    terminal = "test -t 0 || test -t 1 || echo none"
    twice = 'find "$LOADPROOF_CACHE"/tools ~/.cache/pdm -type f -size +100k 2>/dev/null'
    told = project.pdm(
        "run", "docker:e2e-test:run", "--", "sh", "-c", f'{terminal}; {twice}; echo "$LOADPROOF_INFERENCE_PERF"'
    )
    nothing, own_build = told.stdout.splitlines()
    assert nothing == "none"
    assert own_build.startswith("/nix/store/")
    assert image


def test_two_at_once_do_not_meet(tiny: Project) -> None:
    both = [tiny.start("sh", "-c", f"echo {word}; hostname") for word in ("one", "two")]
    (one, first), (two, second) = [process.communicate(timeout=DEADLINE_S)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert (one, two) == ("one", "two")
    assert first != second
    assert tiny.place.containers() == []


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        pytest.param(lambda pdm: os.kill(pdm, signal.SIGTERM), 128 + signal.SIGTERM, id="TERM to pdm alone"),
        pytest.param(lambda pdm: os.killpg(pdm, signal.SIGINT), 128 + signal.SIGINT, id="Ctrl-C, so to all at once"),
    ],
)
def test_a_stopped_run_leaves_no_container(tiny: Project, stop: Callable[[int], None], code: int) -> None:
    with tiny.start("sh", "-c", "echo started; exec sleep 600") as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "started\n"
            assert len(tiny.place.containers()) == 1
            stop(process.pid)
            assert process.wait(DEADLINE_S) == code
        finally:
            process.kill()
    assert tiny.place.containers() == []


def cached(built: subprocess.CompletedProcess[str]) -> dict[str, bool]:
    """Return, for each step of the Dockerfile that was built, whether its layer was there already."""
    steps = re.split(r"^STEP \d+/\d+: ", built.stderr, flags=re.MULTILINE)[1:]
    return {step.partition("\n")[0]: "--> Using cache" in step for step in steps}


def build(project: Project) -> subprocess.CompletedProcess[str]:
    return run(
        [sys.executable, "e2e/in_docker.py", "build"], env=project.environ, cwd=project.root, deadline_s=DEADLINE_S
    )


def test_layers_last_until_what_they_are_made_of_changes(tiny: Project) -> None:
    assert build(tiny).returncode == 0
    again = cached(build(tiny))
    assert all(again[step] for step in again if not step.startswith("FROM"))
    steps = list(again)[1:]
    sources = steps.index("COPY . .")
    (tiny.root / "e2e" / "new.py").touch()
    touched = cached(build(tiny))
    assert [touched[step] for step in steps[:sources]] == [True] * sources
    assert touched["COPY . ."] is False
    tiny.edit("pyproject.toml", 'version = "1"', 'version = "2"')
    changed = cached(build(tiny))
    first = next(step for step in steps if step.startswith("COPY flake.nix"))
    assert changed[first] is False
    assert [changed[step] for step in steps if step.startswith("RUN")] == [False, False]


def test_the_image_gets_what_git_has_and_nothing_that_it_ignores(locked: Project, tmp_path: Path) -> None:
    root = copy_of_the_project(tmp_path / "project")
    ignored = [line.replace("*", "some") for line in (root / ".gitignore").read_text().split()]
    assert {".venv/", ".hypothesis/"} <= set(ignored)
    for place in ("", "e2e/"):
        for name in ignored:
            file = root / place / (f"{name}file" if name.endswith("/") else name)
            file.parent.mkdir(exist_ok=True)
            file.touch()
    (tmp_path / "Dockerfile").write_text("ARG NIX_IMAGE\nFROM $NIX_IMAGE\nCOPY . /all\nRUN cd /all && find . -type f\n")
    built = run(
        ["docker", "buildx", "build", "--load", "--iidfile", tmp_path / "id", "--file", tmp_path / "Dockerfile",
         "--build-arg", "NIX_IMAGE", root],
        env=locked.environ, cwd=root,
    )  # fmt: skip
    tracked = run(["git", "ls-files"], env=locked.environ, cwd=root).stdout.split()
    assert len(tracked) > 100
    assert set(re.findall(r"^\./(.+)$", built.stderr + built.stdout, re.MULTILINE)) == set(tracked)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        pytest.param("COPY nix nix\n", "", "experimental", id="no COPY of nix"),
        pytest.param(" pdm.lock ./", " ./", "[Ll]ock ?file", id="no lock"),
        pytest.param("NIX_USER_CONF_FILES", "NIX_CONF_FILES", "experimental", id="flakes not enabled"),
        pytest.param("pdm run prepare", "pdm run prepair", "prepair", id="wrong script in the build"),
    ],
)
def test_a_wrong_dockerfile_does_not_build(tiny: Project, old: str, new: str, word: str) -> None:
    tiny.edit("Dockerfile.e2e-test", old, new)
    built = build(tiny)
    assert built.returncode != 0
    assert re.search(word, built.stderr.partition("RUN nix develop")[2]), built.stderr


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param('/profiles/loadproof", "-c"]', '/profiles/loadproof"]', id="ENTRYPOINT without -c"),
        pytest.param('"run", "test:e2e"', '"run", "test:e2"', id="wrong script name"),
        pytest.param("", "", id="none"),
    ],
)
def test_a_wrong_start_does_not_run(tiny: Project, old: str, new: str) -> None:
    tiny.edit("Dockerfile.e2e-test", old, new)
    ended = tiny.pdm("run", "docker:e2e-test:run")
    assert (ended.returncode == 0, "the suite idna" in ended.stdout) == ((True, True) if not old else (False, False))
