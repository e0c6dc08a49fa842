"""Both clients against a real server on loopback: the same bits, and the same errors."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import torch
from tests.clients._both import KINDS, Script, connected
from tests.clients._sockets import refusing
from tests.service._serving import (
    make_service,
    serving,
    tiny_features,
    tiny_graph,
    tiny_layers,
)

import hetune
from hetune import nn
from hetune.clients import AsyncClient, Client
from hetune.layers import etype, node
from hetune.service.core.formats.message import Pieces
from hetune.service.core.inference.answers import RunReport
from hetune.service.core.models.stack import describe
from hetune.service.server.app import application
from hetune.variants import errors
from hetune.variants.graph import edited

GRAPH, LAYERS, X = tiny_graph(), tiny_layers(), tiny_features()


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A service that runs compiled kernels."""
    service = make_service(tmp_path_factory.mktemp("data"), backend="cpp")
    with serving(application(service, key="sesame")) as found:
        yield found


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def client(kind, url):
    with connected(kind, url, key="sesame") as found:
        yield found


def in_process(answer, x=X):
    """What the variants that the service ran give here."""
    with torch.no_grad():
        for module, layer in zip(LAYERS[::2], answer.report.layers, strict=True):
            x = hetune.compile(module)(x, GRAPH, variant=layer.variant)
            x = torch.relu(x) if module is LAYERS[0] else x
    return x


def test_outputs_equal_those_in_process_bit_by_bit(client):
    id = client.upload_graph(GRAPH)
    assert id == GRAPH.fingerprint
    for graph in (id, GRAPH):
        answer = client.infer("m", graph, X)
        assert torch.equal(answer.out, in_process(answer))
    by_type = client.infer("m", id, {"author": X[:3], "paper": X[3:]})
    assert torch.equal(
        torch.cat([by_type.out["author"], by_type.out["paper"]]), in_process(by_type)
    )


def test_answers_say_which_request_they_are_of(client):
    first, second = (client.infer("m", GRAPH, X).request_id for _ in range(2))
    assert first != second
    assert first
    assert second


@pytest.mark.parametrize(("headers", "id"), [({"x-request-id": "r"}, "r"), ({}, "")], ids=range(2))
def test_request_ids_are_those_of_the_answer(kind, headers, id):
    report = RunReport(model="m", version=1, graph="0" * 32, layers=())
    content = b"".join(Pieces(report.model_dump_json(), {"out/0": X}))
    transport = Script(httpx.Response(200, headers=headers, content=content)).transport
    with connected(kind, "http://elsewhere", transport=transport) as found:
        assert found.infer("m", "0" * 32, X).request_id == id


@pytest.mark.parametrize("writes", ["writes", ("author", "writes", "paper")])
def test_a_graph_is_edited_there_as_it_is_here(client, writes):
    id = client.upload_graph(GRAPH)
    edit = {
        "add": {writes: torch.tensor([[3], [0]]), "reads": np.array([[0], [3]])},
        "remove": {writes: torch.tensor([[0], [0]])},
        "add_nodes": {"author": 1},
    }
    for parallel in ("all", "each"):
        new = client.edit_graph(id, **edit, parallel=parallel)
        assert new == edited(GRAPH, **edit, parallel=parallel).fingerprint
    assert client.graph(new).num_nodes == 8
    assert client.graph(id).num_nodes == 7
    with pytest.raises(errors.GraphError, match="names the edge from 1 to 0, but the graph has"):
        client.edit_graph(id, remove={writes: np.array([[1], [0]])})


def test_rows_of_some_nodes_either_way(client):
    id, nodes = client.upload_graph(GRAPH), {"paper": [3, 0], "author": [1]}
    whole = client.infer("m", id, X).out
    for how in ("full", "reach"):
        answer = client.infer("m", id, X, nodes=nodes, subset=how)
        assert answer.report.subset.how == how
        assert torch.allclose(answer.out["paper"], whole[[6, 3]], atol=1e-6)
        assert torch.allclose(answer.out["author"], whole[[1]], atol=1e-6)
    answer = client.infer("m", id, X, nodes=nodes)
    assert answer.report.subset.how == "full"
    assert torch.equal(answer.out["paper"], whole[[6, 3]])


