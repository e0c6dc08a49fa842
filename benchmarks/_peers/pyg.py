"""PyTorch Geometric's layers, as they are and under torch.compile."""

from collections.abc import Callable
from typing import Any

import torch
from _results import PYG
from torch import nn

from _peers.problem import Candidate, Layer, Problem


def _call(module: Callable[..., Any], problem: Problem) -> Callable[[], Any]:
    rows, edges = problem.rows, problem.edges
    return lambda: module(rows, *edges)


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
    compiled = _compiled(lambda problem: problem.conv)
    found = [
        Candidate(PYG[layer], layer, _plain),
        Candidate(f"{PYG[layer]}+compile", layer, compiled, compiled=True),
    ]
    if layer == "rgcn":
        compiled = _compiled(_fast_module)
        found += [
            Candidate("pyg/FastRGCNConv", layer, _fast),
            Candidate("pyg/FastRGCNConv+compile", layer, compiled, compiled=True),
        ]
    return found
