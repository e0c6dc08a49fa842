"""PyG's `HGTConv(-1)`, whose width is that of the first call."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch

from hetune.variants.errors import InputError, VariantError
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.conformance import TOLERANCE, relative_error

from ._advice import by_type

geometric = pytest.importorskip("torch_geometric.nn")
pytestmark = pytest.mark.usefixtures("no_grad")


@pytest.fixture
def layer(graph):
    with pytest.warns(FallbackWarning, match="call the module once"):
        return compile_layer(geometric.HGTConv(-1, 8, graph.metadata()).eval(), backend="torch")


def check(layer, found, rows, edges):
    expected = layer.module(rows, edges)
    assert found.keys() == expected.keys()
    for name in found:
        assert relative_error(found[name], expected[name].double()) <= TOLERANCE


def test_the_first_call_may_have_a_graph(layer, graph, x):
    rows, edges = by_type(x, graph)
    with pytest.raises(VariantError, match="call the module once"):
        layer.warm(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        check(layer, layer(rows, graph), rows, edges)
    assert layer.warm(graph)
    assert layer.explain(rows, graph).id in layer.variants


@pytest.mark.parametrize("named", [False, True])
def test_parameters_are_those_of_pygs_own_first_call(named, layer, graph, x):
    twin = geometric.HGTConv(-1, 8, graph.metadata())
    twin.load_state_dict(layer.state_dict())
    rows, edges = by_type(x, graph)
    torch.manual_seed(1)
    layer(x_dict=rows, edge_index_dict=graph) if named else layer(x, graph)
    torch.manual_seed(1)
    twin(rows, edges)
    found, expected = layer.state_dict(), twin.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_graph_of_other_types_initializes_nothing(layer, graph, x):
    rows, edges = by_type(x, graph)
    with pytest.raises(InputError, match="takes no HeteroGraph"):
        layer({f"another {name}": each for name, each in rows.items()}, graph)
    check(layer, layer(rows, edges), rows, edges)


def test_what_was_loaded_runs_compiled_at_once(layer, graph, x):
    rows, edges = by_type(x, graph)
    layer.load_state_dict(geometric.HGTConv(8, 8, graph.metadata()).state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        found = layer(rows, edges, variant=None)
        layer.explain(rows, edges)
    check(layer, found, rows, edges)


def test_hooks_of_others_still_count(layer, graph, x):
    layer.load_state_dict(geometric.HGTConv(8, 8, graph.metadata()).state_dict())
    layer.module.kqv_lin.register_forward_pre_hook(lambda module, args: None)
    with pytest.raises(VariantError, match=r"hooks are registered on kqv_lin \(_forward_pre_hooks"):
        layer.explain(x, graph)


def test_a_graph_goes_to_the_module_as_its_dictionary(layer, graph, x):
    """Where one of its parts was replaced, for one."""
    rows, edges = by_type(x, graph)
    layer(rows, graph)
    layer.module.kqv_lin = copy.deepcopy(layer.module.kqv_lin)
    with pytest.warns(FallbackWarning, match="kqv_lin was replaced"):
        found = layer(rows, graph)
    check(layer, found, rows, {key: edges[key] for key in graph.metadata()[1]})
