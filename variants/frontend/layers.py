"""The relational layers as programs.

Widths are those of one row. Where there are several heads (or blocks), rows carry a leading head
axis, so the result is ``node[H,D]``: its memory is that of ``[N, H * D]``. With one there is none.
"""

from __future__ import annotations

import math

from hetune.variants.errors import ProgramError
from hetune.variants.frontend.functions import dot, gelu, leaky_relu, sigmoid, softmax
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
from hetune.variants.program.nodes import Program


@layer_program
def rgcn(
    g: Graph, x: Value, w: Value, root: Value | None, bias: Value | None, *,
    mean: bool, residual: bool,
) -> Value:  # fmt: skip
    """Schlichtkrull et al. 2018, "Modeling Relational Data with Graph Convolutional Networks"."""
    message = g.src(x) @ w
    out = g.mean(message) if mean else g.sum(message)
    return _finish(out, x, root, bias, residual)


@layer_program
def rgat(
    g: Graph, x: Value, w: Value, w_flat: Value | None, att_q: Value, att_k: Value,
    root: Value | None, bias: Value | None, mask: Value | None, *, slope: float, within: bool,
    residual: bool,
) -> Value:  # fmt: skip
    """Busbridge et al. 2019, "Relational Graph Attention Networks", additive attention."""
    w_score = w if w_flat is None else w_flat
    query = dot(g.dst(x) @ w_score, att_q)
    key = dot(g.src(x) @ w_score, att_k)
    score = leaky_relu(query + key, slope)
    alpha = softmax(score, over=g.dst_pairs if within else g.nodes)
    if mask is not None:
        alpha = alpha * mask
    return _finish(g.sum(alpha * (g.src(x) @ w)), x, root, bias, residual)


@layer_program
def hgt(
    g: Graph, x: Value, w_k: Value, b_k: Value, w_q: Value, b_q: Value, w_v: Value, b_v: Value,
    a_rel: Value, m_rel: Value, p_rel: Value, w_out: Value, b_out: Value, skip: Value | None, *,
    temperature: float,
) -> Value:  # fmt: skip
    """Hu et al. 2020, "Heterogeneous Graph Transformer"."""
    key = g.src(x @ w_k + b_k) @ a_rel
    query = g.dst(x @ w_q + b_q)
    message = g.src(x @ w_v + b_v) @ m_rel
    alpha = softmax(dot(key, query) * (p_rel / temperature), over=g.nodes)
    out = _flat(gelu(g.sum(alpha * message))) @ w_out + b_out
    if skip is None:
        return out
    gate = sigmoid(skip)
    return gate * out + (1 - gate) * x


def _finish(out: Value, x: Value, root: Value | None, bias: Value | None, residual: bool) -> Value:
    if root is not None:
        out = out + _flat(x) @ root
    if residual:
        out = out + (x if x.shape == out.shape else x.reshape(*out.shape))
    return out if bias is None else out + bias


def _flat(x: Value) -> Value:
    return x if len(x.shape) == 1 else x.reshape(x.type.width)


def rgcn_program(
    d_in: int,
    d_out: int,
    aggr: str = "mean",
    root: bool = True,
    bias: bool = True,
    blocks: int = 0,
    residual: bool = False,
) -> Program:
    """RGCN: parameters x, w and where asked for root, bias.

    Args:
        d_in: Width of x: ``node[d_in]``, or ``node[blocks, d_in / blocks]``.
        d_out: Width of the result.
        aggr: "mean" of each relation's messages, or "add".
        root: Adds a linear map of the node itself (self loop).
        bias: Adds a bias.
        blocks: Number of blocks of block-diagonal weights, ``etype[B, d_in / B, d_out / B]``; 0 for
            whole weights, ``etype[d_in, d_out]``.
        residual: Adds x itself; widths must be equal.
    """
    if aggr not in ("mean", "add"):
        raise ProgramError(f"rgcn has no aggr={aggr!r}: take 'mean' or 'add'")
    if blocks and (d_in % blocks or d_out % blocks):
        raise ProgramError(f"widths {d_in} and {d_out} do not divide into {blocks} blocks")
    _check_residual(residual, d_in, d_out)
    row_in, row_out = _heads(blocks, d_in), _heads(blocks, d_out)
    return rgcn(
        x=node(*row_in),
        w=etype(*row_in, row_out[-1]),
        root=shared(d_in, *row_out) if root else None,
        bias=shared(*row_out) if bias else None,
        mean=aggr == "mean",
        residual=residual,
    )


