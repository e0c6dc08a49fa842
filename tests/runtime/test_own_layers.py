"""Layers of one's own: weights by node type, on graphs whose types are not the same ones."""

from __future__ import annotations

import weakref

import pytest
import torch

from hetune.nn import RGCN
from hetune.variants.errors import InputError
from hetune.variants.frontend.nn import FlatLayer
from hetune.variants.frontend.trace import etype, node, ntype
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime import weights as kept
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.unusual import node_biases, typed_keys

pytestmark = pytest.mark.usefixtures("no_grad")
WIDTH, TYPES = 4, 2


class Own(FlatLayer):
    """A program with weights of its own."""

    kind = "rgcn"

    def __init__(self, program, **weights: tuple[int, ...]) -> None:
        super().__init__()
        self.in_channels = self.out_channels = WIDTH
        self.num_relations, self.options = 2, {}
        self._program = program
        draw = torch.Generator().manual_seed(0)
        for name, shape in weights.items():
            drawn = torch.nn.Parameter(torch.randn(*shape, generator=draw))
            self.register_parameter(name, drawn)

    def program(self):
        return self._program

    def _parts(self):
        return dict(self.named_parameters())


def keys() -> Own:
    """What is computed of its weights tells an edge type by the node type that it leads to."""
    program = typed_keys(x=node(WIDTH), w=etype(WIDTH, WIDTH), key=ntype(WIDTH))
    return Own(program, w=(2, WIDTH, WIDTH), key=(TYPES, WIDTH))


def biases() -> Own:
    """Its weights are read as they are."""
    program = node_biases(x=node(WIDTH), n=ntype(WIDTH, 5), b=ntype(), w=etype(5, WIDTH))
    return Own(program, n=(TYPES, WIDTH, 5), b=(TYPES,), w=(2, 5, WIDTH))


def one_way() -> HeteroGraph:
    return typed_graph((20, 30), [(0, 1, 60), (1, 0, 50)])


def other_way() -> HeteroGraph:
    return typed_graph((20, 30), [(1, 0, 50), (0, 1, 60)])


def three_types() -> HeteroGraph:
    return typed_graph((20, 10, 20), [(0, 1, 60), (1, 0, 50)])


def rows_for(graph: HeteroGraph) -> torch.Tensor:
    return torch.randn(graph.num_nodes, WIDTH, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("make", [keys, biases])
def test_each_graph_has_the_weights_of_its_own_types(make):
    module = make()
    layer = compile_layer(module, backend="torch")
    for graph in (one_way(), other_way(), one_way()):
        x = rows_for(graph)
        expected = module(x, graph)
        for variant in layer.variants:
            torch.testing.assert_close(layer(x, graph, variant=variant), expected)


@pytest.fixture
def made(monkeypatch) -> list[weakref.ref[torch.Tensor]]:
    """The weights that were made, one of each time."""
    found = []

    def noted(*args):
        weights = weights_of(*args)
        found.append(weakref.ref(next(iter(weights.values()))))
        return weights

    weights_of = kept.weights_of
    monkeypatch.setattr(kept, "weights_of", noted)
    return found


@pytest.mark.parametrize("make", [keys, biases, lambda: RGCN(WIDTH, WIDTH, 2)])
def test_graphs_of_equal_types_share_weights(make, made):
    """As batches of one large graph do."""
    layer = compile_layer(make(), backend="torch")
    for graph in (one_way(), one_way()):
        layer(rows_for(graph), graph, variant=layer.variants[0])
    assert len(made) == 1


def test_weights_of_earlier_parameters_are_let_go(made):
    module, graph = keys(), one_way()
    layer = compile_layer(module, backend="torch")
    for variant in layer.variants:
        layer(rows_for(graph), graph, variant=variant)
    assert len(made) > 1
    assert all(weights() is not None for weights in made)
    module.w.mul_(2)
    layer(rows_for(graph), graph, variant=layer.variants[0])
    *earlier, now = made
    assert now() is not None
    assert all(weights() is None for weights in earlier)


@pytest.mark.parametrize("make", [keys, biases])
def test_more_node_types_than_it_has_weights_for(make):
    """Kernels would read past the end of its weights."""
    layer, graph = compile_layer(make(), backend="torch"), three_types()
    layer(rows_for(one_way()), one_way())
    for variant in layer.variants:
        with pytest.raises(InputError, match=r"needs the shape \[3"):
            layer(rows_for(graph), graph, variant=variant)
