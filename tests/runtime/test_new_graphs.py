"""Graphs that are new in every call, and those that come back."""

from __future__ import annotations

import re

import pytest
import torch

from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.errors import GraphError, InputError
from hetune.variants.graph.convert.edge_index_dict import to_edge_index_dict
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.cost_estimates import RooflineEstimator
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.runtime.small_runs import SmallRuns
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")
pytestmark = pytest.mark.usefixtures("no_grad")

KINDS = ["RGCNConv", "FastRGCNConv", "RGATConv"]


@pytest.fixture
def counts(monkeypatch):
    """How many graphs were made, or taken in place of one before, and runs of kernels."""
    found = {"graphs": 0, "runs": 0}
    init, run, small = HeteroGraph.__init__, Executable.run, SmallRuns.run

    def made(self, *args, **kwargs):
        found["graphs"] += 1
        init(self, *args, **kwargs)

    def ran(self, *args, **kwargs):
        found["runs"] += 1
        return run(self, *args, **kwargs)

    def ran_small(self, *args):
        found["graphs"] += 1
        found["runs"] += 1
        return small(self, *args)

    monkeypatch.setattr(SmallRuns, "run", ran_small)
    monkeypatch.setattr(HeteroGraph, "__init__", made)
    monkeypatch.setattr(Executable, "run", ran)
    return found


def fresh(edges):
    return tuple(ids.clone() for ids in edges)


def close(found, expected):
    return relative_error(found, expected.double()) <= TOLERANCE


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_new_tensors_are_new_graphs(kind, dynamic, x, edges, counts):
    module = randomized(getattr(geometric, kind)(8, 8, 3)).eval()
    layer, expected = compile_layer(module, dynamic=dynamic), module(x, *edges)
    for calls in range(1, 4):
        assert close(layer(x, *fresh(edges)), expected)
        assert counts == {"graphs": calls, "runs": calls}
    layer(x, edges[0], edges[1].clone())  # and so are new types of old edges
    layer(x, *edges)
    assert counts == {"graphs": 5, "runs": 5}


def test_what_came_back_is_known_among_many_new_graphs(rgcn, x, edges, counts):
    layer = compile_layer(rgcn)
    for _ in range(30):
        layer(x, *edges)
        edge_index, edge_type = fresh(edges)
        layer(x, edge_index, edge_type=edge_type)
    assert counts == {"graphs": 31, "runs": 60}


@pytest.mark.parametrize("inference", [False, True])
def test_what_comes_back_runs_compiled(inference, rgcn, x, edges, counts):
    with torch.inference_mode() if inference else torch.no_grad():
        edges = fresh(edges)
        layer, expected = compile_layer(rgcn), rgcn(x, *edges)
        for runs in range(1, 4):
            assert close(layer(x, *edges), expected)
            assert counts["runs"] == runs
    assert counts["graphs"] == 1


def test_what_was_written_to_meanwhile(rgcn, x, edges, counts):
    layer = compile_layer(rgcn)
    layer(x, *edges)
    edges[1].numpy()[:] = edges[1].numpy()[::-1].copy()
    assert close(layer(x, *edges), rgcn(x, *edges))
    assert counts == {"graphs": 2, "runs": 2}


def test_dictionaries(x, graph, counts):
    module = randomized(geometric.HGTConv(8, 8, graph.metadata())).eval()
    layer, lists = compile_layer(module), to_edge_index_dict(graph)
    x_dict = dict(zip(graph.ntype_names, x.split([30, 20]), strict=True))
    expected = module(x_dict, lists)
    for runs in range(1, 3):
        found = layer(x_dict, lists)
        assert all(close(found[name], expected[name]) for name in expected)
        assert counts["runs"] == runs


