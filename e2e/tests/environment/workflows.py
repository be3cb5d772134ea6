"""Which workflows are ours, how are they read, and which actions may they use?

The table of actions is literal: an update of one is an edit here, too. Left out: what is wrong with them, that is for
the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML

from tests.environment.workshop import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# The hashes are those of the versions in the comments.
ACTIONS = {
    "actions/cache": "0057852bfaa89a56745cba8c7296529d2fc39830 # v4.3.0",
    "actions/checkout": "34e114876b0b11c390a56381ad16ebd13914f8d5 # v4",
    "actions/upload-artifact": "ea165f8d65b6e75b540449e92b4886f43607fa02 # v4",
    "cachix/install-nix-action": "4eae8bea4afaa8f8ea8aa638ab9a7fead2f3d21e # v31",
    "nix-community/cache-nix-action": "76f6697d63b7378f7161d52f3d81784130ecd90d # v6",
}


def read(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe").load(text)
    return loaded


def jobs(text: str) -> Iterator[dict[str, Any]]:
    yield from read(text)["jobs"].values()


def steps(text: str) -> Iterator[dict[str, Any]]:
    for job in jobs(text):
        yield from job["steps"]
