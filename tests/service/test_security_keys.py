"""Every route, with and without keys of every kind: what comes in, what does not, what is told."""

import asyncio
import hmac
import html
import http.client
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import httpx
import pytest

from hetune.service.core.keys.access import Access
from hetune.service.core.keys.keys import FILE, Keys
from hetune.service.core.keys.scopes import KeyScope
from hetune.service.http import route_scopes
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.route_scopes import NEEDS, is_public, needs_of
from hetune.service.pages.page_requests import is_page
from hetune.service.pages.sessions import Sessions
from hetune.service.server.app import application, routes
from hetune.service.server.guard import Guard
from hetune.service.server.middleware import Middleware

from ._logs import logged
from ._routes import concrete, every_route
from ._serving import asking, make_service, serving

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
# Pages are refused otherwise: `tests/pages/test_access.py`.
ROUTES = [route.split(" ") for route in NEEDS if not is_page(route.split(" ")[1])]
GUARDED = [(method, path) for method, path in ROUTES if NEEDS[f"{method} {path}"] is not None]


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A service with a key of each scope, an expired and a revoked one, and a client of it."""
    service = make_service(tmp_path_factory.mktemp("data"))
    path = service.folder.root / FILE
    keys = Keys(path)
    secrets = {scope: keys.create(f"only-{scope}", [scope])[1] for scope in KeyScope}
    admin = [KeyScope.admin]
    expired = Keys(path, lambda: LONG_AGO).create("expired", admin, timedelta(days=1))[1]
    revoked = keys.create("revoked", admin)[1]
    keys.revoke("revoked")
    with (
        serving(application(service, key="sesame")) as url,
        httpx.Client(base_url=url, trust_env=False, headers={"Origin": url}, timeout=60) as client,
    ):
        yield SimpleNamespace(
            service=service, secrets=secrets, expired=expired, revoked=revoked, url=url, http=client
        )


def is_refused(response, status, kind):
    """Checks a refusal's form, which is that of the protocol, and gives what it says."""
    if is_page(response.url.path) and status == 401 and response.request.method == "GET":
        assert response.status_code == 303
        assert response.headers["location"].startswith("/ui/login?next=")
        return ""
    assert response.status_code == status, response.text
    scheme, _, more = response.headers["www-authenticate"].partition(" ")
    assert (scheme, more) == ("Bearer", 'error="insufficient_scope"' if status == 403 else "")
    if is_page(response.url.path):
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        return html.unescape(response.text)
    content = response.json()
    if f"{response.url.path}/".startswith("/v2/"):
        assert response.headers["content-type"] == "application/json"
        assert set(content) == {"error"}
        return content["error"]
    assert response.headers["content-type"] == "application/problem+json"
    assert (content["type"], content["status"]) == (f"urn:hetune:error:{kind}", status)
    assert content["request_id"] == response.headers["x-request-id"]
    return content["detail"]


def test_every_route_has_its_line_and_every_line_its_route(service):
    assert {
        f"{method} {path}" for method, path in every_route(routes(Dispatcher.of(service)))
    } == set(NEEDS)


def test_only_health_is_public():
    public = {path for method, path in ROUTES if is_public(method, path)}
    health = {f"/v{n}/health/{what}" for n in (1, 2) for what in ("live", "ready")}
    assert public == health | {"/healthz", "/readyz"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/"),
        ("GET", "/uis"),
        ("GET", "/docs"),
        ("GET", "/ui/nothing"),
        ("GET", "/v1/graphs/a/b"),
        ("GET", "/v1/health/live/"),
        ("POST", "/v1/health/live"),
        ("PATCH", "/v1/models"),
        ("MADE", "/v1/models"),
    ],
)
def test_what_no_line_fits_needs_admin(method, path):
    assert needs_of(method, path) == (frozenset(),)


def test_long_paths_are_not_remembered():
    path = "/v1/health/" + "a" * 1000
    before = route_scopes._needs_again.cache_info().currsize
    assert needs_of("GET", path) == (frozenset(),)
    assert not is_public("GET", path)
    assert needs_of("GET", f"/v1/models/{'a' * 1000}") == (frozenset({KeyScope.infer}),)
    assert route_scopes._needs_again.cache_info().currsize == before


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_without_a_good_key_no_route_answers(site, method, path):
    path = concrete(path)
    right, wrong = site.secrets[KeyScope.admin], site.secrets[KeyScope.admin][:-1]
    given = [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": right},
        {"Authorization": f"Basic {right}"},
        {"Authorization": "Bearer é".encode()},
        {"X-API-Key": right},
        {"Cookie": f"Authorization=Bearer {right}"},
        [("Authorization", f"Bearer {right}"), ("Authorization", f"Bearer {right}")],
        *(bearer(secret) for secret in ("wrong", "Sesame", "sesame1", wrong, f"{right}0")),
        bearer(right.upper()),
        bearer(right.split("_")[2]),
        bearer(f"{right}, {right}"),
    ]
    for headers in given:
        is_refused(site.http.request(method, path, headers=headers), 401, "AccessError")
    told = is_refused(site.http.get(path, params={"key": right}), 401, "AccessError")
    assert "Authorization: Bearer" in told or told == ""
    for name in ("expired", "revoked"):
        headers = bearer(getattr(site, name))
        told = is_refused(site.http.request(method, path, headers=headers), 401, "AccessError")
        assert f"the key {name} " in told or told == ""


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("scope", KeyScope)
def test_a_key_opens_what_it_is_for(site, method, path, scope):
    need = NEEDS[f"{method} {path}"]
    headers = bearer(site.secrets[scope])
    found = site.http.request(method, concrete(path), headers=headers)
    if need is None or scope is KeyScope.admin or scope in need:
        assert found.status_code not in (401, 403)
    else:
        assert f"the key only-{scope} is for {scope}: " in is_refused(found, 403, "ScopeError")


def test_what_leads_nowhere_is_told_to_admins_only(site):
    for method, path in (("GET", "/nothing"), ("PUT", "/v1/models"), ("GET", "/v2/nothing")):
        is_refused(site.http.request(method, path), 401, "AccessError")
        headers = bearer(site.secrets[KeyScope.infer])
        is_refused(site.http.request(method, path, headers=headers), 403, "ScopeError")
        headers = bearer(site.secrets[KeyScope.admin])
        assert site.http.request(method, path, headers=headers).status_code in (404, 405)


def test_the_root_key_opens_everything(site):
    for headers in (bearer("sesame"), {"Authorization": "bearer  sesame"}):
        for path in ("/metrics", "/v1/models", "/v1/cost-models", "/v1/openapi.json"):
            assert site.http.get(path, headers=headers).status_code == 200


def test_the_description_says_what_each_route_needs(site, service):
    headers = bearer(site.secrets[KeyScope.profile])
    found = site.http.get("/v1/openapi.json", headers=headers).json()
    assert found["components"]["securitySchemes"]["key"] == {"type": "http", "scheme": "bearer"}
    needs = {}
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            scopes = [alternative["key"] for alternative in operation["security"]]
            assert not scopes or ["admin"] in scopes
            kept = frozenset(scope for [scope] in scopes if scope != "admin")
            needs[f"{method.upper()} {path}"] = kept if scopes else None
    assert len(needs) > 40
    assert needs.items() <= NEEDS.items()
    with serving(application(service)) as url:
        assert '"securitySchemes"' not in httpx.get(f"{url}/v1/openapi.json", timeout=60).text


@pytest.mark.parametrize(
    "target",
    [
        "//v1/health/live",
        "/v1/health/live/",
        "/v1/health/live/../../models",
        "/v1/health/live%2f..%2f..%2fmodels",
        "/v1/health/../models",
        "/v1/models?/v1/health/live",
        "/v1/models#/v1/health/live",
        "/v1/models;/v1/health/live",
        "/v1/models/",
        "/V1/models",
        "/%76%31/models",
        "/v1/models%00",
        "/v1/health/live%00",
        "/v1/models/m%2fversions%2f1",
        "http://127.0.0.1/v1/models",
        "*",
    ],
)
def test_no_way_of_writing_a_path_leads_around_it(site, target):
    host, port = site.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        connection.putrequest("GET", target)
        connection.putheader("X-Original-URL", "/v1/health/live")
        connection.putheader("X-HTTP-Method-Override", "GET")
        connection.endheaders()
        # 400 is the server's, of a request that is none.
        assert connection.getresponse().status in (400, 401)
    finally:
        connection.close()


def test_other_kinds_of_connections_are_closed(service):
    async def app(scope, receive, send):
        pytest.fail("it is let in")

    async def send(event):
        sent.append(event)

    sessions = Sessions.of_open_service()
    for root in (None, "sesame"):
        sent = []
        access = Access(Keys(service.folder.root / FILE), root)
        guard = Guard(access, None, sessions, threading.Event())
        middleware = Middleware(app, guard, service.metrics, threading.Event())
        scope = {"type": "websocket", "path": "/v1/health/live", "headers": []}
        asyncio.run(middleware(scope, None, send))
        assert sent == [{"type": "websocket.close", "code": 1008}]


def test_keys_are_compared_in_constant_time_only(site, monkeypatch):
    compare, lengths = hmac.compare_digest, []

    def watched(one, other):
        lengths.append((len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    right = site.secrets[KeyScope.infer]
    for secret in ("x", "sesamf", right[:-1], f"hetune_{'0' * 16}_{'0' * 64}", f"{right[:-1]}g"):
        lengths.clear()
        assert site.http.get("/v1/models", headers=bearer(secret)).status_code == 401
        # One with the root key's digest, one with that of the key that it names, or of none.
        assert lengths == [(64, 64)] * 2


def test_a_running_service_sees_new_and_revoked_keys(service):
    keys = Keys(service.folder.root / FILE)
    with asking(application(service, key="sesame")) as http:
        _, secret = keys.create("late", [KeyScope.infer])
        assert http.get("/v1/models", headers=bearer(secret)).status_code == 200
        keys.revoke("late")
        told = is_refused(http.get("/v1/models", headers=bearer(secret)), 401, "AccessError")
        assert "was revoked on" in told
        keys.path.unlink()
        told = is_refused(http.get("/v1/models", headers=bearer(secret)), 401, "AccessError")
        assert "late" not in told


def test_a_service_that_gets_a_key_is_closed_from_then_on(service):
    keys = Keys(service.folder.root / FILE)
    with asking(application(service)) as http:
        assert http.get("/v1/models").status_code == 200
        keys.create("first", [KeyScope.infer])
        is_refused(http.get("/v1/models"), 401, "AccessError")
        keys.path.unlink()
        is_refused(http.get("/v1/models"), 401, "AccessError")


def test_a_service_whose_first_keys_are_damaged_is_closed(service):
    keys = Keys(service.folder.root / FILE)
    with asking(application(service)) as http:
        keys.path.write_bytes(b"{")
        assert http.get("/v1/health/live").status_code == 200
        is_refused(http.get("/v1/models"), 401, "AccessError")
        assert http.get("/v1/models", headers=bearer("any")).status_code == 503


def test_where_the_keys_are_damaged_only_the_root_key_opens(service):
    keys = Keys(service.folder.root / FILE)
    _, secret = keys.create("good", [KeyScope.admin])
    with (
        logged() as log,
        serving(application(service, key="sesame")) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
    ):
        keys.path.write_bytes(b"{")
        found = http.get("/v1/models", headers=bearer(secret))
        assert (found.status_code, found.json()["type"]) == (503, "urn:hetune:error:FolderError")
        assert str(keys.path) not in found.text
        assert http.get("/v1/models", headers=bearer("sesame")).status_code == 200
        assert http.get("/v1/health/live").status_code == 200
    assert str(keys.path) in log.text


def test_the_log_names_keys_and_holds_none(site):
    secrets = [*site.secrets.values(), site.expired, site.revoked, "sesame", "wrong-secret"]
    with (
        logged() as log,
        serving(application(site.service, key="sesame")) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
    ):
        for secret in secrets:
            http.get("/v1/models", headers=bearer(secret))
            http.get(f"/v1/graphs/{secret}", params={"key": secret}, headers=bearer(secret))
        http.get("/v1/health/ready", headers=bearer(secrets[0]))
    names = [*(f"only-{scope}" for scope in KeyScope), "expired", "revoked", "root", None]
    expected = [name for name in names for _ in range(2)] + [None]
    assert [line.get("key") for line in log.requests] == expected
    assert log.requests[0]["message"].endswith(", key only-infer")
    digests = [key.digest for key in Keys(site.service.folder.root / FILE).all()]
    parts = [secret.rpartition("_")[2] for secret in secrets]
    assert [part for part in (*parts, *digests) if part in log.text] == []


def test_names_of_keys_are_no_labels(site):
    for secret in site.secrets.values():
        site.http.get("/v1/models", headers=bearer(secret))
    found = site.http.get("/metrics", headers=bearer(site.secrets[KeyScope.metrics]))
    assert 'reason="ScopeError"' in found.text
    assert "only-" not in found.text
