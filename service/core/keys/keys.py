"""Keys of a service: a file of names, scopes and digests. No secret is kept."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from pydantic import AwareDatetime

from hetune.service.core.formats.documents import Document, parse
from hetune.service.core.keys.scopes import KeyScope
from hetune.variants.errors import (
    ConflictError,
    FolderError,
    InputError,
    NotFoundError,
    NotReadyError,
)
from hetune.variants.registry.atomic_files import write_atomically
from hetune.variants.registry.sealed_json import sealed, unsealed

FILE = "keys.json"
"""Name of the file in a service's folder."""
ROOT = "root"
"""What the key of HETUNE_API_KEY is called; no other one is."""
_log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FORM = re.compile(r"hetune_([0-9a-f]{16})_[0-9a-f]{64}")
_ID_BYTES, _SECRET_BYTES = 8, 32
_LOCK_SECONDS = 10.0
_NOBODY = bytes(hashlib.sha256().digest_size).hex()


class Key(Document):
    """A key, without its secret.

    Attributes:
        id: Stands in the key itself, in the clear, so that it is found by it.
        name: For people and logs.
        scopes: What it is for.
        digest: SHA-256 of the whole key, in hex.
        created: When.
        expires: From when it is refused; never if None.
        revoked: Since when it is refused.
    """

    id: str
    name: str
    scopes: tuple[KeyScope, ...]
    digest: str
    created: AwareDatetime
    expires: AwareDatetime | None = None
    revoked: AwareDatetime | None = None

    def trouble(self, now: datetime) -> str | None:
        """Why the key is refused at a time; None if it is not."""
        if self.revoked is not None:
            return f"was revoked on {_day(self.revoked)}"
        if self.expires is not None and now >= self.expires:
            return f"expired on {_day(self.expires)}"
        return None


class _Content(Document):
    version: Literal[1] = 1
    keys: tuple[Key, ...] = ()


