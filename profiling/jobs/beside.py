"""What goes on in a thread of its own for as long as a `with` block lasts."""

from __future__ import annotations

import threading
from abc import abstractmethod
from typing import Self

from hetune.profiling.closing import Closing


class Beside(Closing):
    """Begins with the block, and is waited for at its end.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return super().__enter__()

    def close(self) -> None:
        """Ends it."""
        self._over.set()
        self._thread.join()

    @abstractmethod
    def _keep(self) -> None:
        """Goes on until it is over."""
