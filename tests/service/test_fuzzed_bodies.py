"""Whatever a route is sent, it answers as is documented, and the service goes on.

300 bodies, or with HETUNE_FULL_MATRIX=1 10,000.
"""

import random
from collections import Counter
from types import SimpleNamespace

import httpx
import pytest
import torch
from tests.full import FULL

import hetune
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.models.triple_scores import describe_scores
from hetune.service.http.problems import MEDIA_TYPE, STATUS
from hetune.service.http.route_scopes import NEEDS
from hetune.service.server.app import application

from ._measured import Watch, growth
from ._mutations import FORM, bodies, mutated
from ._serving import make_service, serving, tiny_features, tiny_graph

COUNT = 10_000 if FULL else 300
LIMITS = ServiceLimits(
    nodes=10_000, edges=50_000, types=2_000, json_bytes=1 << 20, body_bytes=4 << 20
)
GOOD = {200, 201, 204, 303, 307}
BAD = {400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429}
UNAVAILABLE = {504}
WRONG = {("POST", "/ui/jobs", FORM)}
"""What is a good body for nobody, lest something long be begun."""
MOST_BYTES = 200 << 20
"""By which the service may grow in all: what was compiled and loaded stays."""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    service = make_service(tmp_path_factory.mktemp("data"), limits=LIMITS)
    score = hetune.kge.scores["distmult"]
    model = score.model(entity=torch.ones(3, 4), r=torch.ones(2, 4))
    service.models.add("kge", 1, *describe_scores(model))
    graph = service.graphs.add(tiny_graph())
    service.features.put(graph, "base", tiny_features())
    with (
        serving(application(service)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60, headers={"Origin": url}) as http,
    ):
        yield SimpleNamespace(http=http, url=url, bodies=bodies(graph))


def send(http, body):
    headers = {"Content-Type": body.kind} if body.kind else {}
    return http.request(body.method, body.path, content=body.content, headers=headers)


def test_every_route_that_takes_a_body_is_tried(served):
    takes = {route for route in NEEDS if route.split()[0] in ("POST", "PUT", "PATCH")}
    patterns = {route: route.replace("{", "\0").split("/") for route in takes}
    tried = {
        route
        for route, parts in patterns.items()
        for body in served.bodies
        if len(parts) == len(given := f"{body.method} {body.path}".split("/"))
        and all(a == b or a.startswith("\0") for a, b in zip(parts, given, strict=True))
    }
    assert takes - tried == {"PUT /v1/graphs/{id}/pin", "POST /ui/jobs/{id}/cancel"}  # none


def test_bodies_are_good_before_they_are_damaged(served):
    answers = {(b.method, b.path, b.kind): send(served.http, b) for b in served.bodies}
    wrong = {at: found.text for at, found in answers.items() if found.status_code in (400, 415)}
    assert wrong.keys() <= WRONG, wrong


def checked(body, found):
    """The status of an answer that is one of those that are documented."""
    status, kind = found.status_code, found.headers.get("content-type", "")
    where = f"{body.method} {body.path} {body.kind} {body.content[:500]!r}: {found.text[:500]}"
    assert status in GOOD | BAD | UNAVAILABLE, where
    if status in GOOD:
        return status
    assert len(found.content) < (20_000 if "html" in kind else 4_000), where
    if body.path.startswith("/v2"):
        assert set(found.json()) == {"error"}, where
    elif body.path.startswith("/ui"):
        assert kind.startswith("text/html"), where
    else:
        assert kind == MEDIA_TYPE, where
        problem = found.json()
        assert set(problem) == {"type", "title", "status", "detail", "request_id"}, where
        assert problem["status"] == status, where
        names = {error.__name__ for error in STATUS}
        known = problem["type"] == "about:blank" or problem["type"].split(":")[-1] in names
        assert known or issubclass(
            getattr(hetune.errors, problem["type"].split(":")[-1]), tuple(STATUS)
        ), where
    return status


def test_no_body_breaks_a_route(served):
    chance, statuses = random.Random(36), Counter()
    with growth() as grown, Watch(served.url) as watch:
        for number in range(COUNT):
            body = mutated(served.bodies[number % len(served.bodies)], chance)
            statuses[checked(body, send(served.http, body))] += 1
    assert statuses[400] > COUNT / 5
    assert grown.bytes < MOST_BYTES
    if FULL:
        share = watch.share_above(0.1)
        print(statuses, f"{share:.2%}, {watch.slowest:.3f} s, {grown.bytes >> 20} MiB")
        assert share < 0.01  # a busy machine makes some late
        assert watch.slowest < 5
