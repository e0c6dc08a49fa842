"""Browsers and keys: a session is as good as the key that was shown, and no better."""

import threading
from urllib.parse import parse_qsl

import httpx
import pytest

from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.keys.keys import FILE, Keys
from hetune.service.core.keys.scopes import KeyScope
from hetune.service.http.body import SMALL_BYTES
from hetune.service.pages import forms
from hetune.service.server.app import application

from ._serving import make_service, serving


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The URL of a service, and its keys."""
    service = make_service(tmp_path_factory.mktemp("data"))
    keys = Keys(service.folder.root / FILE)
    with serving(application(service, key="sesame")) as url:
        yield url, keys


def browser(url):
    return httpx.Client(base_url=url, trust_env=False, headers={"Origin": url}, timeout=60)


def log_in(http, key):
    return http.post("/ui/login", data={"key": key, "next": "/ui/graphs"})


def test_a_session_is_for_what_its_key_is_for(site):
    url, keys = site
    _, secret = keys.create("reader", [KeyScope.infer])
    with browser(url) as http:
        assert log_in(http, secret).headers["location"] == "/ui/graphs"
        assert http.get("/ui/graphs").status_code == 200
        refused = http.get("/ui/jobs")
        assert refused.status_code == 403
        assert "the key reader is for infer" in refused.text
        assert http.post("/ui/models/m/unload").status_code == 403
        assert secret not in "".join(http.cookies.values())


def test_a_session_ends_with_its_key(site):
    url, keys = site
    _, secret = keys.create("short", [KeyScope.admin])
    with browser(url) as http:
        log_in(http, secret)
        assert http.get("/ui/jobs").status_code == 200
        keys.revoke("short")
        assert http.get("/ui/jobs").headers["location"].startswith("/ui/login")
        assert log_in(http, secret).status_code == 401


@pytest.mark.parametrize("key", ["", "wrong", "hetune_0000000000000000_" + "0" * 64, "é"])
def test_no_session_for_a_wrong_key(site, key):
    url, _ = site
    with browser(url) as http:
        assert log_in(http, key).status_code == 401
        assert not http.cookies


def test_a_session_opens_pages_only(site):
    url, _ = site
    with browser(url) as http:
        log_in(http, "sesame")
        assert http.get("/").status_code == 200
        for path in ("/v1/models", "/v2/models/m", "/metrics", "/v1/openapi.json"):
            assert http.get(path).status_code == 401


@pytest.mark.parametrize("path", ["/ui/login", "/ui/theme"])
def test_forms_that_need_no_key_are_short(tmp_path, path):
    app = application(make_service(tmp_path, limits=ServiceLimits()), key="sesame")
    with serving(app) as url, browser(url) as http:
        assert http.post(path, data={"next": "x" * SMALL_BYTES}).status_code == 413


def test_forms_are_read_beside_the_event_loop(tmp_path, monkeypatch):
    names = []

    def noted(*given, **options):
        names.append(threading.current_thread().name)
        return parse_qsl(*given, **options)

    monkeypatch.setattr(forms, "parse_qsl", noted)
    data = {"source": "drawn", "edges": "#" * 2 * SMALL_BYTES}
    with (
        serving(application(make_service(tmp_path, limits=ServiceLimits()))) as url,
        browser(url) as http,
    ):
        assert http.post("/ui/playground", data=data).status_code == 400  # it names no shape
        assert http.post("/ui/theme", data={"theme": "dark"}).status_code == 303
    assert [name.partition("_")[0] for name in names] == ["asyncio"] * 2


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
    ids=range(5),
)
def test_forms_of_other_sites_do_nothing_with_a_session(site, headers):
    url, _ = site
    with browser(url) as http:
        log_in(http, "sesame")
        assert (
            http.post("/ui/models/m/load", data={"version": "1"}, headers=headers).status_code
            == 403
        )
        assert http.post("/ui/models/m/load", data={"version": "1"}).status_code == 303
