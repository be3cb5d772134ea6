"""How does a file grow only by whole messages, and how does who seals it see that it still grows?

A message is written whole or not at all; a full disk leaves the file as it was before. The file is locked while it is
open, and the system lets go of the lock when its process ends, however it ends. Left out: what a message is.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from loadproof.errors import UsageProblem

END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"  # as Arrow marks it


class StreamFile:
    """A live stream's file, new. Raises UsageProblem where one lies already, OSError where none can be made."""

    __slots__ = ("_fd", "_path", "_whole")

    def __init__(self, path: Path) -> None:
        self._path, self._whole = path, 0
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except FileExistsError as error:
            raise UsageProblem(f"{path}: is part of a journal that was not sealed; judge or move it, or name another "
                               "folder") from error  # fmt: skip
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def append(self, message: pa.Buffer | bytes) -> None:
        """Write a message, all of it or nothing. Raises OSError."""
        rest = memoryview(message)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            if len(rest) < len(memoryview(message)):
                os.ftruncate(self._fd, self._whole)  # or the next batch would follow half a one, and none be found
            raise
        self._whole += len(memoryview(message))

    def close(self, *, mark: bool) -> None:
        """Mark the end if asked, and if there is room for the mark, and close."""
        if self._fd >= 0:
            if mark:
                with suppress(OSError):
                    self.append(END_OF_STREAM)
            os.close(self._fd)
            self._fd = -1

    def discard(self) -> None:
        """Take away the file, and close it."""
        self._path.unlink(missing_ok=True)  # first, while the lock keeps others from it
        self.close(mark=False)
