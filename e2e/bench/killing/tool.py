"""A load generator that nobody wants to have: deaf to TERM, with daemons that hide, and honest about what it did.

`tool.py BASE_URL MODEL OUT CLIENTS`: each client sends one streamed request after the other, for ever. `OUT/log`
gets a line before each request and one after each whole answer, each written at once: `sent ID TIME` and
`answered ID TIME` (CLOCK_MONOTONIC nanoseconds); the id is in the prompt. Daemons have sessions of their own, no
environment and another name; they, and whoever else comes from here, hold the lock on `OUT/lock`.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import threading
import time
from fcntl import LOCK_SH, flock
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

DAEMONS = 3
DEAF_TO = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def daemon() -> None:
    """Leave a process behind that has nothing in common with us but the lock."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execve(sys.executable, ["kworker/7:1", "-S", "-c", "import time; time.sleep(1000)"], {})  # noqa: S606 -- no shell


def client(url: str, model: str, log: int, ids: count[int]) -> None:
    """Send requests until somebody ends us."""
    host = urlsplit(url).netloc
    connection = http.client.HTTPConnection(host, timeout=60)
    for number in ids:
        body = {"model": model, "prompt": f"request {number}", "max_tokens": 16, "ignore_eos": True, "stream": True}
        os.write(log, f"sent {number} {time.monotonic_ns()}\n".encode())
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        if connection.getresponse().read().endswith(b"data: [DONE]\n\n"):
            os.write(log, f"answered {number} {time.monotonic_ns()}\n".encode())


def main(url: str, model: str, out: Path, clients: int) -> None:
    """Hide daemons, then send."""
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    lock = os.open(out / "lock", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(lock, True)  # noqa: FBT003 -- it takes no keyword
    flock(lock, LOCK_SH)
    for _ in range(DAEMONS):
        daemon()
    log = os.open(out / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(log, f"url {url} {time.monotonic_ns()}\n".encode())
    ids = count()
    threads = [threading.Thread(target=client, args=(url, model, log, ids), daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
