"""A private folder whose files are there whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from hetune.service.core.storage.outage import OutageLog
from hetune.variants.errors import DiskFullError, FolderError, HetuneError
from hetune.variants.registry.atomic_files import ROOM, sync_folder

_LOCK_SECONDS = 60.0
_STAGING = "staging"
_HOLDERS = "holders"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Folder:
    """Where the service keeps things. Several processes may share it.

    ```
    <root>/        0700
        lock       held while something is added or removed
        staging/   what is being received or written; empty when nothing is
        holders/   a locked file for each who has the folder open; when it is opened again, what is
                   left in staging/ of those who were killed goes
        ...        files, published by renaming
    ```

    Args:
        root: Created if it is missing.

    Raises:
        FolderError: It cannot be created or written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._full = OutageLog(
            DiskFullError, f"the folder {root} is full", f"there is space again for {root}"
        )
        with self.io("create", may_miss=False):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self._staging, self._holders):
                folder.mkdir(mode=0o700, exist_ok=True)
        self._lock = FileLock(root / "lock", timeout=_LOCK_SECONDS)
        self._name = secrets.token_hex(16)
        self._held = FileLock(self._holders / self._name, thread_local=False)
        with self.locked(), self.io("create", may_miss=False):
            self._held.acquire()
            self._sweep()

    @contextmanager
    def staged(self) -> Iterator[Path]:
        """A name for a new file; what is still there in the end is removed.

        Raises:
            FolderError: It cannot be written.
        """
        path = self._staging / f"{self._name}-{secrets.token_hex(16)}"
        with self.io("write", may_miss=False):
            try:
                yield path
            finally:
                path.unlink(missing_ok=True)

    def check_room(self) -> None:
        """Checks that a small file could be written.

        Raises:
            DiskFullError: There is no space.
            FolderError: It cannot be written.
        """
        self._full.ended_by(self._write_little)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Held alone, among all processes, while it lasts."""
        with self.io("lock", may_miss=False):
            try:
                self._lock.acquire()
            except Timeout:
                raise FolderError(
                    f"{self._lock.lock_file} was held by another process for {_LOCK_SECONDS:.0f} "
                    "seconds: end that process, or try again"
                ) from None
        try:
            yield
        finally:
            self._lock.release()

    def publish(self, content: bytes | Iterable[bytes | memoryview], path: Path) -> None:
        """Writes a file, whole or not at all, in place of one that may be there.

        Args:
            content: Its bytes, or pieces of them.
            path: In the folder, or in one below it, which is created if it is missing.

        Raises:
            FolderError: It cannot be written.
        """
        with self.staged() as draft:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.writelines((content,) if isinstance(content, bytes) else content)
                file.flush()
                os.fsync(file.fileno())
            path.parent.mkdir(mode=0o700, exist_ok=True)
            draft.replace(path)
            sync_folder(path.parent)
            if path.parent != self.root:  # it may have been created just now
                sync_folder(self.root)

    def remove(self, path: Path) -> None:
        """Deletes a file of the folder, or of one below it, for good.

        Raises:
            FileNotFoundError: It is not there.
            FolderError: It cannot be deleted.
        """
        with self.io("write"):
            path.unlink()
            sync_folder(path.parent)

    @contextmanager
    def io(self, verb: str, *, may_miss: bool = True) -> Iterator[None]:
        """Turns the system's errors into ours, but for a file that is not there and may be missing.

        Raises:
            DiskFullError: There is no space.
            FolderError: Anything else is in the way.
        """
        try:
            yield
        except OSError as error:
            is_missing = may_miss and isinstance(error, FileNotFoundError)
            if is_missing or isinstance(error, HetuneError):
                raise
            if error.errno in _FULL:
                full = DiskFullError(
                    "no space is left on the service's disk: delete graphs or models that are not "
                    "needed, or free some space"
                )
                self._full.record(full)
                raise full from error
            raise FolderError(
                f"cannot {verb} the folder {self.root} ({error.strerror or error}): make it "
                "writable, free some space, or name another one"
            ) from error

    def _write_little(self) -> None:
        with self.staged() as path:
            path.write_bytes(bytes(ROOM))

    @property
    def _staging(self) -> Path:
        return self.root / _STAGING

    @property
    def _holders(self) -> Path:
        return self.root / _HOLDERS

    def _sweep(self) -> None:
        """Removes what is left of those who hold their locks no more: they were killed."""
        held = set()
        for path in self._holders.iterdir():
            try:
                with FileLock(path, timeout=0):
                    path.unlink(missing_ok=True)
            except Timeout:
                held.add(path.name)
        for path in self._staging.iterdir():
            if path.name.partition("-")[0] not in held:
                path.unlink(missing_ok=True)
