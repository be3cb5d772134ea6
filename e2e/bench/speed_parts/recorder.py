"""What would an ordinary recording server cost? An aiohttp application on uvloop, written to be compared with.

It keeps raw bodies and times in lists and streams 16 server-sent events, each with a `write` of its own. It
reads no JSON, counts no token, paces nothing and writes no file. It serves the listening socket whose
descriptor is its argument.
"""

from __future__ import annotations

import socket
import sys
import time

import uvloop
from aiohttp import web

TOKENS = 16
EVENT = (
    b'data: {"id":"cmpl-0123456789abcdef","object":"text_completion","created":1700000000,"model":'
    b'"google/gemma-3-270m","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null}]}\n\n'
)
LAST_EVENT = b"data: [DONE]\n\n"


class Recorder:
    """All that was received, and when."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.arrivals: list[int] = []
        self.writes: list[int] = []

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Record one request and stream its reply."""
        self.arrivals.append(time.monotonic_ns())
        self.bodies.append(await request.read())
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        for _ in range(TOKENS):
            self.writes.append(time.monotonic_ns())
            await reply.write(EVENT)
        await reply.write(LAST_EVENT)
        await reply.write_eof()
        return reply


def main() -> None:
    """Serve until SIGTERM."""
    uvloop.install()
    application = web.Application()
    application.router.add_post("/v1/completions", Recorder().complete)
    web.run_app(application, sock=socket.socket(fileno=int(sys.argv[1])), access_log=None, print=lambda _: None)


if __name__ == "__main__":
    main()