def test_a_graph_s_life(client):
    graph = hetune.HeteroGraph(torch.tensor([0]), torch.tensor([1]))
    id = client.upload_graph(graph)
    assert id in client.graphs()
    assert client.graph(id).num_edges == 1
    client.delete_graph(id)
    assert id not in client.graphs()
    for do in (client.graph, client.delete_graph):
        with pytest.raises(errors.NotFoundError, match=id):
            do(id)


@hetune.layer_program
def own(g, x, w, c):
    """Messages with a weight of their relation."""
    return g.sum(c * (g.src(x) @ w))


def test_a_layer_of_one_s_own_is_served(client):
    draw = torch.Generator().manual_seed(3)
    etypes, width = GRAPH.num_etypes, X.shape[1]
    weights = {
        "w": torch.randn((etypes, width, 3), generator=draw),
        "c": torch.rand(etypes, generator=draw),
    }
    program = own(x=node(width), w=etype(width, 3), c=etype())
    layer = hetune.compile(program, weights=weights)
    client.put_model("own", [layer, torch.nn.ReLU()])
    answer = client.infer("own", GRAPH, X)
    with torch.no_grad():
        expected = layer(X, GRAPH, variant=answer.report.layers[0].variant)
    assert torch.equal(answer.out, torch.relu(expected))
    client.delete_model("own", 1)


def test_a_model_s_life(client):
    layers = [nn.HGT(4, 4, GRAPH.metadata(), heads=2), torch.nn.GELU()]
    client.put_model("mine", layers)
    client.put_model("mine", layers)
    assert client.models()["mine"] == (1,)
    assert client.model("mine", 1) == describe(layers)[0]
    with pytest.raises(errors.ConflictError):
        client.put_model("mine", [nn.RGCN(4, 4, 2)])
    client.delete_model("mine", 1)
    assert "mine" not in client.models()


@pytest.mark.parametrize("nodes", [[5, 0], np.array([5, 0]), torch.tensor([5, 0])])
def test_some_nodes_and_layers(client, nodes):
    answer = client.infer("m", GRAPH, X, nodes=nodes, outputs=[0, 1], explain=True)
    assert {n: tuple(rows.shape) for n, rows in answer.outputs.items()} == {0: (2, 6), 1: (2, 4)}
    assert answer.report.layers[0].explanation is not None
    papers = client.infer("m", GRAPH, X, nodes={"paper": nodes[1:]}).out
    assert list(papers) == ["paper"]
    assert client.infer("m", GRAPH, X, nodes=[]).out.shape == (0, 4)


def test_limits_of_a_run(client):
    given = {"memory_limit": 1 << 40, "deadline_seconds": 60}
    assert client.infer("m", GRAPH, X, **given).out.shape == (len(X), 4)
    with pytest.raises(errors.DeadlineError, match="more time"):
        client.infer("m", GRAPH, X, deadline_seconds=1e-9)


def test_a_choice_without_a_run(client):
    report = client.select("m", GRAPH, explain=True)
    other = report.layers[0].explanation.candidates[-1].variant
    answer = client.infer("m", GRAPH, X, variants=[other, None])
    assert answer.report.layers[0].variant == other
    assert torch.equal(answer.out, in_process(answer))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda c: c.infer("none", GRAPH, X), errors.NotFoundError),
        (lambda c: c.infer("../m", GRAPH, X), errors.InputError),
        (lambda c: c.infer("m", "../m", X), errors.NotFoundError),
        (lambda c: c.infer("m", GRAPH, X[:2]), errors.InputError),
        (lambda c: c.infer("m", GRAPH, X, nodes=[7]), errors.InputError),
        (lambda c: c.infer("m", GRAPH, X, variants=["no", None]), errors.VariantError),
        (lambda c: c.infer("m", GRAPH, X, variants="ab"), errors.InputError),
        (lambda c: c.infer("m", GRAPH, X, memory_limit=1), errors.MemoryLimitError),
        (lambda c: c.delete_graph(""), errors.InputError),
        (lambda c: c.features("../x"), errors.InputError),
        (lambda c: c.put_model("-", LAYERS), errors.MalformedError),
        (lambda c: c.put_model("m", [torch.nn.Linear(1, 1)]), errors.InputError),
        (
            lambda c: c.upload_graph(
                hetune.HeteroGraph(torch.tensor([0]), torch.tensor([1]), num_nodes=1001)
            ),
            errors.TooLargeError,
        ),
    ],
    ids=range(13),
)
def test_errors_are_those_of_the_service(client, call, error):
    with pytest.raises(error) as caught:
        call(client)
    assert type(caught.value) is error


