"""Browsers that have shown a key: what they hold is a number drawn at random, and no key."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Self

from hetune.service.http.asgi import Scope, header
from hetune.service.pages.page_requests import is_page

COOKIE = "hetune_session"
SECONDS = 12 * 3600
"""After so long a browser has to show the key again."""
_MOST = 1000
"""Of one key."""
_BYTES = 32


@dataclass(frozen=True, slots=True)
class _Session:
    key: str
    until: float


class Sessions:
    """Sessions of one service, in memory: they end with it. Safe with several threads.

    A key is held as long as its session, and looked at anew for each request: what becomes of the
    key becomes of the session.

    Args:
        is_key: Whether a key is good for anything.
        is_open: Whether everybody is let in without one.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        is_key: Callable[[str], bool],
        is_open: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_key, self._clock = is_key, clock
        self.is_open = is_open
        self._held: OrderedDict[bytes, _Session] = OrderedDict()
        self._mutex = threading.Lock()

    @classmethod
    def of_open_service(cls) -> Self:
        """Of a service that needs no key: there are none."""
        return cls(lambda _: False, lambda: True)

    def begin(self, key: str) -> str | None:
        """The id of a new session; None if the key is wrong. Of too many of a key, the oldest ends.

        Nobody's log-ins end sessions of another key.
        """
        if not self._is_key(key):
            return None
        id = secrets.token_urlsafe(_BYTES)
        now = self._clock()
        with self._mutex:
            # They are in the order in which they end.
            while self._held and next(iter(self._held.values())).until <= now:
                self._held.popitem(last=False)
            own = [digest for digest, session in self._held.items() if session.key == key]
            for digest in own[: len(own) - _MOST + 1]:
                del self._held[digest]
            self._held[_digest(id)] = _Session(key, now + SECONDS)
        return id

    def authorization(self, scope: Scope) -> str | None:
        """The header `Authorization` of a request; for a page, what its session stands for.

        Nothing but pages can be reached by a cookie, for browsers send it whoever asks.
        """
        given = header(scope, b"authorization")
        id = _id_of(scope)
        if given is not None or id is None or not is_page(scope["path"]):
            return given
        with self._mutex:
            found = self._held.get(_digest(id))
            if found is None or found.until <= self._clock():
                self._held.pop(_digest(id), None)
                return None
        return f"Bearer {found.key}"

    def end(self, scope: Scope) -> None:
        """Forgets a request's session, if it has one."""
        id = _id_of(scope)
        if id is not None:
            with self._mutex:
                self._held.pop(_digest(id), None)


def _id_of(scope: Scope) -> str | None:
    try:
        found = SimpleCookie(header(scope, b"cookie") or "").get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def _digest(id: str) -> bytes:
    """Looked up in place of the id, so that how long it takes says nothing about ids."""
    return hashlib.sha256(id.encode()).digest()
