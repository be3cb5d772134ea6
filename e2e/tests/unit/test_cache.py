"""Which folder is the cache, who is told when it cannot be, and do processes take turns?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loadproof.cache import cache_root, turn
from loadproof.errors import UsageProblem


def test_the_first_variable_that_is_set_chooses_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOADPROOF_CACHE", "own")
    assert cache_root() == tmp_path / "own"
    monkeypatch.setenv("LOADPROOF_CACHE", "")
    assert cache_root() == tmp_path / "xdg" / "loadproof"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_root() == tmp_path / "home" / ".cache" / "loadproof"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == tmp_path / "home" / ".cache" / "loadproof"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "own", "xdg"]
    assert cache_root().is_dir()


@pytest.mark.parametrize("variable", ["LOADPROOF_CACHE", "XDG_CACHE_HOME", "HOME"])
def test_an_unusable_cache_names_its_variable(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOADPROOF_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv(variable, str(tmp_path / "file"))
    with pytest.raises(UsageProblem, match=rf"chosen by {variable}\) cannot be used: .*Set LOADPROOF_CACHE to"):
        cache_root()


def test_a_cache_that_may_not_be_written_is_unusable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The superuser may write everywhere, so the answer of the kernel is given in its place.
    monkeypatch.setenv("LOADPROOF_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    with pytest.raises(UsageProblem, match="may not be read and written"):
        cache_root()


def test_a_turn_is_waited_for_and_then_given_up_with_the_lock_named(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    with turn(lock), pytest.raises(UsageProblem, match=r"a\.lock for 0 s"), turn(lock, patience_s=0):
        pytest.fail("two holders at once")
    with turn(lock, patience_s=0):
        assert lock.exists()
