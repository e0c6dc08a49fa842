"""Rows of some nodes: the same whichever way they are computed, and the way that is cheaper."""

import itertools
import json

import httpx
import pytest
import torch

from hetune import nn
from hetune.service.core.formats.message import pack, unpack
from hetune.service.core.inference import subset as subsets
from hetune.service.core.models.stack import describe
from hetune.service.server.app import application
from hetune.variants.errors import InputError, MemoryLimitError
from hetune.variants.graph import generate
from hetune.variants.testing.graphs import AWKWARD

from ._serving import serving


def stack_for(graph, width=8):
    """One layer of each kind, with activations between them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return [
            nn.RGCN(width, width, graph.num_etypes),
            torch.nn.ReLU(),
            nn.HGT(width, width, graph.metadata(), heads=2),
            torch.nn.Tanh(),
            nn.RGAT(width, width, graph.num_etypes),
        ]


@pytest.fixture(params=["several blocks", "isolated nodes", "duplicate edges", "no edges"])
def graph(request):
    return AWKWARD[request.param]()


@pytest.fixture
def x(graph):
    return torch.randn(graph.num_nodes, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def run(service, graph):
    service.models.add("deep", 1, *describe(stack_for(graph)))
    return lambda *args, **kwargs: service.inference.run("deep", graph, *args, **kwargs)


def same(one, other):
    assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nodes", [[], [0], [2, 0, 2], "all"])
@pytest.mark.parametrize("outputs", [None, [0, 2], [0, 1, 2]])
def test_rows_are_those_of_the_whole_run(run, graph, x, nodes, outputs):
    ids = torch.arange(graph.num_nodes) if nodes == "all" else torch.tensor(nodes).long()
    whole = run(x, outputs=outputs)
    found = run(x, nodes=ids, outputs=outputs, subset="reach")
    assert found.outputs.keys() == whole.outputs.keys()
    for number, rows in found.outputs.items():
        same(rows, whole.outputs[number][ids])
    report = found.report.subset
    assert (report.how, report.reason) == ("reach", "as asked for")
    assert len(report.nodes) == len(report.edges) == 3
    assert max(report.edges) <= graph.num_edges


def test_rows_by_node_type(run, graph, x):
    spans = dict(zip(graph.ntype_names, itertools.pairwise(graph.node_offsets), strict=True))
    nodes = {name: torch.tensor([b - a - 1, 0]) for name, (a, b) in spans.items() if b > a}
    whole = run({name: x[a:b] for name, (a, b) in spans.items()})
    found = run(x, nodes=nodes, subset="reach")
    assert found.out.keys() == nodes.keys()
    for name, ids in nodes.items():
        same(found.out[name], whole.out[name][ids])


@pytest.mark.parametrize("subset", ["full", "reach"])
def test_all_rows_of_a_node_type(run, graph, x, subset):
    spans = dict(zip(graph.ntype_names, itertools.pairwise(graph.node_offsets), strict=True))
    last, (first, end) = list(spans.items())[-1]
    found = run(x, nodes={last: None}, subset=subset).out
    assert found[last].untyped_storage().nbytes() == found[last].nbytes
    assert found.keys() == {last}
    expected = run(x, nodes={last: torch.arange(end - first)}, subset=subset).out
    assert torch.equal(found[last], expected[last])


def test_all_rows_cannot_be_reached(run, x):
    assert run(x).report.subset is None
    with pytest.raises(InputError, match="nodes are missing"):
        run(x, subset="reach")


def costs(monkeypatch, step=0.0, edge=0.0, node=0.0):
    for name, value in (("STEP", step), ("EDGE", edge), ("NODE", node)):
        monkeypatch.setattr(subsets, f"{name}_SECONDS", value or 1e-30)


LARGE = generate("aifb")
LARGE_X = torch.randn(LARGE.num_nodes, 4, generator=torch.Generator().manual_seed(0))
NODE = torch.tensor([LARGE.num_nodes - 1])


@pytest.fixture
def large(service):
    service.models.add("large", 1, *describe([nn.RGCN(4, 4, LARGE.num_etypes)] * 2))
    return lambda **kwargs: service.inference.run("large", LARGE, LARGE_X, nodes=NODE, **kwargs)


def test_the_cheaper_way_is_taken(large, monkeypatch):
    costs(monkeypatch)
    found = large()
    report = found.report.subset
    assert report.how == "reach"
    assert report.reach_seconds < report.full_seconds
    assert report.reach_seconds == pytest.approx(
        sum(layer.predicted_seconds for layer in found.report.layers)
    )
    same(found.out, large(subset="full").out)
    assert large(subset="full").report.subset.how == "full"


@pytest.mark.parametrize(
    ("cost", "reason"),
    [
        ({"edge": 1.0}, "too much of the graph"),
        ({"node": 1.0}, "cutting out"),
        ({"step": 1.0}, "too much of the graph"),
    ],
    ids=str,
)
def test_what_costs_too_much_to_cut_out_is_not(large, monkeypatch, cost, reason):
    costs(monkeypatch, **cost)
    report = large().report.subset
    assert report.how == "full"
    assert reason in report.reason
    assert report.full_seconds > 0


def test_the_whole_run_is_taken_where_it_is_predicted_to_be_faster(large, monkeypatch):
    costs(monkeypatch)
    whole = large(subset="full").report
    seconds = sum(layer.predicted_seconds for layer in whole.layers)
    costs(monkeypatch, step=seconds * 0.499999)
    report = large().report.subset
    assert (report.how, report.reason) == ("full", "the whole run is predicted to be faster")
    assert report.reach_seconds > report.full_seconds


def test_what_only_fits_by_reach_is_reached(large):
    peak = max(layer.peak_bytes for layer in large(subset="reach").report.layers)
    with pytest.raises(MemoryLimitError):
        large(subset="full", memory_limit=peak)
    report = large(memory_limit=peak).report.subset
    assert (report.how, report.full_seconds) == ("reach", None)
    with pytest.raises(MemoryLimitError):
        large(memory_limit=1)


def test_variants_can_be_asked_for(large):
    names = [layer.variant for layer in large(subset="full").report.layers]
    found = large(subset="reach", variants=names)
    assert [layer.variant for layer in found.report.layers] == names


def test_over_http(service, large):
    key = service.graphs.add(LARGE)
    large(subset="full")
    body = {"graph": key, "subset": "reach", "explain": True}
    content = pack(json.dumps(body), {"x": LARGE_X, "nodes": NODE})
    wrong = pack(json.dumps(body | {"subset": "some"}), {"x": LARGE_X})
    headers = {"Content-Type": "application/x-safetensors"}
    with (
        serving(application(service)) as url,
        httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60) as http,
    ):
        answer, refused = (
            http.post("/v1/models/large/infer", content=given) for given in (content, wrong)
        )
    assert refused.status_code == 400
    message = unpack(answer.content)
    report = json.loads(message.document)
    assert report["subset"]["how"] == "reach"
    assert report["subset"]["nodes"][-1] < LARGE.num_nodes
    assert report["layers"][0]["explanation"]["candidates"]
    assert torch.equal(message.tensors["out/1"], large(subset="reach").out)
