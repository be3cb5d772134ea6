"""Simulators for the tests of their runner: stand-ins with faults, a stranger on a port, and nothing left."""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from loadproof.simulators import starting
from loadproof.simulators.llm_d import LLMDInferenceSimRunner

HERE = Path(__file__).parent

type MakeFake = Callable[..., LLMDInferenceSimRunner]
type GivePorts = Callable[..., None]
type MakeStranger = Callable[..., AbstractAsyncContextManager[Stranger]]


@pytest_asyncio.fixture
async def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """No process, descriptor, task or temporary file of the test is left."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    children, descriptors, tasks = _children(), _descriptors(), asyncio.all_tasks()
    yield
    assert _children() - children == set()
    assert _descriptors() - descriptors == set()
    assert {task for task in asyncio.all_tasks() - tasks if task is not asyncio.current_task()} == set()
    assert list(temporary.iterdir()) == []
    assert _copies(tmp_path) == []


def _copies(folder: Path) -> list[Path]:
    return list(folder.rglob("loadproof-tokenizer-*"))


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _descriptors() -> set[str]:
    return set(_open_files())


def _open_files() -> Iterator[str]:
    for link in Path("/proc/self/fd").iterdir():
        try:
            yield f"{link.name} {link.readlink()}"
        except FileNotFoundError:  # the one with which they are listed
            continue


@pytest.fixture
def fake(tmp_path: Path) -> MakeFake:
    """Make the runner of a stand-in with the given faults (`fake_simulator.Faults`); options are the runner's own."""
    numbers = itertools.count(1)

    def make(faults: dict[str, Any] | None = None, /, **options: Any) -> LLMDInferenceSimRunner:
        folder = tmp_path / f"fake-{next(numbers)}"
        folder.mkdir()
        told = {"note": str(folder / "note"), **(faults or {})}
        executable = folder / "stand-in"
        executable.write_text(f"#!{sys.executable} -S\nimport sys\nsys.path.insert(0, {str(HERE)!r})\n"
                              f"from fake_simulator import main\nmain({told!r})\n")  # fmt: skip
        executable.chmod(0o755)
        ours: dict[str, Any] = {
            "model": "org/m",
            "executable": str(executable),
            "log_dir": folder / "logs",
            "stop_grace_s": 60.0,
        }
        return LLMDInferenceSimRunner(**(ours | options))

    return make


def notes_of(sim: LLMDInferenceSimRunner, first_word: str) -> list[str]:
    """Return the rest of each line that the stand-in has noted with that first word."""
    note = sim._given.log_dir.parent / "note"
    lines = note.read_text().splitlines() if note.exists() else []
    return [line.partition(" ")[2] for line in lines if line.partition(" ")[0] == first_word]


async def has_asked(sim: LLMDInferenceSimRunner, path: str) -> None:
    """Wait until the stand-in has been asked that."""
    async with asyncio.timeout(60):
        while path not in notes_of(sim, "asked"):  # noqa: ASYNC110 -- no event comes from another process
            await asyncio.sleep(0.005)


@pytest.fixture
def give_ports(monkeypatch: pytest.MonkeyPatch) -> GivePorts:
    """Have the next simulators try these ports first, and then free ones."""

    def give(*ports: int) -> None:
        rest, truly_free = iter(ports), starting.free_port
        monkeypatch.setattr(starting, "free_port", lambda: next(rest, None) or truly_free())

    return give


class Stranger:
    """Another model server, on a free port; it answers what the simulator would, under another name."""

    def __init__(self) -> None:
        self.port = self.asked = 0
        self.leaves_after = sys.maxsize
        self.leaving: Callable[[], object] = lambda: None
        self.server: asyncio.Server | None = None

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        if self.asked == self.leaves_after and self.server:
            self.server.close()
            self.leaving()
        reply = b'{"object": "list", "data": [{"id": "org/m"}, {"id": "nonce-of-somebody-else"}]}'
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(reply), reply))
        writer.close()


@pytest.fixture
def stranger() -> MakeStranger:
    @asynccontextmanager
    async def make() -> AsyncIterator[Stranger]:
        made = Stranger()
        made.server = await asyncio.start_server(made.talk, "0.0.0.0", 0)  # noqa: S104 -- where the simulator binds
        made.port = made.server.sockets[0].getsockname()[1]
        async with made.server:
            yield made

    return make


@pytest.fixture
def small_tokenizer(tmp_path: Path) -> Path:
    """A folder with a tokenizer that loads in no time: words, each unknown, after a BOS."""
    tokenizer = Tokenizer(models.WordLevel({"<bos>": 0, "[UNK]": 1}, unk_token="[UNK]"))  # noqa: S106 -- no password
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 0)])
    folder = tmp_path / "small-tokenizer"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
