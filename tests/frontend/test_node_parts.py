"""Layers that work on some of the nodes at a time, or whose nodes have types in any order."""

from __future__ import annotations

import copy
import warnings
from unittest.mock import patch

import pytest
import torch
from torch import nn

from hetune.variants.frontend import traced_call
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning

pyg = pytest.importorskip("torch_geometric.nn")
KINDS, WIDTH = 3, 6


class ByType(pyg.MessagePassing):
    """A matrix, a bias and a scale for each type of nodes."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, 4) for _ in range(KINDS))
        self.bias = nn.Parameter(torch.randn(KINDS, 4))

    def forward(self, x, edge_index, node_type):
        h = self.typed(self.propagate(edge_index, x=x), x, node_type)
        return self.propagate(edge_index, x=h) + h


class Masked(ByType):
    def typed(self, h, x, node_type):
        out = x.new_zeros(len(x), 4)
        for i, layer in enumerate(self.layers):
            of_type = node_type == i
            out[of_type] = layer(h[of_type] + x[of_type]).relu()
        return out * self.bias[node_type]


class Numbered(ByType):
    def typed(self, h, x, node_type):
        out = torch.empty(x.size(0), 4, dtype=x.dtype)
        for i, layer in enumerate(self.layers):
            (of_type,) = (node_type == i).nonzero(as_tuple=True)
            factor = node_type[of_type].to(x.dtype)[:, None] + 1
            out.index_copy_(0, of_type, layer(x.index_select(0, of_type)) * factor)
        return out + self.bias[node_type]


class Sorted(ByType):
    def typed(self, h, x, node_type):
        types, order = torch.sort(node_type, stable=True)
        first = torch.searchsorted(types, torch.arange(KINDS + 1))
        rows, out = h[order], x.new_empty(x.size(0), 4)
        for i, layer in enumerate(self.layers):
            out[first[i] : first[i + 1]] = layer(rows[first[i] : first[i + 1]])
        out += self.bias[types]
        back = torch.zeros_like(out)
        back[order] = out
        return back


class WithTail(ByType):
    def typed(self, h, x, node_type):
        return (x @ self.layers[0].weight.t()) * self.bias[node_type]

    def forward(self, x, edge_index, node_type):
        found = super().forward(x, edge_index, node_type)
        return torch.cat([x, found], 1), found.cumsum(0)


class OnEdges(ByType):
    def forward(self, x, edge_index, node_type):
        h = (x @ self.layers[0].weight.t()) * self.bias[node_type]
        return self.edge_updater(edge_index, h=h), self.propagate(edge_index, x=h)

    def edge_update(self, h_i, h_j):
        return h_i * h_j


def calls(random):
    """Calls on graphs of several sizes: types in any order, in order, and one of no node."""
    for nodes, kinds, is_sorted in ((90, 3, False), (61, 3, False), (70, 3, True), (55, 2, False)):
        types = torch.randint(0, kinds, (nodes,), generator=random)
        yield (
            torch.randn(nodes, WIDTH, generator=random),
            torch.randint(0, nodes - 3, (2, 4 * nodes), generator=random),
            types.sort()[0] if is_sorted else types,
        )


def near(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() <= 1e-5 * other.abs().max()


@pytest.mark.parametrize("kind", [Masked, Numbered, Sorted, WithTail, OnEdges])
def test_weights_are_chosen_by_the_types_of_nodes(kind):
    torch.manual_seed(0)
    layer = kind()
    compiled = compile_layer(layer, backend="cpp" if kind is Sorted else "torch")
    exact = copy.deepcopy(layer).double()
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for x, *others in calls(torch.Generator().manual_seed(0)):
            rows = x.clone().requires_grad_(), x.double().requires_grad_()
            results = compiled(rows[0], *others), exact(rows[1], *others)
            results = [r if isinstance(r, tuple) else (r,) for r in results]
            near(*results)
            for result in results:
                sum(each.square().sum() for each in result).backward()
            wanted = [rows[1].grad, *(p.grad for p in exact.parameters() if p.grad is not None)]
            own = [rows[0].grad, *(p.grad for p in layer.parameters() if p.grad is not None)]
            near(own, wanted)
            layer.zero_grad(), exact.zero_grad()
    assert str(compiled.status()).startswith("compiled")


@torch.no_grad()
def test_new_graphs_are_not_traced_anew():
    layer = Sorted().eval()
    compiled = compile_layer(layer, backend="torch")
    random = torch.Generator().manual_seed(0)
    with patch.object(traced_call, "trace", side_effect=traced_call.trace) as traced:
        for nodes in range(40, 48):
            x, types = torch.randn(nodes, WIDTH), torch.arange(nodes).flip(0) % KINDS
            edges = torch.randint(0, nodes, (2, 5 * nodes), generator=random)
            near((compiled(x, edges, types),), (layer(x, edges, types),))
    assert traced.call_count <= 2


class Unlike(Masked):
    def typed(self, h, x, node_type):
        out = x.new_zeros(len(x), WIDTH)
        out[node_type > 0] = x[node_type > 0].relu()
        out[node_type == 0] = x[node_type == 0].tanh()
        return out


class Incomplete(Masked):
    def typed(self, h, x, node_type):
        out = x.new_zeros(len(x), WIDTH)
        out[node_type > 0] = x[node_type > 0]
        return out


class Twice(Masked):
    def typed(self, h, x, node_type):
        out = x.new_zeros(len(x), WIDTH)
        out[node_type > 0] = x[node_type > 0]
        out[node_type >= 0] = x
        return out


class Returned(Masked):
    def forward(self, x, edge_index, node_type):
        return self.propagate(edge_index, x=x)[node_type.argsort()]


REFUSED = {
    Unlike: "parts of the nodes are not all treated alike",
    Incomplete: "write those of each node once",
    Twice: "write those of each node once",
    Returned: "rows of some of the nodes, or in another order",
}


@pytest.mark.parametrize("kind", REFUSED)
@torch.no_grad()
def test_other_parts_run_uncompiled(kind):
    layer = kind().eval()
    (x, *others), *_ = calls(torch.Generator().manual_seed(0))
    with pytest.warns(FallbackWarning, match=REFUSED[kind]):
        found = compile_layer(layer, backend="torch")(x, *others)
    assert torch.equal(found, layer(x, *others))
