"""How are packets captured with tcpdump, so that nothing of the capture is ours?

tcpdump writes to a file while the load runs. On loopback it shows only the *incoming* copy of each packet. What it
has seen is known to be in the file once a last request, with a name of its own, is.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from bench.calibration import packet_socket
from loadproof.errors import BrokenRun
from loadproof.process import Process, clean_environment, running, tail

_DEADLINE_S = 30.0
_LOOK_AGAIN_S = 0.02
_BUFFER_KIB = 64 * 1024


def why_not() -> str:
    """Return why tcpdump cannot be used here; empty where it can."""
    if shutil.which("tcpdump") is None:
        return "tcpdump is not installed: install it, or use --capture packet-socket"
    return packet_socket.why_not()  # it asks the kernel for the same


@asynccontextmanager
async def capturing(host: str, port: int, folder: Path) -> AsyncIterator[Path]:
    """Capture what goes to or from `port` on loopback; yields the file, which is whole when the block is left.

    Whoever listens on `host` and `port` is asked for /health at the end. Raises BrokenRun if tcpdump fails.
    """
    argv = ["tcpdump", "-i", packet_socket.DEVICE, "--time-stamp-precision=nano", "-s", "0", "-B", str(_BUFFER_KIB),
            "-U", "-n", "-w", "-", f"tcp port {port}"]  # fmt: skip
    async with running(argv, log_dir=folder, name="tcpdump", env=clean_environment({})) as process:
        await _until(process, lambda: b"listening on" in process.stderr.read_bytes(), "began to listen")
        yield process.stdout
        marker = secrets.token_hex(16).encode()
        await _ask(host, port, marker)
        await _until(process, lambda: marker in process.stdout.read_bytes(), "saw the last request")
        ended = await process.stop("has seen all")
        if b" 0 packets dropped by kernel" not in b" " + process.stderr.read_bytes().replace(b"\n", b" "):
            raise BrokenRun(f"tcpdump lost packets (it {ended.says()})\n{tail(process.stderr)}")


async def _ask(host: str, port: int, marker: bytes) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: calibration\r\nX-Marker: %b\r\n\r\n" % marker)
    await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()


async def _until(process: Process, true: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(_DEADLINE_S):
            while not true():  # noqa: ASYNC110 -- a file that another program writes has no event to wait for
                await asyncio.sleep(_LOOK_AGAIN_S)
    except TimeoutError:
        raise BrokenRun(f"tcpdump never {what}\n{tail(process.stderr)}") from None
