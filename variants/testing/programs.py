"""Programs of the three layers in their options, of kernels, and of layers nobody asked for."""

from __future__ import annotations

from types import MappingProxyType

import torch
from torch import Tensor

from hetune.variants.frontend.functions import dot, leaky_relu, relu, sigmoid, softmax, tanh
from hetune.variants.frontend.kernels import (
    aggregate_program,
    attention_program,
    linear_program,
)
from hetune.variants.frontend.layer_options import LAYER_PROGRAMS
from hetune.variants.frontend.trace import (
    Graph,
    Value,
    edge,
    etype,
    layer_program,
    node,
    ntype,
    shared,
)
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.nodes import Program, Space, Type
from hetune.variants.testing.unusual import UNUSUAL


@layer_program
def edge_weighted(g: Graph, x: Value, c: Value, w: Value, *, factor: float) -> Value:
    """Edge weights that are given, per head or not."""
    return relu(g.sum(c * (g.src(x) @ w)) * factor)


@layer_program
def biased(g: Graph, x: Value, c: Value, p: Value, w: Value, b: Value) -> Value:
    """Messages with a bias of their edge type, weighted in several ways."""
    message = g.src(x) @ w + b
    several = g.sum(p * (c * message)) + g.sum(c * (softmax(c, over=g.nodes) * message))
    return several + g.sum(p * message) + g.mean(message) + g.sum(message)


@layer_program
def both_ends(g: Graph, x: Value, w: Value, u: Value, a: Value) -> Value:
    """Messages that need both ends of an edge, and a score of their own."""
    message = leaky_relu(g.src(x) @ w + g.dst(x) @ u, 0.1)
    return g.sum(softmax(dot(message, a), over=g.nodes) * message)


@layer_program
def typed_sums(g: Graph, x: Value, c: Value, w: Value, u: Value) -> Value:
    """Typed maps of rows that are no node's own: sums of both ends, and given rows of edges."""
    both = g.src(x) + g.dst(x)
    return g.mean(relu(both @ w)) + g.sum(both @ u) + g.sum(c @ w) + g.sum(g.dst(x) @ u)


@layer_program
def products_of_sums(g: Graph, x: Value, w: Value, u: Value, v: Value, b: Value) -> Value:
    """Node products of aggregated rows, after others into the same result."""
    summed = g.sum(g.src(x) @ w)
    return x @ u + relu(summed) @ v + tanh(summed) @ u + b


@layer_program
def two_layers(g: Graph, x: Value, w: Value, u: Value, v: Value) -> Value:
    """Rows that were summed at one node are read at another."""
    hidden = relu(g.mean(g.src(x) @ w) + x @ v)
    return g.sum(g.src(hidden) @ u) + hidden


@layer_program
def doubly_weighted(g: Graph, x: Value, c: Value, w: Value, p: Value) -> Value:
    """Messages with several factors: given, learned, and per pair."""
    share = 1 / g.count(g.dst_pairs)
    return g.sum(c * (softmax(c * p, over=g.dst_pairs) * (g.src(x) @ w))) + g.sum(
        g.sum(g.src(x) @ w, over=g.dst_pairs) * share
    )


@layer_program
def degrees(g: Graph, x: Value, w: Value) -> Value:
    """Rows are scaled by their nodes' in-degrees, at both ends."""
    scale = sigmoid(-g.count())
    return g.sum(g.src(scale) * (g.dst(scale) * (g.src(x) @ w)))


PROGRAMS: MappingProxyType[str, Program] = MappingProxyType(
    {
        **LAYER_PROGRAMS,
        "linear": linear_program(6, 4),
        "aggregate": aggregate_program(6),
        "attention": attention_program(6),
        "attention, 2 heads": attention_program(6, 2),
        "edge weights": edge_weighted(x=node(6), c=edge(), w=etype(6, 4), factor=0.5),
        "edge weights, heads": edge_weighted(x=node(6), c=edge(2), w=etype(6, 2, 4), factor=1.0),
        "edge weights, shared map": edge_weighted(x=node(6), c=edge(), w=shared(6, 4), factor=2.0),
        "biased messages": biased(x=node(6), c=edge(), p=etype(), w=etype(6, 4), b=etype(4)),
        "both ends": both_ends(x=node(6), w=etype(6, 4), u=etype(6, 4), a=shared(4)),
        "typed sums": typed_sums(x=node(6), c=edge(6), w=etype(6, 4), u=etype(6, 4)),
        "products of sums": products_of_sums(
            x=node(4), w=etype(4, 4), u=shared(4, 4), v=ntype(4, 4), b=ntype(4)
        ),
        "two layers": two_layers(x=node(5), w=etype(5, 4), u=etype(4, 4), v=ntype(5, 4)),
        "doubly weighted": doubly_weighted(x=node(4), c=edge(), w=etype(4, 3), p=etype()),
        "degrees": degrees(x=node(4), w=etype(4, 3)),
        **UNUSUAL,
    }
)
"""By name."""


def random_parameters(program: Program, graph: HeteroGraph, seed: int = 0) -> dict[str, Tensor]:
    """A tensor [rows, *row shape] of signed numbers, float64 but exact in float32, for each."""
    draw = torch.Generator().manual_seed(seed)
    return {
        param.name: torch.randn((_rows(param.type, graph), *param.type.shape), generator=draw)
        .double()
        for param in program.params
    }  # fmt: skip


def _rows(kind: Type, graph: HeteroGraph) -> int:
    counts = {
        Space.NODE: graph.num_targets,
        Space.SOURCE: graph.num_sources,
        Space.EDGE: graph.num_edges,
        Space.NTYPE: graph.num_ntypes,
        Space.ETYPE: graph.num_etypes,
        Space.SHARED: 1,
    }
    return counts[kind.space]
