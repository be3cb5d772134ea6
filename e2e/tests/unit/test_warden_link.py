"""Does a warden that cannot be started leave no descriptor open?"""

from __future__ import annotations

import errno
import os

import psutil
import pytest

from loadproof.errors import UsageProblem
from loadproof.process import run_to_end


@pytest.mark.asyncio
async def test_a_second_pipe_that_cannot_be_made_leaves_none(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.pipe
    made: list[tuple[int, int]] = []

    def one_only() -> tuple[int, int]:
        if made:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        made.append(make())
        return made[0]

    folder = tmp_path_factory.mktemp("logs")
    mine = psutil.Process()
    before = mine.num_fds()
    monkeypatch.setattr(os, "pipe", one_only)
    with pytest.raises(UsageProblem, match="ulimit -n"):
        await run_to_end(["true"], log_dir=folder, name="true", env={}, deadline_s=10)
    monkeypatch.undo()
    assert made
    assert mine.num_fds() == before