def test_the_key(kind, url, monkeypatch):
    monkeypatch.delenv("HETUNE_API_KEY", raising=False)
    with connected(kind, url) as stranger, pytest.raises(errors.AccessError):
        stranger.models()
    monkeypatch.setenv("HETUNE_API_KEY", "sesame")
    with connected(kind, url) as friend:
        assert "m" in friend.models()


def test_ready(kind, client):
    assert client.ready()
    with refusing() as url, connected(kind, url, retries=0) as nobody:
        assert not nobody.ready()
        with pytest.raises(errors.UnreachableError, match="hetune serve"):
            nobody.models()


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(500, text="Internal Server Error"),
        httpx.Response(502, json=[]),
        httpx.Response(200, content=b"<html>"),
        httpx.Response(308, headers={"Location": "https://elsewhere/"}),
    ],
    ids=range(4),
)
@pytest.mark.parametrize(
    "do",
    [
        lambda c: c.infer("m", "0" * 32, X),
        lambda c: c.select("m", "0" * 32),
        lambda c: c.graphs(),
        lambda c: c.model("m", 1),
        lambda c: c.put_model("m", LAYERS),
        lambda c: c.delete_graph("0"),
        lambda c: c.delete_features("0", "x"),
    ],
    ids=range(7),
)
def test_answers_of_something_else(kind, response, do):
    transport = Script(response).transport
    with (
        connected(kind, "http://elsewhere", transport=transport) as found,
        pytest.raises(errors.UnreachableError, match="check the URL"),
    ):
        do(found)


def test_a_problem_of_a_kind_that_is_not_known(kind):
    problem = {"type": "urn:hetune:error:os", "detail": "new", "request_id": "r"}
    transport = Script(httpx.Response(418, json=problem)).transport
    with (
        connected(kind, "http://elsewhere", transport=transport) as found,
        pytest.raises(errors.ServiceError, match=r"new \(request r\)"),
    ):
        found.models()


def test_graphs_of_other_libraries(client):
    edges = {
        ("author", "writes", "paper"): np.array([[0, 1, 2, 0, 1], [0, 1, 2, 0, 3]]),
        ("author", "reads", "paper"): np.array([[0, 1, 2, 2], [1, 2, 0, 1]]),
    }
    features = {"author": X[:3].numpy(), "paper": X[3:].numpy()}
    told = []
    id = client.upload_graph(edges, progress=lambda *given: told.append(given))
    assert told[-1][0] == told[-1][1] > 0
    by_id, inline = client.infer("m", id, features), client.infer("m", edges, features)
    assert torch.equal(by_id.out["paper"], inline.out["paper"])
    assert client.select("m", edges).graph == id


def test_many_at_a_time(url):
    async def ask():
        async with AsyncClient(url, key="sesame") as client:
            return await asyncio.gather(*(client.infer("m", GRAPH, X) for _ in range(8)))

    first, *others = asyncio.run(ask())
    assert all(torch.equal(first.out, other.out) for other in others)


def test_the_plain_client_serves_threads(url):
    with Client(url, key="sesame") as client, ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: client.infer("m", GRAPH, X).out, range(8)))
    assert all(torch.equal(answers[0], other) for other in answers)


def test_a_body_that_is_refused_unread(client):
    """The answer is heard though the service hangs up while 64 MB are on their way."""
    with pytest.raises(errors.TooLargeError, match="bytes of the body"):
        client.infer("m", GRAPH, torch.zeros(4_000_000, 4))
