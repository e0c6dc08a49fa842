"""HEAD is answered as GET is, without a body; headers that there must be one of; plain names."""

import pytest
from tests.profiling._made_up import some_units

import hetune
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.jobs.campaigns import campaign_of
from hetune.service.core.models.stack import describe
from hetune.service.server.app import application
from hetune.variants.errors import InputError, NotFoundError

from ._logs import logged
from ._routes import concrete
from ._serving import asking, tiny_graph
from .test_http import is_problem

PATHS = ["/", "/healthz", "/v1/models", "/v1/models/none", "/v1/openapi.json", "/metrics", "/v2"]
PATHS += ["/v2/models/m", "/v2/models/none", "/ui/graphs", "/ui/static/none", "/nothing"]


@pytest.mark.parametrize("path", PATHS)
def test_the_head_is_that_of_get(http, path):
    expected, found = http.get(path), http.head(path)
    assert (found.status_code, found.content) == (expected.status_code, b"")
    for name in ("content-type", "allow", "location"):
        assert found.headers.get(name) == expected.headers.get(name)
    if path in ("/healthz", "/v1/models", "/v2/models/m"):
        assert found.headers["content-length"] == expected.headers["content-length"]


def test_where_there_is_no_get_there_is_no_head(http):
    refused = http.head("/v1/profiling/jobs/1/cancel")
    assert refused.status_code == 404
    refused = http.head("/v1/models/m/infer")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    assert http.put("/v1/models").headers["allow"] == "GET, HEAD"


def test_the_head_of_a_stream_does_not_wait_for_its_end(service):
    job = service.measurements.queue.submit_units("mine", some_units(1))
    with logged() as log, asking(application(service), timeout=20) as http:
        found = http.head(concrete(f"/v1/profiling/jobs/{job.id}/events"))
        assert found.headers["content-type"].startswith("text/event-stream")
        assert http.get("/healthz").status_code == 200  # the connection is as good as before
    [line, _] = log.requests
    assert (line["method"], line["route"]) == ("HEAD", "/v1/profiling/jobs/{id}/events")


# Headers that there must be one of.


@pytest.mark.parametrize("name", ["Origin", "Sec-Fetch-Site", "Content-Type"])
def test_two_of_a_header_are_refused(http, name):
    own = str(http.base_url).rstrip("/")
    for values in ((own, "http://evil.example"), ("http://evil.example",) * 2):
        answer = http.get("/v1/models", headers=[(name, value) for value in values])
        assert is_problem(answer, 400, None) == f"give one {name}"


# Names.


def graph_named(etype, ntype="paper"):
    graph = tiny_graph()
    return hetune.HeteroGraph(
        *(graph.src, graph.dst, graph.etype, graph.ntype),
        ntype_names=["author", ntype],
        etype_names=["writes", etype],
    )


@pytest.mark.parametrize("name", ["a\nb", "\x1b]0;owned\x07", "\x7f", "a\x9b31m", "\x00"])
def test_names_hold_no_control_characters(service, layers, name):
    limits = ServiceLimits()
    campaign = {
        "name": name,
        "layers": ["rgcn"],
        "widths": [4],
        "graphs": [{"kind": "typed", "nodes": 30, "edges": 90}],
    }
    hgt = hetune.nn.HGT(4, 4, (["a", name], [("a", "r", name), (name, "s", "a")]))
    for act in (
        lambda: service.graphs.add(graph_named(name)),
        lambda: service.graphs.add(graph_named("reads", name)),
        lambda: service.models.add("n", 1, *describe([hgt])),
        lambda: campaign_of(campaign, limits),
    ):
        with pytest.raises(InputError, match="control character") as caught:
            act()
        assert str(caught.value).isprintable()
    assert service.graphs.all() == ()
    with pytest.raises(NotFoundError):
        service.models.get("n")


@pytest.mark.parametrize("name", ["größe", "作者", "a b", "http://example.org/p#q", "<&>"])
def test_others_may_be_anything(service, name):
    assert service.graphs.get(service.graphs.add(graph_named(name))).etype_names[1] == name


# Paths that lead nowhere.


@pytest.mark.parametrize("path", ["/nothing", "/v1/nothing", "/v2/nothing", "/ui/nothing", "/docs"])
def test_who_is_lost_is_told_where_to_look(http, path):
    answer = http.get(path)
    assert answer.status_code == 404
    assert "GET /v1/openapi.json describes the API, and / has the pages" in answer.text
    assert http.get("/v1/openapi.json").status_code == http.get("/").status_code == 200


def test_what_a_route_does_not_find_is_said_as_before(http):
    assert "pages load no such file" in http.get("/ui/static/nothing").text