class Keys:
    """The keys in a file. Processes may share it: what one changes, all others see at once.

    Args:
        path: The file; it need not exist, and its folder not before a key is made.
        clock: Tells the time in UTC.
    """

    def __init__(
        self, path: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.path = path
        self._clock = clock
        self._trouble = ""
        self._seen: tuple[tuple[int, ...] | None, tuple[Key, ...]] = (None, ())

    def now(self) -> datetime:
        """The time by which keys expire."""
        return self._clock()

    def all(self) -> tuple[Key, ...]:
        """All that were made, revoked ones too, the oldest first. Reads what has changed only.

        Raises:
            FolderError: The file cannot be read, or is damaged.
        """
        with self._io("read"):
            try:
                if _identity(self.path.stat()) == self._seen[0]:
                    return self._seen[1]
                with self.path.open("rb") as file:
                    identity = _identity(os.fstat(file.fileno()))
                    keys = _read(file.read())
            except FileNotFoundError:
                return ()
            except (ValueError, RecursionError) as error:
                raise FolderError(
                    f"{self.path} holds no keys ({error}): restore it, or delete it and make new "
                    "ones"
                ) from error
        self._seen = identity, keys
        return keys

    def check_readable(self) -> None:
        """Checks that they can be read; why they cannot is logged once.

        Raises:
            NotReadyError: They cannot.
        """
        try:
            self.all()
        except FolderError as error:
            if str(error) != self._trouble:
                _log.error("nobody but the root key gets in: %s", error)
            self._trouble = str(error)
            raise NotReadyError(
                "the service's keys cannot be read: its log has the reason"
            ) from error
        self._trouble = ""

    def find(self, secret: str) -> Key | None:
        """The key that this is the secret of, revoked and expired ones too.

        It takes as long for a secret that is nearly right as for one that is all wrong.

        Raises:
            FolderError: As for `all`.
        """
        match = _FORM.fullmatch(secret)
        id = match[1] if match else ""
        found = next((key for key in self.all() if key.id == id), None)
        right = hmac.compare_digest(digest_of(secret), found.digest if found else _NOBODY)
        return found if right else None

    def create(
        self, name: str, scopes: Collection[KeyScope], lasts: timedelta | None = None
    ) -> tuple[Key, str]:
        """Makes a key; gives it, and its secret, which nobody can find out later.

        Args:
            name: A plain word that no key has which is not revoked.
            scopes: What it is for; at least one.
            lasts: Until it expires; for ever if None.

        Raises:
            InputError: The name is none, there are no scopes, or it would have expired already.
            ConflictError: There is a key of that name.
            FolderError: The file cannot be read or written.
        """
        if not _NAME.fullmatch(name) or name == ROOT:
            raise InputError(
                f"{name!r} is no name for a key: take up to 64 letters, digits, dots, dashes and "
                f"underscores, and not {ROOT!r}"
            )
        if not scopes:
            raise InputError(f"a key needs a scope: one or more of {', '.join(KeyScope)}")
        now = self.now()
        try:
            expires = None if lasts is None else now + lasts
        except OverflowError:
            raise InputError("that is too far ahead: give less, or let it never expire") from None
        if expires is not None and expires <= now:
            raise InputError("the key would have expired already: give it more time")
        id = secrets.token_hex(_ID_BYTES)
        secret = f"hetune_{id}_{secrets.token_hex(_SECRET_BYTES)}"
        key = Key(
            id=id,
            name=name,
            scopes=tuple(scope for scope in KeyScope if scope in scopes),
            digest=digest_of(secret),
            created=now,
            expires=expires,
        )
        with self._changing() as keys:
            if any(other.name == name and other.revoked is None for other in keys):
                raise ConflictError(f"there is a key {name!r}: revoke it, or take another name")
            keys.append(key)
        return key, secret

    def revoke(self, which: str) -> Key:
        """Refuses a key from now on.

        Args:
            which: Its name or id.

        Raises:
            NotFoundError: There is none, or it is revoked already.
            FolderError: The file cannot be read or written.
        """
        with self._changing() as keys:
            for index, key in enumerate(keys):
                if which in (key.name, key.id) and key.revoked is None:
                    keys[index] = key.model_copy(update={"revoked": self.now()})
                    return keys[index]
            raise NotFoundError(
                f"there is no key {which!r} that could be revoked: `hetune keys list` shows all"
            )

    @contextmanager
    def _changing(self) -> Iterator[list[Key]]:
        """All keys, to be changed, which is written if the block ends well."""
        lock = FileLock(self.path.with_suffix(".lock"), timeout=_LOCK_SECONDS, mode=0o600)
        with self._io("write"):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                with lock:
                    keys = list(self.all())
                    yield keys
                    content = sealed(_Content(keys=tuple(keys)).model_dump(mode="json"))
                    write_atomically(self.path, f"{json.dumps(content, indent=2)}\n".encode())
            except Timeout:
                raise FolderError(
                    f"{lock.lock_file} was held by another process for {_LOCK_SECONDS:.0f} "
                    "seconds: end that process, or try again"
                ) from None

    @contextmanager
    def _io(self, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, FolderError):
                raise
            raise FolderError(
                f"cannot {verb} the keys in {self.path} ({error.strerror or error}): make it "
                "accessible, or name another folder"
            ) from error


def _read(text: bytes) -> tuple[Key, ...]:
    """The keys of a file; raises ValueError where it holds none, or is damaged."""
    return parse(_Content, json.dumps(unsealed(json.loads(text)))).keys


def digest_of(secret: str) -> str:
    """What is kept of a key.

    SHA-256 without salt or stretching is enough for 256 random bits, which nobody guesses, and
    quick enough for every request.
    """
    return hashlib.sha256(secret.encode("latin-1", "replace")).hexdigest()


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """Differs for every file that was ever published there."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
