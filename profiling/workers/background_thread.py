"""What goes on in a thread of its own for as long as a `with` block lasts."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from typing import Self

from hetune.profiling.closeable import Closeable

_PATIENCE_SECONDS = 15.0
_log = logging.getLogger(__name__)


class BackgroundThread(Closeable):
    """Begins with the block, and is waited for at its end, but for no longer than 15 seconds.

    What hangs then, such as a database that does not answer, is left to the end of the process.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return super().__enter__()

    def end(self) -> None:
        """Tells it to end, and does not wait."""
        self._over.set()

    def close(self) -> None:
        """Ends it."""
        self.end()
        self._thread.join(_PATIENCE_SECONDS)
        if self._thread.is_alive():
            _log.warning("%s has not ended within %g s", self._thread.name, _PATIENCE_SECONDS)

    @abstractmethod
    def _keep(self) -> None:
        """Goes on until it is over."""
