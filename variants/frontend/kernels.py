"""Single kernels as programs of their own: what layers are made of, each without the others."""

from __future__ import annotations

import math

from hetune.variants.errors import ProgramError
from hetune.variants.frontend.functions import dot, softmax
from hetune.variants.frontend.trace import Graph, Value, layer_program, node, ntype
from hetune.variants.program.nodes import Program


@layer_program
def linear(g: Graph, x: Value, w: Value) -> Value:
    """Each node's row times the matrix of its node type."""
    return x @ w


@layer_program
def aggregate(g: Graph, x: Value) -> Value:
    """For each node the sum, over relations, of the mean of its neighbors' rows."""
    return g.mean(g.src(x))


@layer_program
def attention(g: Graph, x: Value, *, temperature: float) -> Value:
    """Neighbors' rows, weighted by the softmax of their products with the node's own row."""
    row = g.src(x)
    alpha = softmax(dot(row, g.dst(x)) / temperature, over=g.nodes)
    return g.sum(alpha * row)


def linear_program(d_in: int, d_out: int) -> Program:
    """A typed product: parameters x, ``node[d_in]``, and w, ``ntype[d_in, d_out]``."""
    return linear(x=node(d_in), w=ntype(d_in, d_out))


def aggregate_program(width: int) -> Program:
    """A walk over edges that adds up rows: parameter x, ``node[width]``."""
    return aggregate(x=node(width))


def attention_program(width: int, heads: int = 1) -> Program:
    """A softmax over edges and the sum that it weights: parameter x, ``node[H, width / H]``.

    Args:
        width: Width of a row, all heads together.
        heads: Number of heads (H); with one the rows have no head axis.

    Raises:
        ProgramError: The width does not divide into the heads.
    """
    if width % heads:
        raise ProgramError(f"width {width} does not divide into {heads} heads: take a multiple")
    depth = width // heads
    row = (heads, depth) if heads > 1 else (depth,)
    return attention(x=node(*row), temperature=math.sqrt(depth))
