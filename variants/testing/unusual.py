"""Programs of legal layers that break careless rewrites: several heads, factors, spaces, shapes.

Where a width could be mistaken for a number of heads, there is one program in which the two differ
and one in which they are equal.
"""

from __future__ import annotations

from types import MappingProxyType

from hetune.variants.frontend.functions import (
    cos,
    dot,
    elu,
    log,
    maximum,
    minimum,
    outer,
    relu,
    rsqrt,
    rsqrt0,
    sigmoid,
    silu,
    sin,
    softmax,
    softplus,
    sqrt,
    step,
    tanh,
)
from hetune.variants.frontend.trace import (
    Graph,
    Value,
    constant,
    edge,
    etype,
    layer_program,
    node,
    ntype,
    shared,
)
from hetune.variants.program.nodes import End, Program, Space


@layer_program
def own_degrees(g: Graph, x: Value, w: Value) -> Value:
    """Degrees of each end scale the messages of that end."""
    degree = sigmoid(-g.count())
    sent = g.sum(g.src(degree) * (g.src(x) @ w))
    kept = g.sum(g.dst(degree) * (g.dst(x) @ w))
    return g.mean(g.dst(degree)) * (sent + kept)


@layer_program
def gated(g: Graph, x: Value, w: Value) -> Value:
    """Each element of a row has a gate of its own, before the map and behind it."""
    gate = sigmoid(g.dst(x))
    return g.sum((gate * g.src(x)) @ w) + g.sum(gate * (g.src(x) @ w))


@layer_program
def bilinear(g: Graph, x: Value, w: Value, u: Value, *, over: Space) -> Value:
    """Scores between both ends' rows, of each head if the map makes heads."""
    return g.sum(softmax(dot(g.src(x) @ w, g.dst(x)), over=over) * (g.src(x) @ u))


@layer_program
def typed_keys(g: Graph, x: Value, w: Value, key: Value) -> Value:
    """Scores between a source and its edge type's destination type."""
    return g.sum(softmax(dot(g.src(x) @ w, g.dst(key)), over=g.nodes) * g.src(x))


@layer_program
def weighted_heads(g: Graph, x: Value, c: Value, f: Value, p: Value, q: Value, w: Value) -> Value:
    """Heads of messages, weighted in several ways, of rows that are no source's."""
    sent = g.src(x) @ w
    several = g.sum(c * (p * sent)) + g.sum(p * sent) + g.sum(c * (q * sent))
    others = g.sum(c * (f @ w)) + g.sum(c * ((q * g.src(x)) @ w))
    return several + others + g.sum(c * (g.dst(x) @ w))


@layer_program
def shared_heads(g: Graph, x: Value, s: Value, c: Value, w: Value, u: Value) -> Value:
    """One sum for two products, and heads that the source weights."""
    both = g.sum(c * (g.src(x) @ w)) + g.sum(c * (g.src(x) @ u))
    return both + g.sum(g.src(s) * (g.src(x) @ w))


@layer_program
def weighted_pairs(g: Graph, x: Value, c: Value, p: Value, w: Value, u: Value) -> Value:
    """Sums of pairs that are weighted before the map, behind it, and per head."""
    rows = g.sum(g.src(x), over=g.dst_pairs)
    before = g.sum(g.sum(p * g.src(x), over=g.dst_pairs) @ w)
    heads = g.sum(g.sum(c, over=g.dst_pairs) * (rows @ u))
    return g.sum(p * (rows @ w)) + before + heads.reshape(heads.type.width)


@layer_program
def node_biases(g: Graph, x: Value, n: Value, b: Value, w: Value) -> Value:
    """A bias of fewer axes than the rows that it is added to."""
    return g.sum(g.src(x @ n + b) @ w)


@layer_program
def many_axes(g: Graph, x: Value, c: Value, w: Value, u: Value, b: Value) -> Value:
    """Rows of three axes, weighted along the first, and a bias of more axes than its rows."""
    return g.sum(c * (g.src(x) @ w)) + g.sum(g.src(x) @ u + b)


@layer_program
def reshaped_sum(g: Graph, x: Value, c: Value, w: Value, b: Value) -> Value:
    """Other rows are added to a sum before it is reshaped, and after."""
    rows = g.sum(c * (g.src(x) @ w)) + b
    return rows.reshape(rows.type.width) + x


@layer_program
def functions(g: Graph, x: Value, c: Value, w: Value, u: Value, v: Value, k: Value) -> Value:
    """All functions, of edges and nodes; some are products of all elements of two rows."""
    sent, kept = g.src(x) @ w, x @ v
    size = abs(sent) + 1
    grown = log(size) + sqrt(size) - rsqrt(size) * size**0.3 + size**-0.5
    waves = sin(sent) * cos(g.dst(kept)) + (2 - silu(sent)) / (1 + softplus(sent))
    bounded = maximum(minimum(sent, g.dst(kept)), -0.5) + minimum(size ** g.dst(kept), 3)
    rows = g.sum(grown + waves + bounded + elu(sent, 0.5))
    heads = g.sum(outer(step(c) * c, (g.src(x) @ u) ** 2))
    return (rsqrt0(g.count()) * rows * tanh(kept) + rows**3 * 0.01) + heads.reshape(6) @ k


@layer_program
def with_constants(g: Graph, x: Value, s: Value, d: Value, c: Value, p: Value, w: Value) -> Value:
    """Rows that depend on the graph alone, joined with others of it, at all ends."""
    of_pair = 1 / g.count(g.src_pairs, End.SRC)
    share = g.src(s) / g.src(g.count(end=End.SRC)) + c * of_pair.take(Space.EDGE)
    sent = g.sum(share * (g.src(x) @ w)) + g.mean(c * (g.src(x + p) @ w))
    return sent * (d + g.count())


