"""Who may come in: plain requests that show a key, while the service is not stopping."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Collection

from starlette.responses import Response

from hetune.service.core.keys.access import Access
from hetune.service.http.asgi import Scope, header
from hetune.service.http.problems import routing_problem, stopping_problem
from hetune.service.http.route_scopes import is_public, needs_of
from hetune.service.pages.page_requests import is_own, is_page
from hetune.service.pages.sessions import Sessions
from hetune.variants.errors import AccessError, HetuneError

_BOTH = {b"content-length", b"transfer-encoding"}
_SINGLE = (b"origin", b"sec-fetch-site", b"content-type")
"""Of two, `header` would see none. So it does of two keys or cookies, which let nobody in."""
_BAD, _FORBIDDEN, _MISDIRECTED = 400, 403, 421
STILL_ANSWERED = frozenset({"/healthz", "/v1/health/live", "/v2/health/live"})
"""A service that stops is alive, but not ready any more."""
_log = logging.getLogger(__name__)


class Guard:
    """Denies by default: every request needs a key that is for it, but where `NEEDS` wants none.

    Args:
        access: Who is let in.
        hosts: Names that requests may call the service by; None for any. Without a key this keeps
            web pages from reaching a service on the user's machine under a name of their own.
        sessions: Of browsers that have shown a key, for pages.
        stopping: Set when the service is told to stop: only probes are let in from then on.
    """

    def __init__(
        self,
        access: Access,
        hosts: Collection[str] | None,
        sessions: Sessions,
        stopping: threading.Event,
    ) -> None:
        self._access, self._hosts = access, hosts
        self._sessions, self._stopping = sessions, stopping

    def refusal(self, scope: Scope) -> Response | None:
        """What to answer instead of letting a request in; None where it may come in.

        Raises:
            AccessError: Its key is missing, wrong or not enough.
            FolderError: The keys cannot be read.
        """
        ambiguity = _ambiguity(scope)
        if ambiguity is not None:
            found = routing_problem(_BAD, ambiguity, scope)
            found.headers["Connection"] = "close"
            return found
        if self._stopping.is_set() and scope["path"] not in STILL_ANSWERED:
            return stopping_problem(scope)
        return self._denial(scope)

    def check_again(self, scope: Scope) -> None:
        """Looks again at a request that was let in, with the key or session that it came with.

        Raises:
            AccessError: It may not go on.
            FolderError: The keys cannot be read.
        """
        try:
            self._denial(scope)
        except HetuneError as error:
            _log.warning("request %s ends early: %s", scope["state"]["request_id"], error)
            raise

    def _denial(self, scope: Scope) -> Response | None:
        host, origin = header(scope, b"host"), header(scope, b"origin")
        if not self._is_addressed(host):
            return routing_problem(
                _MISDIRECTED, "the service does not answer under this host name", scope
            )
        if is_page(scope["path"]) and not is_own(scope):
            return routing_problem(_FORBIDDEN, "this is no form of one of these pages", scope)
        is_open = self._access.is_open
        # A web page of somebody else's may use its reader's machine, and has no key.
        if is_open and origin is not None and origin.partition("://")[2] != host:
            return routing_problem(
                _FORBIDDEN, "the service does not answer pages of other origins", scope
            )
        if not is_open and not is_public(scope["method"], scope["path"]):
            caller = self._access.caller(_key_of(self._sessions.authorization(scope)))
            scope["state"]["key"] = caller.name
            caller.check(needs_of(scope["method"], scope["path"]))
        return None

    def _is_addressed(self, host: str | None) -> bool:
        if self._hosts is None:
            return True
        return host is not None and re.sub(r":\d+$", "", host).lower() in self._hosts


def _ambiguity(scope: Scope) -> str | None:
    """What two programs may read differently in a request, so that a proxy's view is not ours.

    That is: the length of the body twice, two hosts or none, two of another header that says who
    asks or what is sent, and a line without a version.
    """
    names = [name for name, _ in scope["headers"]]
    version, hosts = scope.get("http_version", "1.1"), names.count(b"host")
    if version == "0.9":
        return "send a request line that ends in HTTP/1.1"
    if hosts > 1 or (hosts == 0 and version != "1.0"):
        return "give one Host"
    for name in _SINGLE:
        if names.count(name) > 1:
            return f"give one {name.decode().title()}"
    if _BOTH.issubset(names):
        return "give Content-Length or Transfer-Encoding, not both"
    return None


def _key_of(authorization: str | None) -> str:
    scheme, _, key = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise AccessError("send the service's key: 'Authorization: Bearer <key>'")
    return key.strip()
