"""Every answer has the id of its request, and so has every line of the log that belongs to it."""

import logging
import threading

import httpx
import pytest

from hetune.service.server.app import application
from hetune.variants import errors

from ._logs import logged
from ._serving import asking, make_service, serving

GRAPH = {"src": [0, 1], "dst": [1, 2], "etype": [0, 1], "num_nodes": 3}
SELECT = "/v1/models/m/select"


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    """A client with the key of a service."""
    service = make_service(tmp_path_factory.mktemp("data"))
    headers = {"Authorization": "Bearer sesame"}
    with asking(application(service, key="sesame"), headers=headers) as client:
        yield client


ANSWERS = [
    ("GET", "/v1/health/live", {}, 200),
    ("GET", "/v2/health/live", {}, 200),
    ("GET", "/v1/openapi.json", {}, 200),
    ("GET", "/nothing", {}, 404),
    ("GET", "/v2/nothing", {}, 404),
    ("PUT", "/v1/models", {}, 405),
    ("GET", "/v1/models", {"Authorization": "Bearer wrong"}, 401),
    ("GET", "/v2/models/none", {}, 404),
    ("GET", "/v1/models/m/versions/one", {}, 400),
    ("POST", "/v1/graphs", {}, 415),
]


@pytest.mark.parametrize(("method", "path", "headers", "status"), ANSWERS, ids=range(len(ANSWERS)))
def test_every_answer_has_it(http, method, path, headers, status):
    found = http.request(method, path, headers=headers | {"X-Request-Id": "mine-1"})
    assert found.status_code == status
    assert found.headers.get_list("x-request-id") == ["mine-1"]
    if found.headers["content-type"] == "application/problem+json":
        assert found.json()["request_id"] == "mine-1"


@pytest.mark.parametrize(
    "given", ["", "a b", "a" * 65, "<script>", "a\tb", "é", 'a"b', "../x"], ids=range(8)
)
def test_one_that_is_no_plain_word_is_replaced(http, given):
    found = http.get("/v1/health/live", headers={"X-Request-Id": given.encode()})
    assert len(found.headers["x-request-id"]) == 32
    assert found.headers["x-request-id"].isalnum()


def test_two_are_none(http):
    pair = [("X-Request-Id", "a"), ("X-Request-Id", "b")]
    found = http.get("/v1/health/live", headers=pair)
    assert found.headers["x-request-id"] not in ("a", "b", "a, b")


def test_new_ones_differ(http):
    ids = {http.get("/v1/health/live").headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_lines_from_all_threads_have_the_id_of_their_request(service):
    log, threads = logging.getLogger("hetune.test"), set()
    select, ready = service.selection.select, type(service).check_ready

    def computes(*args, **options):
        threads.add(threading.current_thread().name.rpartition("_")[0])
        log.info("computes")
        return select(*args, **options)

    def checks(own):
        log.info("checks")
        return ready(own)

    object.__setattr__(service.selection, "select", computes)
    with logged() as found, pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(service), "check_ready", checks)
        with serving(application(service)) as url, httpx.Client(base_url=url, timeout=60) as http:
            for id in ("first", "second"):
                headers = {"X-Request-Id": id}
                assert http.post(SELECT, json={"graph": GRAPH}, headers=headers).is_success
                assert http.get("/v1/health/ready", headers=headers).is_success
    said = [(line["message"], line["request_id"]) for line in found.lines]
    own = [(what, id) for what, id in said if what in ("computes", "checks")]
    assert own == [(what, id) for id in ("first", "second") for what in ("computes", "checks")]
    assert threads == {"hetune-compute"}


def test_the_reason_of_a_failure_is_found_by_the_id(service):
    def fail(*args, **options):
        raise errors.CompileError("the reason")

    object.__setattr__(service.selection, "select", fail)
    with logged() as found, serving(application(service)) as url:
        headers = {"X-Request-Id": "lost"}
        failed = httpx.post(f"{url}{SELECT}", json={"graph": GRAPH}, headers=headers, timeout=60)
    assert failed.status_code == 500
    [line] = [line for line in found.lines if "exception" in line]
    assert line["request_id"] == "lost"
    assert "the reason" in line["exception"]


def test_lines_of_no_request_have_none():
    with logged() as found:
        logging.getLogger("hetune.test").warning("at the start")
    assert "request_id" not in found.lines[0]
