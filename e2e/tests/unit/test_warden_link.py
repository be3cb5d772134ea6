"""Does a warden that cannot be started leave no descriptor open?"""

from __future__ import annotations

import errno
import os

import pytest

from loadproof.errors import UsageProblem
from loadproof.process import run_to_end


@pytest.mark.asyncio
async def test_a_second_pipe_that_cannot_be_made_leaves_none(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = os.pipe, []

    def one_only() -> tuple[int, int]:
        if made:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        made.append(make())
        return made[0]

    folder = tmp_path_factory.mktemp("logs")
    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patched, pytest.raises(UsageProblem, match="ulimit -n"):
        patched.setattr(os, "pipe", one_only)
        await run_to_end(["true"], log_dir=folder, name="true", env={}, deadline_s=10)
    assert made
    assert os.listdir("/proc/self/fd") == before
