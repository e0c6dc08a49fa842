"""Who is let in."""

from __future__ import annotations

import hmac
import re

from hetune.service.core.keys.keys import ROOT, Keys, digest_of
from hetune.service.core.keys.scopes import Caller, KeyScope
from hetune.variants.errors import AccessError, FolderError, InputError

_FORM = re.compile(r"[!-~]([ -~]*[!-~])?")
SHORTEST = 16
"""Characters of a root key that is not guessed."""
_ROOT = Caller(ROOT, frozenset({KeyScope.admin}))


class Access:
    """Tells whose key was sent.

    A service without any key is open. It is closed as soon as it has one, and stays so until it
    ends, whatever becomes of the key: what was closed once opens by no accident.

    Args:
        keys: Those with scopes.
        root: One more that may do everything; None for none.

    Raises:
        InputError: The root key has characters that no header can hold.
        FolderError: The keys cannot be read.
    """

    def __init__(self, keys: Keys, root: str | None = None) -> None:
        if root is not None and not _FORM.fullmatch(root):
            raise InputError(
                "the root key is empty, or has spaces around it or characters that no header can "
                "hold: take letters and digits"
            )
        self._keys = keys
        self._root = None if root is None else digest_of(root)
        self._is_closed = root is not None or bool(keys.all())

    @property
    def is_open(self) -> bool:
        """Whether everybody is let in: not where the keys cannot be read, whatever they say."""
        if not self._is_closed:
            try:
                self._is_closed = bool(self._keys.all())
            except FolderError:
                self._is_closed = True
        return not self._is_closed

    def caller(self, key: str) -> Caller:
        """Whose key this is, also if it is one that is no longer good.

        Raises:
            AccessError: It is nobody's.
            FolderError: The keys cannot be read.
        """
        if self._root is not None and hmac.compare_digest(digest_of(key), self._root):
            return _ROOT
        found = self._keys.find(key)
        if found is None:
            raise AccessError("the key is none of this service's: check it")
        return Caller(found.name, frozenset(found.scopes), found.trouble(self._keys.now()))

    def is_good(self, key: str) -> bool:
        """Whether this is the key of somebody who is let in, for whatever it is.

        Raises:
            FolderError: The keys cannot be read.
        """
        try:
            return self.caller(key).trouble is None
        except AccessError:
            return False


def weakness(root: str | None) -> str | None:
    """What is wrong with a root key that somebody may guess; None if nothing is."""
    if root is None or len(root) >= SHORTEST:
        return None
    return (
        f"the root key has {len(root)} character{'s' * (len(root) != 1)}, and may be guessed: take "
        f"{SHORTEST} or more at random, such as by `openssl rand -hex 32`"
    )
