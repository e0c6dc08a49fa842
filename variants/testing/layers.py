"""The three layers in the shapes that conformance asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hetune.variants.frontend.nn import HGT, RGAT, RGCN, RelationalLayer
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.testing.edge_loop import Weights, hgt_loop, rgat_loop, rgcn_loop

WIDTHS = (1, 7, 16, 63, 64, 65, 128)
HEADS = (1, 2, 4)

Loop = Callable[[Weights, Tensor, HeteroGraph], Tensor]


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer to test.

    Attributes:
        name: Of its class and its option.
        heads: Numbers of heads that it can have.
        make: From a graph, a width and a number of heads to the module.
        loop: What it computes, edge by edge.
    """

    name: str
    heads: tuple[int, ...]
    make: Callable[[HeteroGraph, int, int], RelationalLayer]
    loop: Loop


def hgt_widths(width: int, heads: int) -> tuple[int, int]:
    """Input and output width: equal, or else that many for each head."""
    return width, width if width % heads == 0 else width * heads


def randomized(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module, with signed random numbers in every parameter: biases, gates and priors too."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            fan = parameter.shape[-2] if parameter.dim() > 1 else 1
            parameter.copy_(torch.randn(parameter.shape, generator=draw) / fan**0.5)
    return module


def _name(kind: type[RelationalLayer]) -> str:
    return kind.__name__.lower()


def _rgcn(aggr: str) -> Layer:
    def make(graph: HeteroGraph, width: int, heads: int) -> RelationalLayer:
        return RGCN(width, width, graph.num_etypes, aggr=aggr)

    def loop(weights: Weights, x: Tensor, graph: HeteroGraph) -> Tensor:
        return rgcn_loop(weights, x, graph, mean=aggr == "mean")

    return Layer(f"{_name(RGCN)}-{aggr}", (1,), make, loop)


def _rgat(softmax: str) -> Layer:
    def make(graph: HeteroGraph, width: int, heads: int) -> RelationalLayer:
        return RGAT(
            width, width, graph.num_etypes, heads=heads, softmax=softmax, attention="shared"
        )

    def loop(weights: Weights, x: Tensor, graph: HeteroGraph) -> Tensor:
        return rgat_loop(weights, x, graph, within=softmax == "within")

    return Layer(f"{_name(RGAT)}-{softmax}", HEADS, make, loop)


def _hgt() -> Layer:
    def make(graph: HeteroGraph, width: int, heads: int) -> RelationalLayer:
        return HGT(*hgt_widths(width, heads), graph.metadata(), heads)

    return Layer(_name(HGT), HEADS, make, hgt_loop)


LAYERS = {
    layer.name: layer
    for layer in (_rgcn("add"), _rgcn("mean"), _rgat("across"), _rgat("within"), _hgt())
}
"""The layers by name."""
