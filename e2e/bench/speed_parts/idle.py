"""How much memory do 10,000 idle connections take in the absorber?

PSS of the ready process, before and while they are open: just connected, and after one answered request on
each, which is what an idle keep-alive connection usually is. The kernel's memory for sockets is not in it.
"""

from __future__ import annotations

import time
from pathlib import Path

from bench.speed_parts.machine import pss_bytes
from bench.speed_parts.ratios import Plan, Say
from bench.speed_parts.servers import Server, absorber
from bench.speed_parts.streams import connect
from bench.speed_parts.table import Bar, Row, barred
from loadproof.errors import BrokenRun

CONNECTIONS = 10_000
BAR = Bar(250, "MB")
REQUEST = b"GET /health HTTP/1.1\r\nHost: bench\r\n\r\n"
ACCEPT_S = 30.0


def measure(plan: Plan, say: Say) -> list[Row]:
    """Return the row; one run, because memory has no noise to speak of."""
    with absorber(plan.folder / "idle", core=plan.cores.server) as server:
        before = pss_bytes(server.pid)
        sockets = connect(server, CONNECTIONS)
        try:
            _wait_accepted(server)
            connected = pss_bytes(server.pid) - before
            for sock in sockets:
                sock.sendall(REQUEST)
                if not sock.recv(4096).startswith(b"HTTP/1.1 200"):
                    raise BrokenRun("the absorber does not answer /health with 200")
            answered = pss_bytes(server.pid) - before
        finally:
            for sock in sockets:
                sock.close()
    say(f"{CONNECTIONS} idle connections: {connected / 1e6:.0f} MB, after a request each {answered / 1e6:.0f} MB")
    beside = (f"{answered / CONNECTIONS / 1000:.1f} kB each, after a request each; {connected / 1e6:.0f} MB when only "
              f"connected; the ready absorber has {before / 1e6:.0f} MB")  # fmt: skip
    return [barred("idle", f"{CONNECTIONS:,} idle connections add (PSS)", answered / 1e6, BAR, beside=beside)]


def _wait_accepted(server: Server) -> None:
    limit = time.monotonic() + ACCEPT_S
    while time.monotonic() < limit:
        if sum(1 for _ in Path(f"/proc/{server.pid}/fd").iterdir()) > CONNECTIONS:
            return
        time.sleep(0.05)
    raise BrokenRun(f"the absorber did not accept {CONNECTIONS} connections within {ACCEPT_S:g} s")
