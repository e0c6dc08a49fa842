"""What is tried again, when, and how often; by a clock that only moves when clients wait."""

import inspect
import json

import httpx
import pytest
from tests.clients._both import KINDS, Script, connected
from tests.service._serving import tiny_features, tiny_graph

from hetune.clients import AsyncClient, Client
from hetune.clients.http import retries
from hetune.clients.http.async_client import AsyncCostModelsClient, AsyncJobsClient
from hetune.clients.http.client import CostModelsClient, JobsClient
from hetune.clients.http.retries import LONGEST_SECONDS, TOTAL_SECONDS
from hetune.service.core.formats.message import MEDIA_TYPE
from hetune.variants import errors

URL = "http://service"
MODELS = {"models": [{"name": "m", "versions": [1]}]}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def problem(status, name, **headers):
    content = {"type": f"urn:hetune:error:{name}", "detail": "why", "request_id": "r"}
    return httpx.Response(status, json=content, headers=headers)


def busy(**headers):
    return problem(429, "BusyError", **headers)


PASSING = [
    httpx.ConnectError("refused"),
    httpx.ConnectTimeout("slow"),
    httpx.ReadError("reset"),
    httpx.WriteError("broken pipe"),
    httpx.RemoteProtocolError("server disconnected"),
    busy(),
    problem(503, "FolderError"),
    httpx.Response(503, text="a proxy's page"),
    httpx.Response(502, text="Bad Gateway"),
    httpx.Response(504, text="Gateway Timeout"),
]
LASTING = [
    (httpx.ReadTimeout("slow"), errors.UnreachableError),
    (httpx.PoolTimeout("full"), errors.UnreachableError),
    (problem(404, "NotFoundError"), errors.NotFoundError),
    (problem(413, "TooLargeError"), errors.TooLargeError),
    (problem(500, "HetuneError"), errors.HetuneError),
    (problem(504, "DeadlineError"), errors.DeadlineError),
]


@pytest.mark.parametrize("outcome", PASSING, ids=range(10))
def test_what_passes_is_tried_again(kind, clock, outcome):
    script = Script(outcome, outcome, httpx.Response(200, json=MODELS))
    with connected(kind, URL, transport=script.transport) as found:
        assert found.models() == {"m": (1,)}
    assert clock.waits == [0.25, 0.5]


@pytest.mark.parametrize(("outcome", "error"), LASTING, ids=range(6))
def test_what_lasts_is_not(kind, clock, outcome, error):
    script = Script(outcome)
    with connected(kind, URL, transport=script.transport) as found, pytest.raises(error):
        found.models()
    assert (len(script.requests), clock.waits) == (1, [])


@pytest.mark.parametrize(("retries", "tries"), [(0, 1), (1, 2), (3, 4)])
def test_how_often(kind, clock, retries, tries):
    script = Script(httpx.ConnectError("refused"))
    options = {"transport": script.transport, "retries": retries}
    said = "refused" if tries == 1 else f"refused; tried {tries} times"
    with (
        connected(kind, URL, **options) as found,
        pytest.raises(errors.UnreachableError, match=rf"\({said}\): is `hetune serve`"),
    ):
        found.models()
    assert len(script.requests) == tries


def test_waits_double_up_to_a_bound_and_end_within_a_minute(kind, clock):
    script = Script(busy())
    with (
        connected(kind, URL, transport=script.transport, retries=5000) as found,
        pytest.raises(errors.BusyError, match="why"),
    ):
        found.models()
    assert clock.waits[:7] == [0.25, 0.5, 1, 2, 4, LONGEST_SECONDS, LONGEST_SECONDS]
    assert TOTAL_SECONDS - LONGEST_SECONDS < sum(clock.waits) <= TOTAL_SECONDS


def test_waits_are_drawn_between_nothing_and_the_bound(clock, monkeypatch):
    bounds = []
    monkeypatch.setattr(retries, "uniform", lambda *given: bounds.append(given) or 0.0)
    script = Script(busy(), busy(), httpx.Response(200, json=MODELS))
    with connected("sync", URL, transport=script.transport) as found:
        found.models()
    assert (bounds, clock.waits) == ([(0.0, 0.25), (0.0, 0.5)], [0, 0])


@pytest.mark.parametrize(
    ("asked", "wait"),
    [
        ("7", 7.25),
        ("0", 0.25),
        ("", 0.25),
        ("soon", 0.25),
        ("-3", 0.25),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.25),
        ("Wed, 21 Oct 2015 07:28:00", 0.25),
        ("61", None),
        ("9" * 400, None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None),
    ],
)
def test_the_service_says_when(kind, clock, asked, wait):
    script = Script(busy(**{"Retry-After": asked}), httpx.Response(200, json=MODELS))
    with connected(kind, URL, transport=script.transport) as found:
        if wait is None:
            with pytest.raises(errors.BusyError):
                found.models()
        else:
            assert found.models() == {"m": (1,)}
    assert clock.waits == ([] if wait is None else [wait])


def test_a_body_is_sent_whole_each_time_and_progress_begins_again(kind, clock):
    script = Script(busy(), httpx.Response(201, json={"id": "f" * 32}))
    told = []
    with connected(kind, URL, transport=script.transport) as found:
        found.upload_graph(tiny_graph(), progress=lambda *given: told.append(given))
    first, second = script.requests
    assert first.content == second.content
    assert first.headers["content-length"] == str(len(first.content))
    assert "transfer-encoding" not in first.headers
    assert told == [(len(first.content),) * 2] * 2


