"""Layers of graphs with one type of edges as programs: what tracing makes of such layers.

They are measured for cost models; whoever runs one compiles a module, which is traced.
"""

from __future__ import annotations

from hetune.variants.frontend.functions import dot, leaky_relu, relu, softmax
from hetune.variants.frontend.trace import (
    Graph,
    Value,
    constant,
    edge,
    layer_program,
    node,
    shared,
)
from hetune.variants.program.nodes import Program

_SLOPE = 0.2


@layer_program
def gcn(g: Graph, x: Value, norm: Value, w: Value, bias: Value) -> Value:
    """Kipf and Welling 2017, with a number for each edge."""
    return g.sum(norm * g.src(x @ w)) + bias


@layer_program
def sage(g: Graph, x: Value, share: Value, w: Value, root: Value, bias: Value) -> Value:
    """Hamilton et al. 2017, with the mean of neighbors as a factor of each node."""
    return (g.sum(g.src(x)) * share) @ w + bias + x @ root


@layer_program
def gin(
    g: Graph, x: Value, eps: Value, w: Value, bias: Value, w_out: Value, bias_out: Value
) -> Value:
    """Xu et al. 2019, with two linear maps."""
    return relu((g.sum(g.src(x)) + eps * x) @ w + bias) @ w_out + bias_out


@layer_program
def gat(g: Graph, x: Value, w: Value, att_src: Value, att_dst: Value, bias: Value) -> Value:
    """Velickovic et al. 2018."""
    rows = x @ w
    score = leaky_relu(g.src(dot(rows, att_src)) + g.dst(dot(rows, att_dst)), _SLOPE)
    return g.sum(softmax(score, over=g.nodes) * g.src(rows)) + bias


@layer_program
def gatv2(
    g: Graph, x: Value, w: Value, b: Value, w_dst: Value, b_dst: Value, att: Value, bias: Value
) -> Value:
    """Brody et al. 2022."""
    rows = g.src(x @ w + b)
    score = dot(leaky_relu(rows + g.dst(x @ w_dst + b_dst), _SLOPE), att)
    return g.sum(softmax(score, over=g.nodes) * rows) + bias


def gcn_program(d_in: int, d_out: int) -> Program:
    """Parameters x, ``node[d_in]``, and norm, ``edge[]`` constant, beside weights."""
    return gcn(x=node(d_in), norm=constant(edge()), w=shared(d_in, d_out), bias=shared(d_out))


def sage_program(d_in: int, d_out: int) -> Program:
    """Parameters x, ``node[d_in]``, and share, ``node[]`` constant, beside weights."""
    return sage(
        x=node(d_in),
        share=constant(node()),
        w=shared(d_in, d_out),
        root=shared(d_in, d_out),
        bias=shared(d_out),
    )


def gin_program(d_in: int, d_out: int) -> Program:
    """Parameter x, ``node[d_in]``, beside weights."""
    return gin(
        x=node(d_in),
        eps=shared(),
        w=shared(d_in, d_out),
        bias=shared(d_out),
        w_out=shared(d_out, d_out),
        bias_out=shared(d_out),
    )


def gat_program(d_in: int, d_out: int, heads: int) -> Program:
    """Parameter x, ``node[d_in]``, beside weights; ``d_out`` is of all heads together."""
    row = _row(d_out, heads)
    return gat(
        x=node(d_in),
        w=shared(d_in, *row),
        att_src=shared(*row),
        att_dst=shared(*row),
        bias=shared(*row),
    )


def gatv2_program(d_in: int, d_out: int, heads: int) -> Program:
    """As `gat_program`."""
    row = _row(d_out, heads)
    return gatv2(
        x=node(d_in),
        w=shared(d_in, *row),
        b=shared(*row),
        w_dst=shared(d_in, *row),
        b_dst=shared(*row),
        att=shared(*row),
        bias=shared(*row),
    )


def _row(d_out: int, heads: int) -> tuple[int, ...]:
    return (heads, d_out // heads) if heads > 1 else (d_out,)
