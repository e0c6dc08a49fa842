"""What numbers the files of a folder have, for who asks again and again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_SETTLED_NS = 2_000_000_000
"""A folder that changed this long ago changes again at another time, however coarse clocks are."""
_FOLDERS = 256


class Listed:
    """Lists a folder anew only where it has changed, whoever changed it.

    Args:
        ending: Of the files; before it, they have a number.
    """

    def __init__(self, ending: str) -> None:
        self._ending = ending
        self._known: dict[Path, tuple[int, Mapping[int, int]]] = {}

    def of(self, folder: Path) -> Mapping[int, int]:
        """When each file came there, in nanoseconds since 1970, by its number; these ascend.

        A file comes by being renamed, which changes its folder, too; what is written to it later
        goes unnoticed.

        Raises:
            OSError: The folder cannot be read, or is not there.
        """
        changed = folder.stat().st_mtime_ns
        known = self._known.get(folder)
        if known is not None and known[0] == changed:
            return known[1]
        found: dict[int, int] = {}
        numbered = ((int(p.stem), p) for p in folder.iterdir() if p.suffix == self._ending)
        for number, path in sorted(numbered):
            with suppress(FileNotFoundError):  # another process has just removed it
                found[number] = path.stat().st_mtime_ns
        if time.time_ns() - changed > _SETTLED_NS:
            if len(self._known) >= _FOLDERS:
                self._known.clear()
            self._known[folder] = changed, found
        return found
