"""A made-up llm-d-inference-sim that answers completions, so that a tool can be run against it without the real one.

The stand-in of the runner's tests, with replies that end: `TOKENS` words, each with its trailing space, at once, and
the counter of them in /metrics. It may die when it is asked for its `dies_at`-th reply. Standard library only.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import threading
from pathlib import Path

from tests.simulators import fake_simulator

TOKENS = 4
EXECUTABLE = "llm-d-inference-sim"
SCRIPT = """\
#!{python} -S
import sys
sys.path.insert(0, {root!r})
from tests.serving_simulator import be
be({counts!r}, {dies_at}, later={later})
"""
COUNTER = """\
# TYPE vllm:request_success_total counter
vllm:request_success_total{finish_reason="length",model_name="m"} %d
"""


class Serving(fake_simulator.Simulator):
    """The stand-in that answers."""

    dies_at = 0
    _served, _turn = 0, threading.Lock()

    def _stream(self, connection: socket.socket) -> None:
        with self._turn:
            self._served += 1
            if self._served == self.dies_at:
                sys.stderr.write("its last words\n")
                sys.stderr.flush()
                os._exit(0)
        pieces = [{"choices": [{"text": "word ", "finish_reason": None}]}] * (TOKENS - 1)
        pieces += [{"choices": [{"text": "word ", "finish_reason": "length"}]}]
        told = [*map(json.dumps, pieces), json.dumps({"choices": [], "usage": {"completion_tokens": TOKENS}}), "[DONE]"]
        body = "".join(f"data: {each}\n\n" for each in told).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))  # fmt: skip

    def _answer(self, path: str, body: dict[str, str]) -> tuple[int, str]:
        return (200, COUNTER % self._served) if path == "/metrics" else super()._answer(path, body)


def be(counts: dict[str, int], dies_at: int, *, later: bool) -> None:
    """Be it; `counts` is what it counts in which text. `later`: a version of the other dialect, without tokenizer."""
    Serving.dies_at = dies_at
    fake_simulator.Simulator = Serving  # type: ignore[misc]  # what its `main` makes
    of_later: fake_simulator.Faults = {"time_type": "duration", "lacks": ["--tokenizers-cache-dir"]}
    fake_simulator.main(of_later if later else {"counts": counts})


def install(folder: Path, counts: dict[str, int], *, dies_at: int = 0, later: bool = False) -> Path:
    """Write the executable into a folder, which is for PATH, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / EXECUTABLE
    root = str(Path(__file__).parents[1])
    text = SCRIPT.format(python=sys.executable, root=root, counts=counts, dies_at=dies_at, later=later)
    program.write_text(text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder
