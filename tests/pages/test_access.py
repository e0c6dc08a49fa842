"""Who may see pages and use their forms: sessions, and requests that others forge."""

import httpx
import pytest
from tests.service._routes import concrete, every_route
from tests.service._serving import serving

from hetune.service.core.keys.keys import FILE, Keys
from hetune.service.core.keys.scopes import KeyScope
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.route_scopes import NEEDS, is_public, needs_of
from hetune.service.pages import forms
from hetune.service.pages.page_requests import is_page, local
from hetune.service.pages.sessions import COOKIE, SECONDS, Sessions
from hetune.service.server.app import application, routes

KEY = "open sesame"
FORM = {"Content-Type": forms.MEDIA_TYPE}


@pytest.fixture
def closed(service):
    """A client of a service with a key; it has not shown it."""
    with (
        serving(application(service, key=KEY)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60, headers={"Origin": url}) as client,
    ):
        yield client


def places(service):
    """Method and path of every page, parameters filled in."""
    for method, path in every_route(routes(Dispatcher.of(service))):
        if is_page(path):
            yield method, concrete(path)


def log_in(client, key=KEY, next="/"):
    return client.post("/ui/login", data={"key": key, "next": next})


def test_every_page_needs_the_key(service, closed):
    found = sorted(places(service))
    assert len(found) > 20
    for method, path in found:
        assert is_page(path)
        answer = closed.request(method, path, headers=FORM if method == "POST" else {})
        if is_public(method, path):
            assert answer.status_code in (200, 303, 400, 401, 404), path
        elif method == "GET":
            assert answer.status_code == 303, path
            assert answer.headers["location"].startswith("/ui/login?next=")
        else:
            assert answer.status_code == 401, path
    assert {path.rpartition("/")[0] for method, path in found if is_public(method, path)} == {
        *("/ui", "/ui/static")
    }
    public = [place for place in NEEDS if is_page(place.split()[1]) and NEEDS[place] is None]
    assert sorted(public) == [
        *("GET /ui/login", "GET /ui/static/{name}", "POST /ui/login", "POST /ui/logout"),
        "POST /ui/theme",
    ]
    assert closed.get("/ui/nothing").status_code == 303


def test_logging_in_and_out(closed):
    asked = closed.get("/ui/jobs?state=failed")
    assert asked.headers["location"] == "/ui/login?next=%2Fui%2Fjobs%3Fstate%3Dfailed"
    form = closed.get(asked.headers["location"]).text
    assert 'name="next" value="/ui/jobs?state=failed"' in form
    wrong = log_in(closed, "close sesame", "/ui/jobs")
    assert wrong.status_code == 401
    assert "none of this service's keys" in wrong.text.replace("&#39;", "'")
    assert "set-cookie" not in wrong.headers
    right = log_in(closed, next="/ui/jobs?state=failed")
    assert (right.status_code, right.headers["location"]) == (303, "/ui/jobs?state=failed")
    cookie = right.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "Path=/", f"Max-Age={SECONDS}", "SameSite=strict"} <= set(
        cookie.split("; ")
    )
    assert "sesame" not in cookie
    text = closed.get("/ui/jobs").text
    assert "Log out" in text
    stale = {"Cookie": f"{COOKIE}={closed.cookies[COOKIE]}"}
    assert closed.post("/ui/logout").headers["location"] == "/ui/login"
    assert closed.get("/ui/jobs").status_code == 303
    assert closed.get("/ui/jobs", headers=stale).status_code == 303


def test_a_session_opens_pages_and_nothing_else(closed):
    log_in(closed)
    assert closed.get("/").status_code == 200
    for path in ("/v1/models", "/v1/openapi.json", "/metrics", "/v2/models/m", "/nothing"):
        assert closed.get(path).status_code == 401, path
    body = {"graph": {"src": [0], "dst": [1]}, "x": [[0.0] * 4] * 2}
    assert closed.post("/v1/models/m/infer", json=body).status_code == 401


def test_a_key_in_the_header_is_enough(closed):
    assert closed.get("/", headers={"Authorization": f"Bearer {KEY}"}).status_code == 200
    assert closed.get("/", headers={"Authorization": "Bearer wrong"}).status_code == 303
    log_in(closed)
    assert closed.get("/", headers={"Authorization": "Bearer wrong"}).status_code == 303


@pytest.mark.parametrize("value", ["", "x", "a" * 4000, '"', "a; b", "é".encode()])
def test_cookies_that_are_none(closed, value):
    value = value if isinstance(value, bytes) else value.encode()
    cookie = COOKIE.encode() + b"=" + value
    assert closed.get("/", headers={b"Cookie": cookie}).status_code == 303


def test_sessions_end_by_themselves():
    now = [0.0]
    sessions = Sessions(lambda key: key == KEY, lambda: False, clock=lambda: now[0])
    assert sessions.begin("wrong") is None
    first, second = sessions.begin(KEY), sessions.begin(KEY)
    assert first != second
    assert KEY not in first
    assert sessions.authorization(scope(first)) == f"Bearer {KEY}"
    assert sessions.authorization(scope(first, path="/v1/models")) is None
    now[0] = SECONDS - 1
    assert sessions.authorization(scope(first)) is not None
    now[0] = SECONDS
    assert sessions.authorization(scope(first)) is None
    now[0] = 0.0
    assert sessions.authorization(scope(first)) is None
    assert sessions.authorization(scope(second)) is not None


def test_of_too_many_sessions_the_oldest_ends():
    sessions = Sessions(lambda _: True, lambda: False)
    first = sessions.begin(KEY)
    for _ in range(1000):
        last = sessions.begin(KEY)
    assert sessions.authorization(scope(first)) is None
    assert sessions.authorization(scope(last)) is not None


def scope(id, path="/"):
    return {"path": path, "headers": [(b"cookie", f"a=b; {COOKIE}={id}".encode())]}


@pytest.mark.parametrize("scope", KeyScope)
def test_a_session_opens_what_its_key_is_for(service, scope):
    keys = Keys(service.folder.root / FILE)
    secret = keys.create("mine", [scope])[1]
    with (
        serving(application(service)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60, headers={"Origin": url}) as client,
    ):
        assert log_in(client, secret).status_code == 303
        for method, path in places(service):
            [need] = needs_of(method, path)
            if need is None:
                continue
            found = client.request(method, path, headers=FORM if method == "POST" else {})
            if scope is KeyScope.admin or scope in need:
                assert found.status_code not in (401, 403), path
            else:
                assert found.status_code == 403, path
                assert f"the key mine is for {scope}" in found.text
        keys.revoke("mine")
        assert client.get("/").headers["location"].startswith("/ui/login")
        assert log_in(client, secret).status_code == 401


# Requests that others forge.


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "own"},
    ],
    ids=str,
)
@pytest.mark.parametrize("key", [None, KEY])
def test_forms_of_others_are_refused(service, key, headers):
    with (
        serving(application(service, key=key)) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        if key:
            client.post("/ui/login", data={"key": key, "next": "/"}, headers={"Origin": url})
            assert client.get("/").status_code == 200
        given = {name: url if value == "own" else value for name, value in headers.items()}
        for method, path in places(service):
            if method == "POST":
                found = client.post(path, content="", headers={**FORM, **given})
                assert found.status_code == 403, path
                assert found.headers["content-type"].startswith("text/html")


def test_forms_of_pages_are_taken(own, service):
    own.headers.pop("Origin")
    for headers in ({"Sec-Fetch-Site": "same-origin"}, {"Origin": str(own.base_url).rstrip("/")}):
        data = {"theme": "dark", "next": "/ui/jobs"}
        found = own.post("/ui/theme", data=data, headers=headers)
        assert (found.status_code, found.headers["location"]) == (303, "/ui/jobs")
        assert 'data-theme="dark"' in own.get("/").text


def test_pages_are_not_shown_under_other_names(service):
    app = application(service, hosts={"127.0.0.1"})
    with serving(app) as url, httpx.Client(base_url=url, timeout=60) as client:
        for path in ("/", "/ui/login", "/ui/static/style.css", "/ui/theme"):
            found = client.get(path, headers={"Host": "evil.example"})
            assert found.status_code == 421, path


def test_a_service_without_a_key_asks_for_none(own):
    assert own.get("/ui/login?next=/ui/jobs").headers["location"] == "/ui/jobs"
    assert "Log out" not in own.get("/").text


@pytest.mark.parametrize(
    ("target", "leads_to"),
    [
        ("/", "/"),
        ("/ui/jobs?state=failed&before=3", "/ui/jobs?state=failed&before=3"),
        ("", "/"),
        ("/v1/models", "/"),
        ("//evil.example/ui/", "/"),
        ("///evil.example/ui/", "/"),
        ("https://evil.example/ui/", "/"),
        ("javascript:alert(1)", "/"),
        ("/\\evil.example", "/"),
        ("/ui/\\..\\x", "/"),
        ("/ui/jobs\r\nSet-Cookie: a=b", "/"),
        ("/ui/é", "/"),
        ("http://[", "/"),
        ("ui/jobs", "/"),
    ],
)
def test_where_a_form_may_lead(target, leads_to):
    assert local(target) == leads_to
