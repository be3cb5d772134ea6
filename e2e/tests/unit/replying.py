"""A fake server of a few lines: it keeps what it read and answers as each test of the reference sender says."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

Reply = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
TOKENS = 4
DEADLINE_S = 30.0


def event(value: object) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def text(word: str, finish: str | None = None) -> dict[str, Any]:
    return {"id": "c", "object": "text_completion", "choices": [{"index": 0, "text": word, "finish_reason": finish}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": TOKENS, "total_tokens": 13}}
ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
DONE = event(b"[DONE]")
WORDS = [text("a"), text(" b"), text(" c"), text(" d", "length")]
EVENTS = b"".join(map(event, [*WORDS, USAGE])) + DONE
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def sized(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


STREAM = HEAD + chunked(EVENTS)


class Server:
    """Keeps what it reads; `reply(reader, writer)` answers. Counts requests in flight and connections."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.in_flight = self.peak = 0
        self.opened = self.open = 0
        self.changed = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._note(opened=1, open=1)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(
                    int(line.split(":")[1]) for line in head.splitlines() if line.startswith("Content-Length")
                )
                self.bodies.append(json.loads(await reader.readexactly(length)))
                self.paths.append(head.split()[1])
                await self._note(in_flight=1)
                try:
                    await self.reply(reader, writer)
                finally:
                    await self._note(in_flight=-1)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            await self._note(open=-1)

    async def _note(self, **steps: int) -> None:
        async with self.changed:
            for name, step in steps.items():
                setattr(self, name, getattr(self, name) + step)
            self.peak = max(self.peak, self.in_flight)
            self.changed.notify_all()

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S), self.changed:
            await self.changed.wait_for(true)


@contextlib.asynccontextmanager
async def serving(reply: Reply) -> AsyncIterator[tuple[Server, str]]:
    server = Server(reply)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with listener:
        try:
            yield server, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            await server.until(lambda: server.open == 0)  # the sender left no connection behind
        finally:
            listener.abort_clients()


def saying(reply: bytes, *, close: bool = False) -> Reply:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        await writer.drain()
        if close:
            writer.close()
            raise ConnectionError

    return say
