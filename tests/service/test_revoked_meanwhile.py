"""What lasts longer than the head of its request ends with the key that let it in."""

import asyncio
import http.client
import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from tests.profiling._made_up import some_units

from hetune.service.core.keys.keys import FILE, Keys
from hetune.service.core.keys.scopes import KeyScope
from hetune.service.server.app import application
from hetune.service.server.rechecking import while_allowed
from hetune.variants.errors import AccessError

from ._logs import logged
from ._serving import asking, serving

EVENTS = "/v1/profiling/jobs/{}/events"
PAGE_EVENTS = "/ui/jobs/{}/events"


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    monkeypatch.setattr("hetune.service.server.rechecking.LOOK_SECONDS", 0.02)


@pytest.fixture
def keys(service):
    return Keys(service.folder.root / FILE)


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def read_on(stream, then):
    """Reads a stream until it breaks; calls `then` when its first event is there."""
    lines = stream.iter_lines()
    next(line for line in lines if line.startswith("data"))
    then()
    with pytest.raises(httpx.RemoteProtocolError):
        list(lines)


@pytest.mark.parametrize("how", ["revoked", "expired", "deleted"])
def test_a_stream_of_events_ends_with_its_key(service, keys, how, monkeypatch):
    late = timedelta(days=2)
    _, secret = keys.create("watcher", [KeyScope.profile], timedelta(days=1))
    job = service.measurements.queue.submit_units("mine", some_units(1))
    then = {
        "revoked": lambda: keys.revoke("watcher"),
        "expired": lambda: monkeypatch.setattr(Keys, "now", lambda _: datetime.now(UTC) + late),
        "deleted": keys.path.unlink,
    }[how]
    path = EVENTS.format(job.id)
    with (
        logged() as log,
        asking(application(service, key="sesame"), headers=bearer(secret)) as client,
        client.stream("GET", path) as stream,
    ):
        read_on(stream, then)
    [line] = log.requests
    assert (line["status"], line["failure"], line["key"]) == (200, "AccessError", "watcher")
    assert "ends early: the key" in log.text


def test_others_streams_go_on(service, keys):
    _, secret = keys.create("other", [KeyScope.profile])
    _, watcher = keys.create("watcher", [KeyScope.profile])
    job = service.measurements.queue.submit_units("mine", some_units(1))
    with serving(application(service, key="sesame")) as url:
        path = url + EVENTS.format(job.id)
        with httpx.stream("GET", path, headers=bearer(watcher)) as stream:
            with httpx.stream("GET", path, headers=bearer(secret)) as ended:
                read_on(ended, lambda: keys.revoke("other"))
            service.jobs.cancel(job.id)
            states = [json.loads(e[6:]).get("state") for e in stream.iter_lines() if "data" in e]
    assert states[-1] == "cancelled"


def test_a_page_s_stream_ends_with_its_session(service):
    job = service.measurements.queue.submit_units("mine", some_units(1))
    with asking(application(service, key="sesame")) as browser:
        browser.headers["Origin"] = str(browser.base_url).rstrip("/")
        browser.post("/ui/login", data={"key": "sesame"})
        with browser.stream("GET", PAGE_EVENTS.format(job.id)) as stream:
            read_on(stream, lambda: browser.post("/ui/logout"))


def test_a_stream_of_an_open_service_ends_when_it_gets_a_key(service, keys):
    job = service.measurements.queue.submit_units("mine", some_units(1))
    path = EVENTS.format(job.id)
    with asking(application(service)) as client, client.stream("GET", path) as stream:
        read_on(stream, lambda: keys.create("first", [KeyScope.admin]))


def test_a_body_that_comes_slowly_is_refused_with_its_key(service, keys):
    _, secret = keys.create("sender", [KeyScope.infer])
    with serving(application(service, key="sesame")) as url:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
        connection.putrequest("POST", "/v1/graphs")
        for name, value in bearer(secret).items():
            connection.putheader(name, value)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "100")
        connection.endheaders(b"{")
        keys.revoke("sender")
        answer = connection.getresponse()  # though the body is not there
        found = json.loads(answer.read())
        connection.close()
    assert (answer.status, found["type"]) == (401, "urn:hetune:error:AccessError")
    assert "was revoked on" in found["detail"]


def test_an_answer_that_is_read_slowly_ends_with_its_key():
    revoked = AccessError("was revoked")

    async def answer():
        await asyncio.Event().wait()  # until somebody reads

    def check():
        raise revoked

    with pytest.raises(AccessError) as caught:
        asyncio.run(while_allowed(answer(), check))
    assert caught.value is revoked


def test_who_is_cancelled_by_others_is_not_refused():
    async def stop():
        task = asyncio.current_task()
        asyncio.get_running_loop().call_soon(task.cancel)
        await while_allowed(asyncio.sleep(30), lambda: None)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stop())
