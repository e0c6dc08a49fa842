"""Bytes that the measuring process writes and its parent reads: what is at work, and moves."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from pathlib import Path

from hetune.variants.errors import WorkerError

SETTING_UP = -1
"""The unit while none of the variants is at work."""
MEND_ROOM = "free some space, or name another folder for temporary files by TMPDIR"
"""What to do where no temporary file can be made."""

_BEAT = struct.Struct("=qq")


class Heartbeat:
    """A count of steps and the number of the unit at work, in memory that two processes share.

    Writing it wakes nobody up, which a message would do in the middle of what is timed.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _BEAT.size)

    @classmethod
    def create(cls) -> Heartbeat:
        """One of its own; a child that inherits the descriptor shares it.

        Raises:
            WorkerError: There is no room for its file.
        """
        try:
            descriptor, path = tempfile.mkstemp(prefix="hetune-")
            try:
                Path(path).unlink()
                # Writing to memory without blocks on disk, where that is full, ends the process.
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(descriptor, 0, _BEAT.size)
                heartbeat = cls(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise WorkerError(f"no temporary file can be made ({error}): {MEND_ROOM}") from error
        _BEAT.pack_into(heartbeat._memory, 0, 0, SETTING_UP)
        return heartbeat

    def beat(self, unit: int) -> None:
        """A step of that unit begins."""
        count, _ = self.read()
        _BEAT.pack_into(self._memory, 0, count + 1, unit)

    def read(self) -> tuple[int, int]:
        """Number of steps so far, and the unit of the last one."""
        count, unit = _BEAT.unpack_from(self._memory)
        return int(count), int(unit)

    def close(self) -> None:
        """Lets the memory go."""
        self._memory.close()
        os.close(self.descriptor)