@pytest.mark.parametrize(
    ("first", "is_error"),
    [
        (httpx.ReadError("reset"), False),
        (httpx.Response(502, text="Bad Gateway"), False),
        (httpx.ConnectError("refused"), True),
        (busy(), True),
    ],
    ids=["lost", "lost behind a proxy", "never sent", "refused"],
)
def test_what_an_unheard_try_has_deleted_is_deleted(kind, clock, first, is_error):
    script = Script(first, problem(404, "NotFoundError"))
    with connected(kind, URL, transport=script.transport) as found:
        if is_error:
            with pytest.raises(errors.NotFoundError):
                found.delete_graph("0" * 32)
        else:
            found.delete_graph("0" * 32)


def test_a_job_that_is_not_found_was_not_cancelled_unheard(kind, clock):
    script = Script(httpx.ReadError("reset"), problem(404, "NotFoundError"))
    with (
        connected(kind, URL, transport=script.transport) as found,
        pytest.raises(errors.NotFoundError),
    ):
        found.jobs.cancel(7)
    assert len(script.requests) == 2


def test_a_job_is_asked_for_under_one_key(kind, clock):
    script = Script(httpx.ReadError("reset"), problem(409, "ConflictError"))
    with connected(kind, URL, transport=script.transport) as found:
        for _ in range(2):
            with pytest.raises(errors.ConflictError):
                found.jobs.submit("smoke")
    keys = [json.loads(request.content)["idempotency_key"] for request in script.requests]
    assert keys[0] == keys[1] != keys[2]
    assert all(keys)


@pytest.mark.parametrize(
    ("outcome", "tries"),
    [
        (httpx.ConnectError("refused"), 2),
        (busy(), 2),
        (httpx.ReadError("reset"), 1),
        (problem(503, "FolderError"), 1),
        (httpx.Response(504, text="Gateway Timeout"), 1),
    ],
    ids=["never sent", "busy", "lost", "refused", "lost behind a proxy"],
)
@pytest.mark.parametrize("name", ["promote", "rollback"])
def test_what_may_have_been_heard_and_counts_twice_is_not_sent_again(
    kind, clock, name, outcome, tries
):
    script = Script(outcome, problem(409, "PromotionError"))
    with connected(kind, URL, transport=script.transport) as found:
        error = errors.PromotionError if tries == 2 else errors.HetuneError
        with pytest.raises(error):
            getattr(found.cost_models, name)()
    assert len(script.requests) == tries


def test_readiness_is_asked_once(kind, clock):
    script = Script(problem(503, "FolderError"))
    with connected(kind, URL, transport=script.transport) as found:
        assert not found.ready()
    assert len(script.requests) == 1


def test_what_a_caller_raises_ends_an_upload(kind, clock):
    def stop(sent, total):
        raise RuntimeError("enough")

    script = Script(httpx.Response(201, json={"id": "f" * 32}))
    with (
        connected(kind, URL, transport=script.transport) as found,
        pytest.raises(RuntimeError, match="enough"),
    ):
        found.upload_graph(tiny_graph(), progress=stop)
    assert script.requests == []


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"url": "service:8000"}, errors.InputError, "such as http://127.0.0.1:8000"),
        ({"url": "http://"}, errors.InputError, "such as http://127.0.0.1:8000"),
        ({"url": "http://[::"}, errors.InputError, "such as http://127.0.0.1:8000"),
        ({"url": "http://:sesame@service"}, errors.InputError, "key="),
        ({"retries": -1}, errors.InputError, "retries is -1"),
        ({"key": "ké"}, errors.AccessError, "HETUNE_API_KEY"),
        ({"key": "k\n"}, errors.AccessError, "HETUNE_API_KEY"),
    ],
    ids=range(7),
)
@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_clients_that_cannot_be(make, options, error, says):
    with pytest.raises(error, match=says) as caught:
        make(**{"url": URL} | options)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("plain", "awaited"),
    [
        (Client, AsyncClient),
        (JobsClient, AsyncJobsClient),
        (CostModelsClient, AsyncCostModelsClient),
    ],
)
def test_both_clients_have_the_same_methods(plain, awaited):
    def methods(kind):
        return {
            name: inspect.signature(method)
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert methods(plain).keys() == methods(awaited).keys()
    for name in methods(plain).keys() - {"ready", "close", "watch"}:
        assert methods(plain)[name] == methods(awaited)[name]
        assert getattr(plain, name).__doc__ == getattr(awaited, name).__doc__
        assert inspect.iscoroutinefunction(getattr(awaited, name))


def test_methods_have_their_calls_parameters():
    assert list(inspect.signature(Client.infer).parameters)[:4] == [
        *("self", "model", "graph", "features")
    ]
    with Client(URL, transport=Script().transport) as found:
        assert next(iter(inspect.signature(found.infer).parameters)) == "model"


def test_features_are_sent_as_they_are(kind, clock):
    """Small enough to be one piece, and not copied into JSON."""
    script = Script(problem(404, "NotFoundError"))
    x = tiny_features()
    with (
        connected(kind, URL, transport=script.transport) as found,
        pytest.raises(errors.NotFoundError),
    ):
        found.infer("a b", "0" * 32, x)
    (request,) = script.requests
    assert request.url.raw_path == b"/v1/models/a%20b/infer"
    assert request.content.endswith(x.numpy().tobytes())


@pytest.mark.parametrize("status", [200, 404, 504])
def test_a_container_that_nobody_asked_for_or_is_empty_is_no_service_s(kind, status):
    answer = httpx.Response(status, headers={"Content-Type": MEDIA_TYPE}, content=b"")
    with connected(kind, URL, transport=Script(answer).transport, retries=0) as client:
        for ask in (client.models, lambda: client.infer("m", tiny_graph(), tiny_features())):
            with pytest.raises(errors.UnreachableError, match="not as a hetune service"):
                ask()
