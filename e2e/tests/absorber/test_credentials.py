"""Is a credential ever on disk, in whatever way it came and however the absorber ends?

Every kind of request carries the same secret, in headers and in queries: whole, in pieces, malformed, refused, in
flight, unfinished. The whole folder is searched bytewise while the absorber runs, after it was killed, and in the
sealed journal, whose columns are looked through too because they are compressed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loadproof.absorber.client import absorbing
from loadproof.absorber.profile import Profile
from loadproof.errors import BrokenRun
from loadproof.journal import read_journal
from loadproof.sealing import seal
from tests.absorber.conftest import Absorber, silent_absorber
from tests.absorber.odd_requests import ALL, GOOD

if TYPE_CHECKING:
    from tests.absorber.conftest import Raw

SECRET = b"s3cr3t-qpwoeiruty"
SHOWN = b"kept-qpwoeiruty"  # the search must be able to find something
NAMES = (b"Authorization: Bearer ", b"authorization:", b"X-API-Key: ", b"Api-Key: ", b"Cookie: session=",
         b"X-Auth-Token:", b"Proxy-Authorization: Basic ", b"X-Other: bearer ",
         b"Ocp-Apim-Subscription-Key: ")  # fmt: skip
HEADERS = b"".join(name + SECRET + b"\r\n" for name in NAMES) + b"X-Shown: " + SHOWN + b"\r\n"
QUERY = b"/v1/completions?api_key=" + SECRET + b"&a=b&access_token=" + SECRET
SIZED = b"Content-Length: %d\r\n\r\n" % len(GOOD)


def post(target: bytes = b"/v1/completions", *, more: bytes = b"Host: x\r\n", end: bytes = SIZED + GOOD) -> bytes:
    return b"POST " + target + b" HTTP/1.1\r\n" + more + HEADERS + end


ANSWERED = [
    post(),
    post(QUERY),
    post(b"http://x/v1/completions?key=" + SECRET),
    post(end=b"Transfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: Bearer " + SECRET + b"\r\n\r\n"),
    post(b"/nowhere?token=" + SECRET),
    post(end=b"Content-Length: 2\r\n\r\n{}"),
]
REFUSED = [
    post(QUERY, more=b""),  # no Host
    post(QUERY, more=b"Host: x\r\nExpect: more\r\n"),
    post(QUERY, more=b"Host: x\r\nTransfer-Encoding: gzip, chunked\r\n"),
    post(QUERY, end=b"Content-Length: 99999999999\r\n\r\n"),
    post(QUERY, end=b"A : b\r\n\r\n"),
    post(QUERY, more=b"Host: x\r\nAuthorization:\r\n " + SECRET + b"\r\n\t" + SECRET + b"\r\n"),
    post(more=b"Host: x\r\nAuthorization: Basic\r" + SECRET + b"\r\n"),
    post(more=b"Host: x\r\nAuthorization: \r\n" + SECRET + b"\r\n"),
    post(more=b"Host: x\r\nAuthorization: Basic \0" + SECRET + b"\r\n"),
    post(more=b"Host: x\nAuthorization: a\n" + SECRET + b"\n"),
    post(b"http://user:" + SECRET + b"@x/v1/completions"),
    b"GET /v1/mod els?api_key=" + SECRET + b" HTTP/1.1\r\n\r\n",
    b"GET /?api_key=" + SECRET + b"\r\n" + HEADERS + b"\r\n",
    b"\x16\x03" + HEADERS,
    post(end=b"Transfer-Encoding: chunked\r\n\r\nz\r\nAuthorization: Bearer " + SECRET + b"\r\n\r\n"),
    post() + b"nonsense\r\n" + HEADERS + b"\r\n",
]
UNFINISHED = [
    b"POST " + QUERY,
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + SECRET[:-3],
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + HEADERS,
    post(QUERY, end=SIZED + GOOD[:-5]),
    post(QUERY, end=b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"),
]


def where(folder: Path, wanted: bytes) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and wanted in path.read_bytes()]


def send(raw: Raw, data: bytes, *, in_pieces: bool) -> None:
    raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    size = 11 if in_pieces else len(data)
    with suppress(OSError):  # it may have been refused before all was sent
        for start in range(0, len(data), size):
            raw.send(data[start : start + size])


def visit(absorber: Absorber) -> None:
    for in_pieces in (False, True):
        for data in (*ANSWERED, *REFUSED):
            with absorber.raw() as raw:
                send(raw, data, in_pieces=in_pieces)
                assert raw.reply().status >= 200
    for odd in ALL:
        if odd.any_cut:  # its own lines, with credentials before and after
            first, end, rest = odd.data.partition(b"\r\n")
            with absorber.raw() as raw:
                send(raw, first + end + HEADERS + rest + HEADERS, in_pieces=False)
                assert raw.reply().status >= 200


def leave_open(absorber: Absorber) -> Iterator[Raw]:
    for in_pieces in (False, True):
        for data in UNFINISHED:
            raw = absorber.raw()
            send(raw, data, in_pieces=in_pieces)
            yield raw
    raw = absorber.raw()
    raw.send(post())  # which waits for its time
    yield raw


async def until_on_disk(folder: Path, rows: int) -> None:
    """Wait until the live streams hold so many requests."""
    deadline = time.monotonic() + 30
    while read_journal(folder).table.num_rows < rows:
        assert time.monotonic() < deadline, "the journal did not grow"
        await asyncio.sleep(0.02)


OPEN = 2 * len(UNFINISHED) + 1


@pytest.mark.asyncio
@pytest.mark.parametrize("level", ["full", "light"])
async def test_no_credential_is_on_disk_while_it_runs_nor_sealed(tmp_path: Path, level: str) -> None:
    with ExitStack() as stack:
        async with silent_absorber(Profile(output_tokens=2), tmp_path, level=level) as absorber:
            await asyncio.to_thread(visit, absorber)
            before = read_journal(absorber.journal).table.num_rows
            for raw in leave_open(absorber):
                stack.enter_context(raw)
            await until_on_disk(absorber.journal, before + OPEN)
            assert where(tmp_path, SHOWN)
            assert where(tmp_path, SECRET[:-3]) == []
    assert [path.name for path in absorber.journal.iterdir()] == ["journal.parquet"]
    look_through(tmp_path, absorber.journal)


@pytest.mark.asyncio
async def test_no_credential_is_on_disk_after_a_kill_nor_sealed_then(tmp_path: Path) -> None:
    folder = tmp_path / "journal"

    async def killed(stack: ExitStack) -> None:
        async with absorbing(Profile(ttft_s=60), folder, log_dir=tmp_path) as (announced, process):
            absorber = Absorber(announced.url, announced.host, announced.port, announced.model, folder)
            for raw in leave_open(absorber):
                stack.enter_context(raw)
            await until_on_disk(folder, OPEN)
            os.kill(announced.pid, signal.SIGKILL)
            await process.exited()

    with ExitStack() as stack:
        with pytest.raises(BrokenRun):
            await killed(stack)
        assert where(folder, SHOWN)
        assert where(tmp_path, SECRET[:-3]) == []
        seal(folder)
        look_through(tmp_path, folder)


def look_through(everything: Path, folder: Path) -> None:
    """Look for the secret in all files, and within the columns of the sealed journal."""
    assert where(everything, SECRET[:-3]) == []
    rows = [str(row) for row in read_journal(folder).table.to_pylist()]
    assert sum(SHOWN.decode() in row for row in rows) >= 2
    assert [row for row in rows if SECRET[:-3].decode() in row] == []
