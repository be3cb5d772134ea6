"""A real absorber for the tests of its port: started once, on a free port, in a process of its own."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pytest
import pytest_asyncio

from loadproof.absorber.client import absorbing
from loadproof.absorber.profile import Profile
from loadproof.tokenizer import TokenCounter, tokenizer_dir

DEADLINE_S = 30.0  # of a socket that waits for what never comes


@dataclass(frozen=True)
class Absorber:
    """A running absorber: where it listens, and where its journal will be."""

    url: str
    host: str
    port: int
    model: str
    journal: Path

    def body(self, **fields: object) -> dict[str, object]:
        return {"model": self.model, "prompt": "one two three", "max_tokens": 3, **fields}

    def raw(self) -> Raw:
        return Raw(self.host, self.port)


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, object]:
        found = json.loads(self.body)["error"]
        assert isinstance(found, dict)
        return found


class Raw:
    """One plain socket: sends any bytes, reads whole replies one after the other."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=DEADLINE_S)
        self._file: BinaryIO = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def post(self, path: str, body: bytes | dict[str, object], *headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(data)}", *headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def reply(self) -> Reply:
        status, headers = self.head()
        if status == 100:
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = b"".join(iter(self._chunk, b""))
        elif "content-length" in headers:
            body = self._file.read(int(headers["content-length"]))
        else:
            body = self._file.read()
        return Reply(status, headers, body)

    def head(self) -> tuple[int, dict[str, str]]:
        version, _, rest = self.line().partition(" ")
        assert version == "HTTP/1.1", f"no reply: {version!r} {rest!r}"
        lines = iter(self.line, "")
        pairs = [line.partition(": ") for line in lines]
        return int(rest.split()[0]), {name.lower(): value for name, _, value in pairs}

    def line(self) -> str:
        return self._file.readline().decode().removesuffix("\r\n")

    def _chunk(self) -> bytes:
        data = self._file.read(int(self.line(), 16))
        assert self._file.read(2) == b"\r\n"
        return data

    def rest(self) -> bytes:
        return self._file.read()

    def close(self) -> None:
        self._file.close()
        self.socket.close()


@asynccontextmanager
async def silent_absorber(profile: Profile, folder: Path, *, level: str = "full") -> AsyncIterator[Absorber]:
    """Run an absorber; at the end it has written its journal and has complained of nothing."""
    async with absorbing(profile, folder / "journal", log_dir=folder, level=level) as (announced, process):
        yield Absorber(announced.url, announced.host, announced.port, announced.model, folder / "journal")
    assert process.stderr.read_text() == ""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def absorber(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Absorber]:
    """The absorber that all tests share: no pacing, and a model that talks for 9 tokens."""
    profile = Profile(output_tokens=9)
    async with silent_absorber(profile, tmp_path_factory.mktemp("absorber")) as running:
        yield running


@pytest.fixture(scope="session")
def start() -> Callable[..., object]:
    """How a module starts an absorber of its own."""
    return silent_absorber


@pytest.fixture
def raw(absorber: Absorber) -> Iterator[Raw]:
    with absorber.raw() as connection:
        yield connection


@pytest.fixture(scope="session")
def counter() -> TokenCounter:
    """The tokenizer itself, as the oracle of every count."""
    return TokenCounter(tokenizer_dir())
