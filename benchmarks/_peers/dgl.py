"""DGL 1.1.3's RelGraphConv and HGTConv; it has no RGAT layer.

DGL's HGT has neither biases nor the GELU before its output map, so it computes a lighter model
than PyG's: it is held to a reference of that model, and its time still counts.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from _peers._torch_ops import HGTWeights
from _peers.problem import Candidate, Layer, Problem

LIGHT_HGT = "no-bias-no-gelu"


def dgl_graph(src: Tensor, dst: Tensor, num_nodes: int) -> object:
    """A graph in all of DGL's formats."""
    # DGL writes a configuration file into the home folder unless its backend is named.
    os.environ.setdefault("DGLBACKEND", "pytorch")
    import dgl

    graph = dgl.graph((src, dst), num_nodes=num_nodes)
    graph.create_formats_()
    return graph


def rel_graph_conv(problem: Problem, *, presorted: bool) -> tuple[Any, Callable[[Tensor], Tensor]]:
    """The layer, and its call with x."""
    graph = dgl_graph(*problem.edge_index, problem.graph.num_nodes)
    from dgl.nn.pytorch import RelGraphConv

    etype, d = problem.edge_type, problem.width
    module: Any = RelGraphConv(d, d, problem.graph.num_etypes, self_loop=True, bias=True)
    module = module.to(problem.dtype).train(problem.trains)
    with torch.no_grad():
        module.linear_r.W.copy_(problem.conv.weight)
        module.loop_weight.copy_(problem.conv.root)
        module.h_bias.copy_(problem.conv.bias)
    module.requires_grad_(problem.trains)

    # The mean over each relation's edges, as a weight per edge.
    pair = problem.edge_index[1] * problem.graph.num_etypes + etype
    _, position, count = pair.unique(return_inverse=True, return_counts=True)
    norm = count[position].to(problem.dtype).reciprocal().unsqueeze(1)
    return module, lambda x: module(graph, x, etype, norm, presorted=presorted)


def hgt_conv(problem: Problem, *, presorted: bool) -> tuple[Any, Callable[[Tensor], Tensor]]:
    """The layer, and its call with x."""
    graph = dgl_graph(*problem.edge_index, problem.graph.num_nodes)
    from dgl.nn.pytorch import HGTConv

    heads, d = problem.heads, problem.width // problem.heads
    types, relations = problem.graph.num_ntypes, problem.graph.num_etypes
    module: Any = HGTConv(problem.width, d, heads, types, relations, dropout=0.0)
    module = module.to(problem.dtype).train(problem.trains)
    weights = HGTWeights.of(problem)
    with torch.no_grad():
        for linear, weight in (
            (module.linear_k, weights.k),
            (module.linear_q, weights.q),
            (module.linear_v, weights.v),
            (module.linear_a, weights.out),
        ):
            linear.W.copy_(weight)
        for h in range(heads):
            module.relation_att[h].W.copy_(weights.att[:, h])
            module.relation_msg[h].W.copy_(weights.msg[:, h])
            module.relation_pri[h].copy_(weights.prior[:, h])
        module.skip.copy_(weights.skip)
    module.requires_grad_(problem.trains)
    ntype, etype = problem.graph.ntype.long(), problem.edge_type
    return module, lambda x: module(graph, x, ntype, etype, presorted=presorted)


def _with_x(make: Callable[..., Any], problem: Problem, *, presorted: bool) -> Callable[[], Tensor]:
    (_, call), x = make(problem, presorted=presorted), problem.x
    return lambda: call(x)


def candidates(layer: Layer) -> list[Candidate]:
    """DGL's candidates for `layer`; none for "rgat"."""
    forms = {"rgcn": ("RelGraphConv", rel_graph_conv), "hgt": ("HGTConv", hgt_conv)}
    if layer not in forms:
        return []
    name, build = forms[layer]
    model = LIGHT_HGT if layer == "hgt" else "full"
    return [
        Candidate(f"dgl/{name}", layer, partial(_with_x, build, presorted=False), model=model),
        Candidate(
            f"dgl/{name} sorted", layer, partial(_with_x, build, presorted=True), model=model
        ),
    ]
