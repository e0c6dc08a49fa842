"""Programs of layers, in all options that choice points depend on."""

from __future__ import annotations

from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.frontend.trace import (
    dot,
    edge,
    etype,
    layer_program,
    leaky_relu,
    node,
    relu,
    shared,
    softmax,
)


@layer_program
def edge_weighted(g, x, c, w, *, factor):
    """A layer of nobody's: given edge weights, one weight for all, then typed ones."""
    return relu(g.sum(c * (g.src(x) @ w)) * factor)


@layer_program
def both_ends(g, x, w, u, a):
    """Messages that need both ends of an edge, and a score of their own."""
    message = leaky_relu(g.src(x) @ w + g.dst(x) @ u, 0.1)
    return g.sum(softmax(dot(message, a), over=g.nodes) * message)


PROGRAMS = {
    "rgcn add": rgcn_program(6, 4, "add"),
    "rgcn mean": rgcn_program(6, 4, "mean"),
    "rgcn mean, nothing else": rgcn_program(6, 4, "mean", root=False, bias=False),
    "rgcn, blocks": rgcn_program(6, 4, "mean", blocks=2),
    "rgcn, residual": rgcn_program(5, 5, "add", residual=True),
    "rgat across": rgat_program(6, 4),
    "rgat within": rgat_program(6, 4, softmax="within"),
    "rgat, 2 heads": rgat_program(6, 4, 2),
    "rgat, 2 heads of their own": rgat_program(6, 4, 2, attention="per_head"),
    "rgat, vectors per relation": rgat_program(6, 4, 2, vectors="etype", softmax="within"),
    "rgat, root and residual": rgat_program(8, 4, 2, root=True, residual=True),
    "hgt": hgt_program(6, 6),
    "hgt, 2 heads": hgt_program(6, 6, 2),
    "hgt, no skip": hgt_program(6, 8, 2),
    "edge weights": edge_weighted(x=node(6), c=edge(), w=etype(6, 4), factor=0.5),
    "edge weights, shared map": edge_weighted(x=node(6), c=edge(), w=shared(6, 4), factor=2.0),
    "both ends": both_ends(x=node(6), w=etype(6, 4), u=etype(6, 4), a=shared(4)),
}
"""By name."""
