"""What is told of every request, in metrics and a line of the log: nothing that a client sent."""

from __future__ import annotations

import logging
import math
import time

from hetune.service.core.inference.metrics import Metrics
from hetune.service.http.asgi import Scope
from hetune.service.http.route_scopes import is_public
from hetune.variants.errors import BusyError

UNMATCHED = "none"
"""The template of requests that led to no route, or were refused before."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER = "other"
_BUSY = BusyError.__name__
_APART_SECONDS = 1.0
"""Between lines about refusals."""
_log = logging.getLogger("hetune.access")


class RequestObserver:
    """Counts, times and logs requests.

    Probes that go well are logged for debugging only. So are requests that are refused because too
    much is under way, lest there be more of it: one line a second tells how many they were.

    Args:
        metrics: Where requests are counted and timed.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._busy = _Busy()

    def record(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        """A request that was answered.

        Args:
            scope: The request's.
            status: Of its answer.
            size: Bytes of the answer's body.
            seconds: That it took.
        """
        method = scope["method"] if scope["method"] in METHODS else _OTHER
        route, failure = template_of(scope), scope["state"].get("failure")
        label = route if route == UNMATCHED else f"{method} {route}"
        self._metrics.answered(label, status, seconds)
        if failure is not None:
            self._metrics.failures.labels(failure).inc()
        self._busy.count(failure == _BUSY)
        is_quiet = failure == _BUSY or (failure is None and is_public(method, scope["path"]))
        level = logging.DEBUG if is_quiet else logging.INFO
        if not _log.isEnabledFor(level):
            return
        fields = {
            "method": method,
            "route": route,
            "status": status,
            "seconds": round(seconds, 6),
            "bytes": size,
        }
        if failure is not None:
            fields["failure"] = failure
        caller = scope["state"].get("key")
        if caller is not None:
            fields["key"] = caller
        text = "%s %s: %d, %d bytes in %.6f s%s"
        args = method, route, status, size, seconds, "" if caller is None else f", key {caller}"
        # As `log` does, without finding the line of code, which the log does not show.
        _log.handle(_log.makeRecord(_log.name, level, "", 0, text, args, None, extra=fields))


class _Busy:
    """Tells of requests that are refused while too much is under way."""

    def __init__(self) -> None:
        self._count, self._told = 0, -math.inf

    def count(self, is_refused: bool) -> None:
        """Counts a request, if it is one, and tells of all since the last line if that is due."""
        self._count += is_refused
        if self._count and (now := time.monotonic()) - self._told >= _APART_SECONDS:
            text = "%d requests refused: too many are under way"
            _log.warning(text, self._count, extra={"failure": _BUSY})
            self._count, self._told = 0, now


def template_of(scope: Scope) -> str:
    """The path of the route that a request was led to, with parameters by name.

    Args:
        scope: Of a request that was answered.
    """
    if "endpoint" not in scope:
        return UNMATCHED
    if not scope.get("path_params"):
        return str(scope["path"])
    # FastAPI's newer versions keep the whole path of a route beside it, older ones in it.
    route = scope.get("fastapi", {}).get("effective_route_context") or scope.get("route")
    return str(getattr(route, "path_format", UNMATCHED))
