"""How far is the absorber, as seen from another process, at no cost to it?

Two unsigned 64-bit counters in a memory-mapped file of each worker: generation requests arrived and ended. Progress
only; nothing is judged by them.
"""

from __future__ import annotations

import mmap
import struct
from contextlib import suppress
from pathlib import Path

_LAYOUT = struct.Struct("=QQ")


class LiveCounters:
    """The side of one of the writers: set `arrived` and `ended`, call `publish` now and then."""

    def __init__(self, folder: Path, worker: int = 0) -> None:
        self._path = folder / f"live-{worker}.bin"
        self._path.write_bytes(bytes(_LAYOUT.size))
        with self._path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        self.arrived = self.ended = 0

    def publish(self) -> None:
        """Make the counters visible to readers."""
        self._map[:] = _LAYOUT.pack(self.arrived, self.ended)

    def close(self) -> None:
        """Remove the file: it means something only while the absorber runs."""
        self._map.close()
        self._path.unlink(missing_ok=True)


def read_live(folder: Path) -> tuple[int, int]:
    """Return (arrived, ended) of all writers together; zeros where none is there."""
    arrived = ended = 0
    for path in folder.glob("live-*.bin"):
        with suppress(OSError, struct.error):
            ours = _LAYOUT.unpack(path.read_bytes())
            arrived, ended = arrived + ours[0], ended + ours[1]
    return arrived, ended