@layer_program
def extremes(g: Graph, x: Value, c: Value, w: Value, v: Value, k: Value) -> Value:
    """Largest and least messages and products of them, of nodes and pairs, and sums beside."""
    sent = g.src(x) @ w
    pairs = g.reduce(sent, g.dst_pairs, "max") * (1 / g.count(g.dst_pairs))
    most = g.reduce(c * sent, fn="max") + relu(g.reduce(pairs, fn="min"))
    least = g.reduce(g.src(x) @ v + g.dst(x) @ v, fn="min") - g.sum(sent)
    shares = g.reduce(sigmoid(c), fn="prod") * g.reduce(sigmoid(sent), fn="prod")
    return (most + least) * shares + g.sum(g.reduce(sent, g.dst_pairs, "min") @ k)


@layer_program
def side_by_side(g: Graph, x: Value, c: Value, w: Value, u: Value, a: Value) -> Value:
    """Rows side by side, products cut in two, and what comes of the axes of heads."""
    both = g.dst(x).concat(g.src(x) - g.dst(x), c)
    hidden = relu(both @ w)
    gate, rows = sigmoid(hidden.slice(0, 3)), hidden.slice(3, 6)
    heads = g.src(x @ u) * c
    norms = maximum(sqrt((heads**2).fold(-1)), 1e-6)
    shares = softmax(g.src(x @ u).fold(1, "max") + norms, over=g.nodes)
    mean = g.sum(shares * heads).fold(0, "mean")
    return g.reduce(gate * rows, fn="max") + mean + g.sum(norms.fold(0, "min") * (g.dst(x) @ a))


@layer_program
def with_weights(g: Graph, x: Value, w: Value, a: Value) -> tuple[Value, ...]:
    """Attention that returns its shares, too."""
    sent = g.src(x) @ w
    share = softmax(dot(sent, a), over=g.nodes)
    return g.sum(share * sent), share


@layer_program
def scored(g: Graph, x: Value, r: Value) -> Value:
    """Scores of edges alone, as of a knowledge graph."""
    return dot(g.src(x) * r, g.dst(x))


@layer_program
def updated_edges(g: Graph, x: Value, f: Value, w: Value, u: Value, v: Value) -> tuple[Value, ...]:
    """New rows of edges from both ends' and their own, their mean, rows as given, some twice."""
    rows = relu(g.src(x) @ w + g.dst(x) @ u + f @ v)
    flat = rows.reshape(rows.type.width)
    return rows, g.mean(flat), f, flat, g.mean(flat), f, rows


RESULTS: MappingProxyType[str, Program] = MappingProxyType(
    {
        "attention": with_weights(x=node(4), w=etype(4, 3), a=shared(3)),
        "attention, heads": with_weights(x=node(4), w=etype(4, 2, 3), a=shared(2, 3)),
        "scores": scored(x=node(5), r=etype(5)),
        "edges": updated_edges(
            x=node(4), f=edge(3), w=etype(4, 2, 3), u=shared(4, 2, 3), v=etype(3, 2, 3)
        ),
    }
)
"""Programs that return rows of edges, or several results."""
UNUSUAL: MappingProxyType[str, Program] = MappingProxyType(
    {
        "extremes": extremes(
            x=node(4), c=edge(2), w=etype(4, 2, 3), v=shared(4, 2, 3), k=etype(2, 3, 3)
        ),
        "side by side": side_by_side(
            x=node(4), c=edge(2), w=etype(10, 6), u=shared(4, 2, 3), a=etype(4, 3)
        ),
        "functions": functions(
            x=node(4), c=edge(2), w=etype(4, 3), u=etype(4, 3), v=shared(4, 3), k=shared(6, 3)
        ),
        "own degrees": own_degrees(x=node(4), w=etype(4, 3)),
        "gated": gated(x=node(4), w=etype(4, 4)),
        "scores of heads": bilinear(x=node(4), w=etype(4, 2, 4), u=etype(4, 2, 3), over=Space.NODE),
        "scores of as many heads": bilinear(
            x=node(4), w=etype(4, 4, 4), u=etype(4, 4, 3), over=Space.NODE
        ),
        "scores of pairs": bilinear(x=node(4), w=etype(4, 4), u=etype(4, 3), over=Space.DST_PAIR),
        "typed keys": typed_keys(x=node(4), w=etype(4, 4), key=ntype(4)),
        "weighted heads": weighted_heads(
            x=node(4), c=edge(2), f=edge(4), p=etype(2), q=etype(), w=etype(4, 2, 3)
        ),
        "shared heads": shared_heads(
            x=node(4), s=node(2), c=edge(2), w=etype(4, 2, 3), u=etype(4, 2, 3)
        ),
        "weighted pairs": weighted_pairs(
            x=node(4), c=edge(2), p=etype(), w=etype(4, 6), u=etype(4, 2, 3)
        ),
        "node biases": node_biases(x=node(4), n=ntype(4, 5), b=ntype(), w=etype(5, 3)),
        "node biases, heads": node_biases(
            x=node(4), n=ntype(4, 2, 3), b=ntype(2), w=etype(2, 3, 3)
        ),
        "many axes": many_axes(
            x=node(4), c=edge(2), w=etype(4, 2, 3, 2), u=etype(4, 2), b=etype(2, 3, 2)
        ),
        "constants": with_constants(
            x=node(4),
            s=constant(node()),
            d=constant(node()),
            c=constant(edge()),
            p=constant(node(4)),
            w=etype(4, 3),
        ),
        "reshaped sum": reshaped_sum(x=node(6), c=edge(2), w=etype(6, 2, 3), b=shared(2, 3)),
    }
)
"""By name."""
