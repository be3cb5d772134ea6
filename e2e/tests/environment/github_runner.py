"""This machine as a GitHub runner: how does a workflow of ours run here, whole, and what does it upload?

By act, on the host and without a container. An action is replaced by a folder with a composite action that does the
little that matters: checking out is copying, uploading is copying, caches are never hit. Left out: GitHub's runners,
its caches, and the real actions.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from loadproof.requirements import SIMULATOR
from tests.environment.checkers import checker
from tests.environment.workflows import ACTIONS
from tests.environment.workshop import own_environ, run

ACT = [
    "--platform", "ubuntu-24.04=-self-hosted", "--matrix", "runner:ubuntu-24.04", "--no-skip-checkout",
    "--action-offline-mode", "--container-daemon-socket", "-", "--no-cache-server",
]  # fmt: skip
# What stands for an action: a composite one whose step is this text of bash.
DO = {
    "actions/cache": "true",
    "actions/checkout": 'mkdir -p "$CHECKED_OUT_PATH"; cp -a "{sources}/${{CHECKED_OUT:-here}}/." "$CHECKED_OUT_PATH"',
    "actions/upload-artifact": (
        'mkdir -p "{artifacts}/$ARTIFACT"; while read -r path; do [ -z "$path" ] || cp -r "$path" '
        '"{artifacts}/$ARTIFACT/"; done <<< "$ARTIFACT_PATH"'
    ),
    "cachix/install-nix-action": "nix --version",
    "nix-community/cache-nix-action": "true",
}
ACTION = """name: a stand-in
inputs: {{path: {{default: .}}, repository: {{default: ""}}, name: {{default: ""}}}}
runs:
  using: composite
  steps:
    - shell: bash
      env:
        CHECKED_OUT: ${{{{ inputs.repository }}}}
        CHECKED_OUT_PATH: ${{{{ inputs.path }}}}
        ARTIFACT: ${{{{ inputs.name }}}}
        ARTIFACT_PATH: ${{{{ inputs.path }}}}
      run: |
        {run}
"""


@dataclass
class Job:
    """How the job ended, what it printed, and the folder of what it uploaded."""

    ended: subprocess.CompletedProcess[str]
    artifacts: Path

    def printed(self, step: str) -> str:
        """Return what a step printed; act empties the step summary itself after each step."""
        lines = self.ended.stdout.splitlines()
        [first] = [at for at, line in enumerate(lines) if line.endswith(f"Run Main {step}")]
        rest = itertools.takewhile(
            lambda line: "Success - Main" not in line and "Failure - Main" not in line, lines[first:]
        )
        return "\n".join(rest)

    def says(self) -> str:
        told = [line for line in self.ended.stdout.splitlines() if "unable to get git re" not in line]
        return "\n".join([*told[-100:], self.ended.stderr[-2000:]])


class Runner:
    """This machine as a runner; `sources` has what is checked out: `here`, and other repositories by their names."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sources = folder, folder / "sources"
        self.sources.mkdir()
        self._count = 0

    def run(self, workflow: str, event: str, path: list[Path], **environ: str) -> Job:
        """Run a workflow of the repository `here`; `path` comes first on PATH."""
        self._count += 1
        made = self.folder / f"run-{self._count}"
        (made / "artifacts").mkdir(parents=True)
        # A runner has no simulator of its own.
        rest = [part for part in own_environ()["PATH"].split(os.pathsep) if not Path(part, SIMULATOR).exists()]
        whole_path = os.pathsep.join([*map(str, path), *rest])
        env = own_environ(PATH=whole_path, XDG_CACHE_HOME=str(made / "cache"))
        argv: list[str | Path] = [checker("act"), event, "--workflows", f".github/workflows/{workflow}", *ACT]
        for name, value in {"PATH": whole_path, **environ}.items():
            argv += ["--env", f"{name}={value}"]
        argv += self._actions(made / "artifacts")
        return Job(run(argv, env=env, cwd=self.sources / "here", deadline_s=400), made / "artifacts")

    def _actions(self, artifacts: Path) -> list[str]:
        words = []
        for name, pin in ACTIONS.items():
            place = self.folder / "actions" / name
            place.mkdir(parents=True, exist_ok=True)
            text = ACTION.format(run=DO[name].format(sources=self.sources, artifacts=artifacts))
            (place / "action.yml").write_text(text)
            words += ["--local-repository", f"{name}@{pin.partition(' ')[0]}={place}"]
        return words
