"""What each route asks of a key. The only place that says so.

A route that is not here asks for admin, as do paths that lead nowhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from re import Pattern

from starlette.routing import compile_path

from hetune.service.core.keys.scopes import KeyScope, Need

_NOTHING: Need = None
_INFER: Need = frozenset({KeyScope.infer})
_PROFILE: Need = frozenset({KeyScope.profile})
_EITHER: Need = frozenset({KeyScope.infer, KeyScope.profile})
_METRICS: Need = frozenset({KeyScope.metrics})
_ADMIN: Need = frozenset()

NEEDS: Mapping[str, Need] = {
    "GET /v1/health/live": _NOTHING,
    "GET /v1/health/ready": _NOTHING,
    "GET /healthz": _NOTHING,
    "GET /readyz": _NOTHING,
    "GET /v1/openapi.json": _EITHER,
    "GET /metrics": _METRICS,
    # Graphs have no owner, and the quota deletes them, too.
    "POST /v1/graphs": _INFER,
    "GET /v1/graphs": _INFER,
    "GET /v1/graphs/{id}": _INFER,
    "PATCH /v1/graphs/{id}": _INFER,
    "DELETE /v1/graphs/{id}": _INFER,
    "PUT /v1/graphs/{id}/features/{name}": _INFER,
    "GET /v1/graphs/{id}/features": _INFER,
    "GET /v1/graphs/{id}/features/{name}": _INFER,
    "DELETE /v1/graphs/{id}/features/{name}": _INFER,
    "GET /v1/models": _INFER,
    "GET /v1/models/{name}": _INFER,
    "GET /v1/models/{name}/versions/{version}": _INFER,
    "POST /v1/models/{name}/infer": _INFER,
    "POST /v1/models/{name}/select": _INFER,
    "POST /v1/models/{name}/score": _INFER,
    "POST /v1/models/{name}/top-k": _INFER,
    "POST /v1/runs": _INFER,
    "GET /v1/runs": _INFER,
    "GET /v1/runs/{id}": _INFER,
    "DELETE /v1/runs/{id}": _INFER,
    "GET /v1/runs/{id}/rows": _INFER,
    # A new version is what everybody gets who asks for the latest.
    "PUT /v1/models/{name}/versions/{version}": _ADMIN,
    "DELETE /v1/models/{name}/versions/{version}": _ADMIN,
    "PUT /v1/models/{name}/aliases/{alias}": _ADMIN,
    "DELETE /v1/models/{name}/aliases/{alias}": _ADMIN,
    "PUT /v1/graphs/{id}/pin": _INFER,
    "DELETE /v1/graphs/{id}/pin": _INFER,
    "GET /v1/registry": _ADMIN,
    "GET /v1/variants": _EITHER,
    "POST /v1/profiling/jobs": _PROFILE,
    "GET /v1/profiling/jobs": _PROFILE,
    "GET /v1/profiling/jobs/{id}": _PROFILE,
    "DELETE /v1/profiling/jobs/{id}": _PROFILE,
    "GET /v1/profiling/jobs/{id}/log": _PROFILE,
    "GET /v1/profiling/jobs/{id}/events": _PROFILE,
    "GET /v1/profiling/jobs/{id}/results": _PROFILE,
    "GET /v1/cost-models": _PROFILE,
    "GET /v1/cost-models/{id}": _PROFILE,
    "GET /v1/cost-models/{id}/card": _PROFILE,
    "POST /v1/cost-models/{id}/promote": _ADMIN,
    "POST /v1/cost-models/rollback": _ADMIN,
    "GET /v2": _EITHER,
    "GET /v2/": _EITHER,
    "GET /v2/health/live": _NOTHING,
    "GET /v2/health/ready": _NOTHING,
    "GET /v2/models/stats": _INFER,
    "GET /v2/models/{name}": _INFER,
    "GET /v2/models/{name}/config": _INFER,
    "GET /v2/models/{name}/ready": _INFER,
    "GET /v2/models/{name}/stats": _INFER,
    "POST /v2/models/{name}/infer": _INFER,
    "GET /v2/models/{name}/versions/{version}": _INFER,
    "GET /v2/models/{name}/versions/{version}/config": _INFER,
    "GET /v2/models/{name}/versions/{version}/ready": _INFER,
    "GET /v2/models/{name}/versions/{version}/stats": _INFER,
    "POST /v2/models/{name}/versions/{version}/infer": _INFER,
    "POST /v2/repository/index": _INFER,
    "POST /v2/repository/models/{name}/load": _ADMIN,
    "POST /v2/repository/models/{name}/unload": _ADMIN,
    # Pages, for browsers: what it takes to ask for a key, and then as above.
    "GET /ui/static/{name}": _NOTHING,
    "POST /ui/theme": _NOTHING,
    "GET /ui/login": _NOTHING,
    "POST /ui/login": _NOTHING,
    "POST /ui/logout": _NOTHING,
    "GET /": _EITHER,
    "GET /ui/graphs": _INFER,
    "GET /ui/graphs/{id}": _INFER,
    "GET /ui/models": _INFER,
    "GET /ui/models/{name}": _INFER,
    "POST /ui/models/{name}/measure": _INFER,
    "POST /ui/models/{name}/load": _ADMIN,
    "POST /ui/models/{name}/unload": _ADMIN,
    "GET /ui/jobs": _PROFILE,
    "POST /ui/jobs": _PROFILE,
    "GET /ui/jobs/{id}": _PROFILE,
    "POST /ui/jobs/{id}/cancel": _PROFILE,
    "GET /ui/jobs/{id}/events": _PROFILE,
    "GET /ui/cost-models": _PROFILE,
    "GET /ui/cost-models/{id}": _PROFILE,
    "GET /ui/cost-models/{id}/pictures/{name}": _PROFILE,
    "POST /ui/cost-models/{id}/promote": _ADMIN,
    "POST /ui/cost-models/rollback": _ADMIN,
    "GET /ui/playground": _INFER,
    "POST /ui/playground": _INFER,
}
"""What is needed for a method and a path, whose parameters are named as in the route."""

_OFTEN_LENGTH = 256
"""Paths up to this length are remembered."""
_PLACES: defaultdict[str, list[tuple[Pattern[str], Need]]] = defaultdict(list)
for _route, _need in NEEDS.items():
    _method, _, _template = _route.partition(" ")
    _PLACES[_method].append((compile_path(_template)[0], _need))


def needs_of(method: str, path: str) -> tuple[Need, ...]:
    """What a request needs: all of these, for several templates may fit its path.

    Args:
        method: Of the request; HEAD needs what GET does.
        path: Its decoded path, in which routes are looked up, too.
    """
    return _needs_again(method, path) if len(path) <= _OFTEN_LENGTH else _needs(method, path)


def is_public(method: str, path: str) -> bool:
    """Whether a request needs no key."""
    needs = needs_of(method, path)
    return needs.count(None) == len(needs)


def _needs(method: str, path: str) -> tuple[Need, ...]:
    places = _PLACES.get("GET" if method == "HEAD" else method, ())
    return tuple(need for pattern, need in places if pattern.match(path)) or (_ADMIN,)


_needs_again = lru_cache(maxsize=1024)(_needs)
