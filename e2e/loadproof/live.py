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
    """The side of one of the writers: set `arrived` and `ended`, call `publish` now and then.

    Raises OSError when the folder cannot be written.
    """

    def __init__(self, folder: Path, worker: int = 0) -> None:
        self._path = folder / f"live-{worker}.bin"
        self._path.unlink(missing_ok=True)  # cutting it short would end any process that still has it mapped
        try:
            with self._path.open("x+b", buffering=0) as file:
                file.write(bytes(_LAYOUT.size))
                self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        except BaseException:
            self._path.unlink(missing_ok=True)
            raise
        self.arrived = self.ended = 0

    def publish(self) -> None:
        """Make the counters visible to readers."""
        self._map[:] = _LAYOUT.pack(self.arrived, self.ended)

    def close(self) -> None:
        """Remove the file: it means something only while the absorber runs."""
        self._map.close()
        self._path.unlink(missing_ok=True)


def live_files(folder: Path) -> list[Path]:
    """Return the counters in a folder: of absorbers that run, or were killed."""
    return list(folder.glob("live-*.bin"))


def read_live(folder: Path) -> tuple[int, int]:
    """Return (arrived, ended) of all writers together; zeros where none is there."""
    arrived = ended = 0
    for path in live_files(folder):
        with suppress(OSError, struct.error):
            ours = _LAYOUT.unpack(path.read_bytes())
            arrived, ended = arrived + ours[0], ended + ours[1]
    return arrived, ended
