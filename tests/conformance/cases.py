"""A layer with its parameters, a graph, and what must come out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from hetune.variants.frontend.adapt import adapt
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.testing.conformance import features
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.layers import LAYERS, randomized

from . import pyg


@dataclass(frozen=True, eq=False)
class Case:
    """PyG's layer on a graph; ``expected`` are the results of PyG and of the edge loop."""

    module: nn.Module
    graph: HeteroGraph
    expected: tuple[Tensor, ...]


def make_case(name: str, graph: HeteroGraph, width: int, heads: int, seed: int = 0) -> Case:
    """The case of a layer on a graph, for `features` of the same seed."""
    module = randomized(pyg.make(name, graph, width, heads), seed).eval()
    x = features(module, graph, seed)
    looped = LAYERS[name].loop(adapt(module).weights(), x, graph)
    return Case(module, graph, (looped, pyg.run(module, x, graph, looped)))


@cache
def matrix_graph() -> HeteroGraph:
    """Two blocks of nodes, a hub, isolated nodes, duplicates, a relation without edges."""

    def to_few(src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
        return src, torch.where(torch.arange(len(dst)) % 4 == 0, 0, dst)

    relations = [(0, 0, 60), (0, 1, 50), (1, 0, 40), (1, 2, 0), (2, 2, 45), (2, 0, 20)]
    return typed_graph((220, 70, 10), relations, ends=to_few)


@cache
def matrix_case(name: str, width: int, heads: int) -> Case:
    """The case of a layer on `matrix_graph`; backends share it."""
    return make_case(name, matrix_graph(), width, heads)


SHAPES = [(name, heads) for name, layer in LAYERS.items() for heads in layer.heads]
"""Each layer with each number of heads that it can have."""
