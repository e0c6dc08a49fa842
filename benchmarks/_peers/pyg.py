"""PyTorch Geometric's layers, as they are and under torch.compile."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from _peers.problem import Candidate, Layer, Problem


def _call(module: Callable[..., Any], problem: Problem) -> Callable[[], Any]:
    if problem.layer == "hgt":
        x_dict, edge_index_dict = problem.x_dict, problem.edge_index_dict
        return lambda: module(x_dict, edge_index_dict)
    x, edge_index, edge_type = problem.x, problem.edge_index, problem.edge_type
    return lambda: module(x, edge_index, edge_type)


def _plain(problem: Problem) -> Callable[[], Any]:
    return _call(problem.conv, problem)


def _fast_module(problem: Problem) -> nn.Module:
    from torch_geometric.nn import FastRGCNConv

    conv: Any = problem.conv
    module = FastRGCNConv(conv.in_channels, problem.width, problem.graph.num_etypes, aggr="mean")
    module = module.to(problem.x.device, problem.dtype).eval().requires_grad_(False)
    module.load_state_dict(problem.conv.state_dict())
    return module


def _fast(problem: Problem) -> Callable[[], Any]:
    return _call(_fast_module(problem), problem)


def _compiled(make: Callable[[Problem], nn.Module]) -> Callable[[Problem], Callable[[], Any]]:
    def build(problem: Problem) -> Callable[[], Any]:
        torch._dynamo.reset()
        return _call(torch.compile(make(problem)), problem)  # the first call compiles

    return build


def candidates(layer: Layer) -> list[Candidate]:
    """PyG's candidates for `layer`."""
    name = {"rgcn": "RGCNConv", "rgat": "RGATConv", "hgt": "HGTConv"}[layer]
    compiled = _compiled(lambda problem: problem.conv)
    found = [
        Candidate(f"pyg/{name}", layer, _plain),
        Candidate(f"pyg/{name}+compile", layer, compiled, compiled=True),
    ]
    if layer == "rgcn":
        compiled = _compiled(_fast_module)
        found += [
            Candidate("pyg/FastRGCNConv", layer, _fast),
            Candidate("pyg/FastRGCNConv+compile", layer, compiled, compiled=True),
        ]
    return found