def test_the_model_is_not_asked_for_every_graph(rgcn, x, monkeypatch):
    """Although what would usually run meanwhile has never been compiled."""
    monkeypatch.setattr(TorchBackend, "is_ready", lambda *of: False)
    asked = []

    class Asked(RooflineEstimator):
        def estimate(self, *given):
            asked.append(given)
            return super().estimate(*given)

    layer = compile_layer(rgcn, backend="torch", estimator=Asked(estimating_seconds=3600.0))
    for _ in range(3):
        layer(x, typed_graph((30, 20), [(0, 1, 60), (1, 0, 50), (0, 0, 40)]))
    assert len(asked) == 1


SPOILED = {
    "a node": (lambda x, i, t: (x, i + 45, t), GraphError, r"edge_index\["),
    "a negative node": (lambda x, i, t: (x, i - 1, t), GraphError, r"edge_index\["),
    "an edge type": (lambda x, i, t: (x, i, t + 1), GraphError, r"edge_type\["),
    "fewer edge types": (lambda x, i, t: (x, i, t[1:]), GraphError, r"edge_type has shape \[149\]"),
    "a width": (lambda x, i, t: (x[:, 1:], i, t), InputError, "x has the shape"),
}


@pytest.mark.parametrize(("spoil", "kind", "message"), SPOILED.values(), ids=SPOILED)
@pytest.mark.parametrize("layer", KINDS)
def test_what_is_wrong_is_said_as_ever(layer, spoil, kind, message, x, edges):
    compiled = compile_layer(getattr(geometric, layer)(8, 8, 3).eval())
    with pytest.raises(kind, match=message):
        compiled(*spoil(x, *edges))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [-1, 3])
def test_the_last_of_more_types_than_are_compared_one_by_one_is_wrong(kind, wrong, x, edges):
    compiled = compile_layer(getattr(geometric, kind)(8, 8, 3).eval())
    edge_index, edge_type = (ids.repeat_interleave(4, -1) for ids in edges)
    edge_type[-1] = wrong
    with pytest.raises(GraphError, match=rf"edge_type\[599\] is {wrong}"):
        compiled(x, edge_index, edge_type)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x, i, t: (x[0, 0], i, t),
        lambda x, i, t: (x, i[0, 0], t[0]),
        lambda x, i, t: (x, i.view(2, 50, 3), t.view(50, 3)),
    ],
    ids=["features", "edges", "a batch of edges"],
)
def test_tensors_of_other_dimensions_fail_as_in_the_module(spoil, rgcn, x, edges):
    check_fails_as(rgcn, spoil(x, *edges))


@pytest.mark.parametrize("ends", [1, 3])
def test_lists_of_edges_without_two_ends_fail_as_in_the_module(ends, x, graph):
    module = geometric.HGTConv(8, 8, graph.metadata()).eval()
    x_dict = dict(zip(graph.ntype_names, x.split([30, 20]), strict=True))
    lists = {key: ids.new_zeros(ends, 4) for key, ids in to_edge_index_dict(graph).items()}
    check_fails_as(module, (x_dict, lists))


def check_fails_as(module, args):
    """The compiled layer raises what the module raises."""
    with pytest.raises(Exception) as expected:
        module(*args)
    with (
        pytest.warns(FallbackWarning),
        pytest.raises(expected.type, match=re.escape(str(expected.value))),
    ):
        compile_layer(module)(*args)


@pytest.mark.parametrize("times", [1, 4], ids=["one by one", "by operators"])
@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("wrong", [-1, 30])
def test_a_node_of_another_type_is_an_error(wrong, end, times, x, graph):
    layer = compile_layer(geometric.HGTConv(8, 8, graph.metadata()).eval())
    lists = to_edge_index_dict(graph)
    lists = {key: ids.repeat_interleave(times, 1) for key, ids in lists.items()}
    x_dict = dict(zip(graph.ntype_names, x.split([30, 20]), strict=True))
    next(iter(lists.values()))[end, -1] = wrong
    with pytest.raises(GraphError):
        layer(x_dict, lists)
