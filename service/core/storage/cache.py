"""Objects in memory up to a number of bytes; the one used longest ago goes first."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_GROWING = 4


class BytesCache(Generic[K, V]):
    """Safe with several threads. The newest object stays even if it alone is over the limit.

    Args:
        limit: Bytes.
        size: Of an object, in bytes; asked again for those that were used last, for they grow.
    """

    def __init__(self, limit: int, size: Callable[[V], int]) -> None:
        self.limit = limit
        self._size = size
        self._held: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self._total = 0
        self._mutex = threading.Lock()

    def get(self, key: K) -> V | None:
        """The object, which now is the one used last; None if there is none."""
        with self._mutex:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                self._shrink()
            return found

    def add(self, key: K, value: V) -> V:
        """Holds an object; gives the one that is held already, if there is one."""
        with self._mutex:
            held = self._held.setdefault(key, value)
            self._held.move_to_end(key)
            self._shrink()
            return held

    def discard(self, key: K) -> None:
        """Lets go of an object, if it is held."""
        with self._mutex:
            self._held.pop(key, None)
            self._total -= self._sizes.pop(key, 0)

    def __contains__(self, key: K) -> bool:
        """Whether an object is held. Asking is no use of it."""
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def _shrink(self) -> None:
        for key in itertools.islice(reversed(self._held), _GROWING):
            size = self._size(self._held[key])
            self._total += size - self._sizes.get(key, 0)
            self._sizes[key] = size
        while self._total > self.limit and len(self._held) > 1:
            key, _ = self._held.popitem(last=False)
            self._total -= self._sizes.pop(key)
