"""Tensors whose numbers are not what lies in their memory: negated as they are read, or zeros."""

from __future__ import annotations

import pytest
import torch

from hetune import nn as hetune_nn
from hetune.service.core.formats.message import Pieces, pack, unpack
from hetune.variants.errors import InputError
from hetune.variants.graph.convert.edge_index_dict import to_edge_index_dict
from hetune.variants.graph.edit import edited
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")
pytestmark = pytest.mark.usefixtures("no_grad")


def negated(tensor: torch.Tensor) -> torch.Tensor:
    """An equal tensor, whose memory holds the opposite."""
    return torch._neg_view(-tensor)


def conjugated(tensor: torch.Tensor) -> torch.Tensor:
    """An equal tensor as users come by it, with strides and an offset."""
    return torch.complex(tensor, -tensor).conj().imag


def zeros(tensor: torch.Tensor) -> torch.Tensor:
    return torch._efficientzerotensor(tensor.shape, dtype=tensor.dtype)


LAZY = {"negated": negated, "of a conjugate": conjugated, "without memory": zeros}


def close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return relative_error(found, expected.double()) <= TOLERANCE


@pytest.mark.parametrize("lazy", LAZY.values(), ids=LAZY)
@pytest.mark.parametrize("backend", ["cpp", "torch"])
def test_features(backend, lazy, rgcn, x, edges, graph):
    layer = compile_layer(rgcn, backend=backend)
    for rows in (lazy(x), lazy(torch.cat((x, x)))[50:], lazy(x.T.contiguous()).T):
        for variant in layer.variants:
            assert close(layer(rows, graph, variant=variant), rgcn(rows, *edges))


@pytest.mark.parametrize("name", ["weight", "comp", "root", "bias"])
@pytest.mark.parametrize("lazy", LAZY.values(), ids=LAZY)
def test_parameters(lazy, name, x, edges):
    module = randomized(geometric.RGCNConv(8, 8, 3, num_bases=2)).eval()
    layer = compile_layer(module, expected_runs=1)
    layer(x, *edges)
    setattr(module, name, torch.nn.Parameter(lazy(getattr(module, name).detach())))
    assert close(layer(x, *edges), module(x, *edges))
    assert close(compile_layer(module, expected_runs=1)(x, *edges), module(x, *edges))


def test_a_bit_that_is_set_later_is_seen(rgcn, x, edges):
    layer = compile_layer(rgcn, expected_runs=1)
    layer(x, *edges)
    rgcn.weight.data = torch._neg_view(rgcn.weight.data)
    assert close(layer(x, *edges), rgcn(x, *edges))
    with torch.inference_mode():
        assert close(layer(x, *edges), rgcn(x, *edges))


@pytest.mark.parametrize("lazy", [negated, zeros])
@pytest.mark.parametrize("inference", [False, True])
def test_edges(inference, lazy, rgcn, x, edges):
    with torch.inference_mode() if inference else torch.no_grad():
        given = lazy(edges[0]), lazy(edges[1])
        layer = compile_layer(rgcn, expected_runs=1)
        expected = rgcn(x, *(ids.clone() for ids in given))
        for _ in range(2):
            assert close(layer(x, *given), expected)


def test_edges_that_are_added(graph):
    added = {graph.etype_names[1]: torch.tensor([[1], [2]])}
    lazy = {name: negated(ids) for name, ids in added.items()}
    assert edited(graph, add=lazy).fingerprint == edited(graph, add=added).fingerprint


def test_dictionaries(x, graph):
    module = randomized(hetune_nn.HGT(8, 8, graph.metadata(), heads=2))
    layer = compile_layer(module)
    first, second = x.split([30, 20])
    whole = torch.cat((first, -second))  # rows that lie in a row, half of which are negated
    x_dict = dict(zip(graph.ntype_names, (whole[:30], torch._neg_view(whole[30:])), strict=True))
    edge_dict = {key: negated(ids) for key, ids in to_edge_index_dict(graph).items()}
    expected = torch.cat([*module(x_dict, graph).values()])
    assert close(torch.cat([*layer(x_dict, edge_dict).values()]), expected)


def test_what_is_written_to_has_memory(rgcn, x, graph):
    layer, out = compile_layer(rgcn), torch.empty(50, 8)
    for given in (torch._neg_view(out), zeros(out)):
        with pytest.raises(InputError, match=r"allocate it with torch\.empty"):
            layer(x, graph, out=given)


@pytest.mark.parametrize("lazy", LAZY.values(), ids=LAZY)
def test_what_is_sent(lazy, x):
    given = {"x": lazy(x), "again": lazy(x)}
    for content in (pack("{}", given), b"".join(Pieces("{}", given))):
        tensors = unpack(bytearray(content)).tensors
        assert all(torch.equal(tensors[name], rows) for name, rows in given.items())


def test_graphs(edges):
    made = HeteroGraph(*map(negated, edges[0]), negated(edges[1]), num_nodes=50)
    assert made.fingerprint == HeteroGraph(*edges[0], edges[1], num_nodes=50).fingerprint


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_are_the_modules_own_business(rgcn, edges):
    layer = compile_layer(rgcn)
    with pytest.warns(UserWarning, match="x is a nested tensor"), pytest.raises(IndexError):
        layer(torch.nested.nested_tensor([torch.ones(8), torch.ones(8)]), *edges)
