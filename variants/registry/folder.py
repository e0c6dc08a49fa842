"""The registry's folder: binaries and manifests, written so that nothing can leave it half done.

```
<root>/                 0700
    <key>.so            a binary; its modification time is the time of its last use
    <key>.json          its manifest, written last: without it the binary does not exist
    locks/<3 digits>    a lock for all keys that start so; held while an entry changes
    staging/<key>.*/    where a build works; whoever holds the key's lock may sweep it
    quarantine/         binaries that failed a check, the newest few
```
Readers take no lock: a manifest is retracted before its binary changes, and a reader that meets a
mismatch looks again under the lock.
"""

import errno
import hashlib
import logging
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from hetune.variants.errors import RegistryError
from hetune.variants.registry.atomic_files import ROOM, sync_folder
from hetune.variants.registry.records import KernelManifest

_log = logging.getLogger(__name__)
_KEY = re.compile(r"[0-9a-f]{64}")
_LOCK_SECONDS = 600.0
_QUARANTINE_KEPT = 16


class FolderUnusableError(RegistryError):
    """The folder cannot be written just now (full, read-only); kernels can do without it."""


class DamagedEntryError(Exception):
    """An entry is not what its manifest says; the text is the reason."""


class KernelFolder:
    """Entries on disk, by key. Creating the object does no I/O."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._locks = root / "locks"
        self._staging = root / "staging"
        self._quarantine = root / "quarantine"

    def binary(self, key: str) -> Path:
        """Where the binary of a key is, or would be."""
        return self.root / f"{key}.so"

    def manifest(self, key: str) -> Path:
        """Where the manifest of a key is, or would be."""
        return self.root / f"{key}.json"

    def exists(self) -> bool:
        """Whether there is such a folder.

        Raises:
            RegistryError: there is, but others could put binaries into it.
        """
        with self._io("look into"):
            try:
                status = self.root.stat()
            except (FileNotFoundError, NotADirectoryError):
                return False
        if not stat.S_ISDIR(status.st_mode):
            return False
        if status.st_uid != os.geteuid():
            raise RegistryError(
                f"the kernel registry {self.root} belongs to user {status.st_uid}, not to you "
                f"(user {os.geteuid()}), so its binaries are not trusted: set HETUNE_CACHE to a "
                "folder of your own"
            )
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise RegistryError(
                f"the kernel registry {self.root} can be written by others (mode "
                f"{stat.S_IMODE(status.st_mode):04o}), so its binaries are not trusted: "
                f"empty it and run `chmod 700 {self.root}`, or set HETUNE_CACHE to another folder"
            )
        return True

    def prepare(self) -> None:
        """Create the folder, private to this user.

        Raises:
            RegistryError: it exists, but others can write to it.
            FolderUnusableError: it cannot be created.
        """
        with self._io("create"):
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.exists()
            if stat.S_IMODE(self.root.stat().st_mode) & 0o077:
                self.root.chmod(0o700)  # others could only read it, so what it holds is ours
            for folder in (self._locks, self._staging, self._quarantine):
                folder.mkdir(mode=0o700, exist_ok=True)

    def check_room(self) -> None:
        """Checks that a small file could be written.

        Raises:
            RegistryError: as `prepare`.
            FolderUnusableError: it cannot.
        """
        self.prepare()
        with self._io("write"), tempfile.TemporaryFile(dir=self._staging) as file:
            file.write(bytes(ROOM))

    @contextmanager
    def lock(self, key: str, *, wait: bool = True) -> Iterator[bool]:
        """Hold the lock of a key; yields False if it is busy and `wait` is off."""
        lock = FileLock(self._locks / key[:3], timeout=_LOCK_SECONDS if wait else 0)
        try:
            with self._io("lock"):
                lock.acquire()
        except NotImplementedError:
            raise FolderUnusableError(
                f"the file system of the kernel registry {self.root} has no locks: set "
                "HETUNE_CACHE to a folder on a local disk"
            ) from None
        except Timeout:
            if not wait:
                yield False
                return
            raise FolderUnusableError(
                f"the kernel registry {self.root} is busy: another process has held "
                f"{lock.lock_file} for {_LOCK_SECONDS:g} s: end it, or set HETUNE_CACHE to another "
                "folder"
            ) from None
        try:
            yield True
        finally:
            lock.release()

    def read(self, key: str) -> KernelManifest | None:
        """The checked manifest of a key, or None where there is no entry.

        Raises:
            DamagedEntryError: as `read_binary`.
        """
        found = self.read_binary(key)
        return None if found is None else found[0]

    def read_binary(self, key: str) -> tuple[KernelManifest, bytes] | None:
        """The manifest of a key and the bytes that it vouches for; None where there is no entry.

        Raises:
            DamagedEntryError: the entry is damaged, or is changing right now: look again
                under the lock.
        """
        with self._io("read"):
            try:
                text = self.manifest(key).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None
            try:
                manifest = KernelManifest.from_json(text.decode("utf-8"))
            except ValueError as error:
                raise DamagedEntryError(f"its manifest cannot be read ({error})") from None
            if manifest.key != key:
                raise DamagedEntryError("its manifest is that of another kernel")
            try:
                data = self.binary(key).read_bytes()
            except FileNotFoundError:
                raise DamagedEntryError("its binary is missing") from None
        if len(data) != manifest.bytes:
            raise DamagedEntryError(f"it has {len(data)} bytes instead of {manifest.bytes}")
        if hashlib.sha256(data).hexdigest() != manifest.sha256:
            raise DamagedEntryError("its SHA-256 is not the manifest's")
        return manifest, data

    def list_keys(self) -> list[str]:
        """Keys of all entries and of binaries without a manifest, sorted."""
        if not self.exists():
            return []
        with self._io("list"):
            names = {p.stem for p in self.root.iterdir() if p.suffix in (".so", ".json")}
        return sorted(name for name in names if _KEY.fullmatch(name))

    def size(self) -> int:
        """Bytes of all the binaries."""
        total = 0
        with self._io("list"):
            for path in self.root.glob("*.so"):
                with suppress(FileNotFoundError):  # another process has just removed it
                    total += path.stat().st_size
        return total

    def touch(self, key: str) -> None:
        """Note that a key is used now; does nothing in a read-only folder."""
        try:
            os.utime(self.binary(key))
        except OSError:
            _log.debug("cannot note the use of %s", key)

    @contextmanager
    def stage(self, key: str) -> Iterator[Path]:
        """A private folder to build a key in; the caller holds the key's lock."""
        with self._io("write"):
            for stale in self._staging.glob(f"{key}.*"):
                shutil.rmtree(stale, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(dir=self._staging, prefix=f"{key}."))
        try:
            with self._io("write"):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, manifest: KernelManifest, staged: Path) -> None:
        """Move a staged binary into place; the caller holds the key's lock."""
        with self._io("write"):
            sync_folder(staged)
            self.manifest(manifest.key).unlink(missing_ok=True)
            staged.replace(self.binary(manifest.key))
            draft = staged.with_suffix(".json")
            draft.write_text(manifest.to_json(), encoding="utf-8")
            sync_folder(draft)
            draft.replace(self.manifest(manifest.key))
            sync_folder(self.root)

    def quarantine(self, key: str, reason: str) -> None:
        """Put a bad entry aside; the caller holds the key's lock."""
        _log.warning(
            "the compiled kernel %s is damaged (%s): moved to %s, and it will be compiled again",
            self.binary(key),
            reason,
            self._quarantine,
        )
        with self._io("write"):
            self._quarantine.mkdir(mode=0o700, exist_ok=True)
            stamp = time.time_ns()
            for path in (self.manifest(key), self.binary(key)):
                if path.exists():
                    path.replace(self._quarantine / f"{stamp}-{path.name}")
            kept = sorted(self._quarantine.iterdir(), reverse=True)
            for old in kept[2 * _QUARANTINE_KEPT :]:
                old.unlink(missing_ok=True)

    def remove(self, key: str) -> None:
        """Delete an entry; the caller holds the key's lock."""
        with self._io("write"):
            self.manifest(key).unlink(missing_ok=True)
            self.binary(key).unlink(missing_ok=True)

    def sweep(self) -> int:
        """Delete what killed builds have left behind; how many of them there were."""
        swept = 0
        with self._io("sweep"):
            leftovers = list(self._staging.iterdir()) if self._staging.is_dir() else []
        for path in leftovers:
            key = path.name.partition(".")[0]
            if not _KEY.fullmatch(key):
                continue
            with self.lock(key, wait=False) as mine:
                if mine and path.exists():
                    shutil.rmtree(path, ignore_errors=True)
                    swept += 1
        return swept

    @contextmanager
    def _io(self, verb: str) -> Iterator[None]:
        """Turn the system's errors into ours, with the way to mend them."""
        try:
            yield
        except (RegistryError, Timeout):
            raise
        except OSError as error:
            raise FolderUnusableError(
                f"cannot {verb} the kernel registry {self.root} ({error.strerror or error}): "
                f"{_mend(error)}"
            ) from error


def _mend(error: OSError) -> str:
    other = "set HETUNE_CACHE to another folder"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"free some space (`hetune registry gc`), or {other}"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"make it writable, or {other}"
    return other
