"""Log-ins: how many there may be, who ends whose session, and over what the cookie travels."""

import httpx
import pytest

from hetune.service.core.keys.access import SHORTEST, weakness
from hetune.service.core.keys.keys import FILE, Keys
from hetune.service.core.keys.scopes import KeyScope
from hetune.service.pages.login_rate_limit import MOST, SECONDS, LoginRateLimit
from hetune.service.pages.sessions import Sessions
from hetune.service.server.app import application
from hetune.variants.errors import BusyError

from ._logs import logged
from ._serving import asking, serving
from .test_http import is_problem

ROOT = "sesame"


def log_in(http, key=ROOT, **headers):
    origin = {"Origin": str(http.base_url).rstrip("/")}
    return http.post("/ui/login", data={"key": key}, headers=origin | headers)


def test_log_ins_with_one_key_end_no_sessions_of_another():
    sessions = Sessions(lambda _: True, lambda: False)
    theirs = sessions.begin("theirs")
    for _ in range(1001):
        mine = sessions.begin("mine")
    for id, key in ((theirs, "theirs"), (mine, "mine")):
        cookie = f"hetune_session={id}".encode()
        scope = {"path": "/", "headers": [(b"cookie", cookie)]}
        assert sessions.authorization(scope) == f"Bearer {key}"


def test_only_so_many_log_ins_a_minute(service):
    with asking(application(service, key=ROOT)) as http:
        answers = [log_in(http, "wrong").status_code for _ in range(MOST)]
        refused = log_in(http)
        assert answers == [401] * MOST
        assert refused.status_code == 429
        assert "try again in a minute" in refused.text
        assert http.get("/v1/models", headers={"Authorization": f"Bearer {ROOT}"}).is_success


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("testclient", "testclient", True),
    ],
)
def test_they_are_counted_by_address(first, second, is_one):
    now = [0.0]
    attempts = LoginRateLimit(lambda: now[0])
    for _ in range(MOST):
        attempts.record({"client": (first, 1)})
    if is_one:
        with pytest.raises(BusyError):
            attempts.record({"client": (second, 2)})
    else:
        attempts.record({"client": (second, 2)})
    attempts.record({"client": None})
    now[0] = SECONDS
    attempts.record({"client": (first, 3)})


@pytest.mark.parametrize(("proto", "is_secure"), [(None, False), ("http", False), ("https", True)])
def test_behind_tls_the_cookie_is_secure(service, proto, is_secure):
    given = {} if proto is None else {"X-Forwarded-Proto": proto}
    with asking(application(service, key=ROOT)) as http:
        cookie = log_in(http, **given).headers["set-cookie"]
    assert ("Secure" in cookie.split("; ")) == is_secure


def test_who_is_no_proxy_does_not_say_what_it_came_over(service, monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "192.0.2.1")
    with asking(application(service, key=ROOT)) as http:
        cookie = log_in(http, **{"X-Forwarded-Proto": "https"}).headers["set-cookie"]
    assert "Secure" not in cookie


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, None),
        ("x" * SHORTEST, None),
        ("x" * (SHORTEST - 1), "has 15 characters"),
        ("a", "has 1 character,"),
    ],
)
def test_weak_root_keys(key, said):
    found = weakness(key)
    assert (found is None) == (said is None)
    assert said is None or said in found


def test_a_service_whose_keys_cannot_be_read_is_not_ready(service):
    keys = Keys(service.folder.root / FILE)
    keys.create("one", [KeyScope.admin])
    whole = keys.path.read_bytes()
    with logged() as log, serving(application(service, key=ROOT)) as url:

        def ready():
            return httpx.get(f"{url}/readyz", timeout=60, trust_env=False)

        assert ready().status_code == 200
        keys.path.write_bytes(b"{")
        for _ in range(2):
            told = is_problem(ready(), 503, "NotReadyError")
            assert "keys cannot be read" in told
            protocol = httpx.get(f"{url}/v2/health/ready", timeout=60, trust_env=False)
            assert protocol.status_code == 503
            assert str(keys.path) not in told
        keys.path.write_bytes(whole)
        assert ready().status_code == 200
    assert log.text.count("nobody but the root key gets in") == 1
