"""A private folder whose files are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from hetune.variants.errors import FolderError, ServiceError
from hetune.variants.registry.whole import sync_folder

_LOCK_SECONDS = 60.0
_STAGING = "staging"


class Folder:
    """Where the service keeps things. Several processes may share it.

    ```
    <root>/        0700
        lock       held while something is added or removed
        staging/   what is being received or written; empty when nothing is
        ...        files, published by renaming
    ```

    Args:
        root: Created if it is missing.

    Raises:
        FolderError: It cannot be created or written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        with self.io("create"):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            (root / _STAGING).mkdir(mode=0o700, exist_ok=True)
        self._lock = FileLock(root / "lock", timeout=_LOCK_SECONDS)

    @contextmanager
    def staged(self) -> Iterator[Path]:
        """A name for a new file; what is still there in the end is removed."""
        path = self.root / _STAGING / secrets.token_hex(16)
        try:
            with self.io("write"):
                yield path
        finally:
            path.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Held alone, among all processes, while it lasts."""
        try:
            with self._lock:
                yield
        except Timeout:
            raise FolderError(
                f"{self._lock.lock_file} was held by another process for {_LOCK_SECONDS:.0f} "
                "seconds: end that process, or try again"
            ) from None

    def publish(self, content: bytes, path: Path) -> None:
        """Writes a file, whole or not at all, in place of one that may be there.

        Raises:
            FolderError: It cannot be written.
        """
        with self.staged() as draft:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            path.parent.mkdir(mode=0o700, exist_ok=True)
            draft.replace(path)
            sync_folder(path.parent)

    @contextmanager
    def io(self, verb: str) -> Iterator[None]:
        """Turns the system's errors into ours, but for a file that is not there."""
        try:
            yield
        except (ServiceError, FileNotFoundError):
            raise
        except OSError as error:
            raise FolderError(
                f"cannot {verb} the folder {self.root} ({error.strerror or error}): make it "
                "writable, free some space, or name another one"
            ) from error
