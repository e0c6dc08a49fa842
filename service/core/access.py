"""Who is let in."""

from __future__ import annotations

import hmac

from hetune.service.core.keys import ROOT, Keys, digest_of
from hetune.service.core.scopes import Caller, Scope
from hetune.variants.errors import AccessError, InputError

_ROOT = Caller(ROOT, frozenset({Scope.admin}))


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
        if root is not None and not (root and root.isascii() and root.isprintable()):
            raise InputError("the service's key has characters that no header can hold: change it")
        self._keys = keys
        self._root = None if root is None else digest_of(root)
        self._is_closed = root is not None
        self._is_closed = not self.is_open

    @property
    def is_open(self) -> bool:
        """Whether everybody is let in.

        Raises:
            FolderError: The keys cannot be read.
        """
        if not self._is_closed:
            self._is_closed = bool(self._keys.all())
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
