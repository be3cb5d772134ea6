"""How far is the absorber, as seen from another process, at no cost to it?

Two unsigned 64-bit counters in a memory-mapped file: generation requests arrived and ended. Progress only;
nothing is judged by them.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

FILE_NAME = "live.bin"
_LAYOUT = struct.Struct("=QQ")


class LiveCounters:
    """The writer's side: set `arrived` and `ended`, call `publish` now and then."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
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
    """Return (arrived, ended); zeros where the absorber is not there."""
    try:
        arrived, ended = _LAYOUT.unpack((folder / FILE_NAME).read_bytes())
    except (OSError, struct.error):
        return 0, 0
    return arrived, ended
