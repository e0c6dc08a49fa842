"""A model that holds layers says how to compile these."""

from __future__ import annotations

import re

import pytest
import torch

import hetune
from hetune import nn
from hetune.variants.errors import VariantError
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.fallback import FallbackWarning

geometric = pytest.importorskip("torch_geometric.nn")
pytestmark = pytest.mark.usefixtures("no_grad")


class Net(torch.nn.Module):
    def __init__(self, *layers, **named):
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)
        self.first, self.layers = layers[0], torch.nn.ModuleList(layers[1:])
        self.block = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ModuleDict(named))

    def forward(self, x, graph):
        for layer in (self.first, *self.layers, *self.block[1].values()):
            x = layer(self.lin(x), graph)
        return x


def compiled_as_told(net: torch.nn.Module) -> str:
    """Follows the warning that compiling a model gives."""
    with pytest.warns(FallbackWarning) as caught:
        hetune.compile(net, backend="torch")
    text = str(caught[0].message)
    for target, value in re.findall(r"(net\S+|net\S+\['.*?'\]) = hetune\.compile\((.*?)\)", text):
        assert target == value
        exec(f"{target} = compile({value})", {"net": net, "compile": compiled})
    return text


def compiled(layer: torch.nn.Module) -> CompiledLayer:
    return hetune.compile(layer, backend="torch")


def test_what_it_says_compiles_the_layers_in_their_places(x, graph):
    net = Net(nn.RGCN(8, 8, 3), nn.RGAT(8, 8, 3), nn.RGCN(8, 8, 3), last=nn.RGCN(8, 8, 3))
    expected = net(x, graph)
    text = compiled_as_told(net)
    assert text.startswith("Net runs uncompiled: modules of type ")
    assert ".Net are not supported; its layers of type RGAT and RGCN are. Compile them in" in text
    places = [net.first, *net.layers, net.block[1]["last"]]
    assert all(isinstance(layer, CompiledLayer) for layer in places)
    assert not isinstance(net.lin, CompiledLayer)
    torch.testing.assert_close(net(x, graph), expected)
    with pytest.warns(FallbackWarning, match="are not supported$"):
        hetune.compile(net)  # nothing is left to compile


def test_explaining_says_it_too(x, graph):
    net = Net(geometric.RGCNConv(8, 8, 3))
    with pytest.warns(FallbackWarning):
        layer = hetune.compile(net)
    with pytest.raises(VariantError, match=r"net\.first = hetune\.compile\(net\.first\)$"):
        layer.explain(x, graph)


def test_lazy_layers_are_named_and_many_are_counted():
    lazy = geometric.HGTConv(-1, 8, (["a"], [("a", "r", "a")]))
    net = Net(lazy, *[nn.RGCN(8, 8, 3) for _ in range(9)])
    with pytest.warns(FallbackWarning, match=r"net\.first = .*; and 2 more alike"):
        hetune.compile(net)


def test_a_call_warns_no_second_time(x, graph, recwarn):
    net = Net(nn.RGCN(8, 8, 3))
    layer = hetune.compile(net)
    layer(x, graph)
    assert len([w for w in recwarn if w.category is FallbackWarning]) == 1