def rgat_program(
    d_in: int,
    d_out: int,
    heads: int = 1,
    softmax: str = "across",
    slope: float = 0.2,
    bias: bool = True,
    attention: str = "shared",
    vectors: str = "shared",
    root: bool = False,
    residual: bool = False,
    mask: bool = False,
) -> Program:
    """RGAT with additive attention: parameters x, w, att_q, att_k; if asked for root, bias, mask.

    Args:
        d_in: Width of x.
        d_out: Width of each head (D); the result has H * D.
        heads: Number of heads (H).
        softmax: "across" all incoming edges of a node, or "within" each relation.
        slope: Negative slope of the leaky ReLU.
        bias: Adds a bias.
        attention: What a head's attention vectors meet. "shared": the rows of all heads, as in
            PyG (``[H, H * D]``; the program also takes w_flat, w's memory as ``etype[K, H * D]``);
            "per_head": its own (``[H, D]``). With one head they are the same.
        vectors: Attention vectors "shared" by all relations, or one for each "etype".
        root: Adds a linear map of the node itself (self loop).
        residual: Adds x itself; widths must be equal.
        mask: Multiplies the softmax by a feature of edges (dropout).
    """
    if softmax not in ("across", "within"):
        raise ProgramError(f"rgat has no softmax={softmax!r}: take 'across' or 'within'")
    if attention not in ("shared", "per_head"):
        raise ProgramError(f"rgat has no attention={attention!r}: take 'shared' or 'per_head'")
    if vectors not in ("shared", "etype"):
        raise ProgramError(f"rgat has no vectors={vectors!r}: take 'shared' or 'etype'")
    _check_residual(residual, d_in, heads * d_out)
    row = _heads(heads, heads * d_out)
    mixed = heads > 1 and attention == "shared"
    vector = (shared if vectors == "shared" else etype)(*((heads, heads * d_out) if mixed else row))
    return rgat(
        x=node(d_in),
        w=etype(d_in, *row),
        w_flat=etype(d_in, heads * d_out) if mixed else None,
        att_q=vector,
        att_k=vector,
        root=shared(d_in, *row) if root else None,
        bias=shared(*row) if bias else None,
        mask=edge(*row[:-1]) if mask else None,
        slope=slope,
        within=softmax == "within",
        residual=residual,
    )


def hgt_program(d_in: int, d_out: int, heads: int = 1) -> Program:
    """HGT as PyG's `HGTConv` has it.

    Parameters: x; w_k, b_k, w_q, b_q, w_v, b_v per node type; a_rel, m_rel, p_rel per edge type;
    w_out, b_out and, where the widths are equal, skip (before its sigmoid) per node type: a gate
    that mixes the result with x.

    Args:
        d_in: Width of x, the same for all node types.
        d_out: Width of the result, a multiple of `heads`.
        heads: Number of heads.
    """
    if d_out % heads:
        raise ProgramError(f"width {d_out} does not divide into {heads} heads")
    row = _heads(heads, d_out)
    head, depth = row[:-1], row[-1]
    per_ntype = {f"w_{part}": ntype(d_in, *row) for part in "kqv"}
    per_ntype |= {f"b_{part}": ntype(*row) for part in "kqv"}
    return hgt(
        x=node(d_in),
        **per_ntype,
        a_rel=etype(*head, depth, depth),
        m_rel=etype(*head, depth, depth),
        p_rel=etype(*head),
        w_out=ntype(d_out, d_out),
        b_out=ntype(d_out),
        skip=ntype() if d_in == d_out else None,
        temperature=math.sqrt(depth),
    )


def _heads(heads: int, width: int) -> tuple[int, ...]:
    return (heads, width // heads) if heads > 1 else (width,)


def _check_residual(residual: bool, d_in: int, d_out: int) -> None:
    if residual and d_in != d_out:
        raise ProgramError(f"x of width {d_in} cannot be added to a result of width {d_out}")
