"""Layers that train, as hetune, an expert, DGL and PyG run them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from _results import PYG
from torch import Tensor
from torch.nn import functional

from _peers import _torch_training as expert
from _peers._pairs import mean_weights
from _peers.dgl import LIGHT_HGT, dgl_graph, hgt_conv, rel_graph_conv
from _peers.homogeneous import HomogeneousProblem, dgl_layer
from _peers.problem import HOMOGENEOUS, Candidate, Layer, Problem
from _peers.pyg import _fast_module
from _peers.torch_expert import _SIDES


@dataclass(frozen=True)
class Trainable:
    """A layer with parameters that want gradients.

    Attributes:
        forward: Its call with rows [N, d], or rows by node type where `is_dict`.
        parameters: By PyG's names, where it has the like.
        is_dict: Rows are given, and result, by node type.
        ran: The variant of the last call, or "original: " and why; None but for hetune.
    """

    forward: Callable[[Any], Any]
    parameters: dict[str, Tensor]
    is_dict: bool = False
    ran: Callable[[], str] | None = None


def _called(problem: Problem, module: Any, *edges: Any, **more: Any) -> Trainable:
    edges = edges or problem.edges
    parameters, is_dict = dict(problem.conv.named_parameters()), problem.layer == "hgt"
    return Trainable(lambda x: module(x, *edges), parameters, is_dict, **more)


def hetune_layer(problem: Problem, backend: Any = None) -> Trainable:
    """hetune's, whose kernels for a GPU are compiled at once."""
    import hetune

    module: Any = hetune.compile(problem.conv, backend=backend, expected_runs=math.inf)
    typed = () if problem.layer in HOMOGENEOUS else (problem.graph,)
    if problem.graph.device.type != "cpu":
        leaf = lambda x: x.detach().requires_grad_()  # noqa: E731
        rows = problem.rows
        rows = {n: leaf(x) for n, x in rows.items()} if isinstance(rows, dict) else leaf(rows)
        module.warm(rows, *(typed or problem.edges), gradients=True)

    def ran() -> str:
        status = module.status()
        return status.variant if status.has_gradients else f"original: {status}"

    return _called(problem, module, *typed, ran=ran)


def _fast(problem: Problem) -> Trainable:
    module = _fast_module(problem).train().requires_grad_()
    made = _called(problem, module)
    return Trainable(made.forward, dict(module.named_parameters()))


def of_form(form: Callable[[Problem], Any], problem: Problem) -> Trainable:
    """What an expert's form is with PyG's parameters."""
    return Trainable(form(problem), dict(problem.conv.named_parameters()))


def _dgl(problem: Problem, *, presorted: bool = False) -> Trainable:
    match problem.layer:
        case "rgcn" if problem.is_featureless:
            return _dgl_featureless(problem)
        case "rgcn":
            module, call = rel_graph_conv(problem, presorted=presorted)
            named = {"weight": module.linear_r.W, "root": module.loop_weight, "bias": module.h_bias}
            return Trainable(call, named)
        case "hgt":
            module, call = hgt_conv(problem, presorted=presorted)
        case _:
            module, call = dgl_layer(_cell(problem), problem.conv)
            module.train().requires_grad_()
    return Trainable(call, {f"dgl.{name}": p for name, p in module.named_parameters()})


def _dgl_featureless(problem: Problem) -> Trainable:
    """A row of the weights for each edge, then their sum: as in DGL's examples of R-GCN."""
    conv: Any = problem.conv
    graph: Any = dgl_graph(*problem.edge_index, problem.graph.num_nodes)
    from dgl import function

    rows = problem.edge_type * problem.graph.num_nodes + problem.edge_index[0]
    norm = mean_weights(problem.graph).to(problem.dtype).unsqueeze(1)

    def run(_: None) -> Tensor:
        with graph.local_scope():
            graph.edata["m"] = functional.embedding(rows, conv.weight.flatten(0, 1)) * norm
            graph.update_all(function.copy_e("m", "m"), function.sum("m", "h"))
            return graph.ndata["h"] + conv.root + conv.bias  # type: ignore[no-any-return]

    return Trainable(run, dict(conv.named_parameters()))


def _gcn(problem: Problem, *, product: str) -> Callable[[Tensor], Tensor]:
    conv, cell = problem.conv, _cell(problem)
    matrix: Any = cell.normalized.to(problem.dtype)
    pattern = expert.Pattern(cell.indptr, cell.edges[0], cell.num_nodes)

    def run(x: Tensor) -> Tensor:
        rows = x @ conv.lin.weight.t()
        if product == "csr":
            return torch.sparse.mm(matrix, rows) + conv.bias
        return pattern.product(rows, matrix.values()) + conv.bias

    return run


def _gat(problem: Problem) -> Callable[[Tensor], Tensor]:
    conv, cell = problem.conv, _cell(problem)
    src, dst = cell.edges
    pattern = expert.Pattern(cell.indptr, src, cell.num_nodes)

    def run(x: Tensor) -> Tensor:
        rows = x @ conv.lin.weight.t()
        near, own = (rows @ a.view(-1) for a in (conv.att_src, conv.att_dst))
        scores = functional.leaky_relu(near[src] + own[dst], conv.negative_slope)
        terms, total = expert.softmax_terms(scores, dst, cell.num_nodes)
        return pattern.product(rows, terms) / total.unsqueeze(1) + conv.bias

    return run


def _cell(problem: Problem) -> HomogeneousProblem:
    width, nodes = problem.width, problem.graph.num_nodes
    return HomogeneousProblem(problem.layer, width, width, problem.edge_index, nodes)


def candidates(layer: Layer) -> list[Candidate]:
    """Whose `build` gives a `Trainable`."""
    name = {"rgcn": "RelGraphConv", "hgt": "HGTConv", "gcn": "GraphConv", "gat": "GATConv"}
    forms: dict[str, Callable[[Problem], Any]] = {"bag": _gat}
    if layer == "gcn":
        forms = {product: partial(_gcn, product=product) for product in ("bag", "csr")}
    elif layer != "gat":
        forms = {n: partial(getattr(expert, layer), side=side) for n, side in _SIDES.items()}
    found = [Candidate("hetune/compile", layer, hetune_layer)]
    found += [Candidate(f"expert/{n}", layer, partial(of_form, form)) for n, form in forms.items()]
    model = LIGHT_HGT if layer == "hgt" else "full"
    if layer in name:
        found.append(Candidate(f"dgl/{name[layer]}", layer, _dgl, model=model))
    if layer in ("rgcn", "hgt"):
        presorted = partial(_dgl, presorted=True)
        found.append(Candidate(f"dgl/{name[layer]} sorted", layer, presorted, model=model))
    found.append(Candidate(PYG[layer], layer, lambda problem: _called(problem, problem.conv)))
    compiled = lambda problem: _called(problem, torch.compile(problem.conv))  # noqa: E731
    found.append(Candidate(f"{PYG[layer]}+compile", layer, compiled, compiled=True))
    if layer == "rgcn":
        found.append(Candidate("pyg/FastRGCNConv", layer, _fast))
    return found
