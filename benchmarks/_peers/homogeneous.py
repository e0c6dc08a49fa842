"""Layers of graphs with one type of edges, as hetune, PyG, DGL and an expert of PyTorch run them.

All of a layer's forms have PyG's weights. The graphs hold each edge in both directions.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from _peers._torch_ops import csr_tensor
from _peers.dgl import dgl_graph
from _peers.problem import Candidate
from hetune.variants.graph.hetero import HeteroGraph

Run = Callable[[], Tensor]

LAYERS = ("gcn", "sage", "gin", "sgc", "tagcn", "appnp", "gat", "gatv2")
HOPS, TELEPORT = {"sgc": 2, "tagcn": 3, "appnp": 10}, 0.1


@dataclass(frozen=True)
class HomogeneousProblem:
    """A layer on a graph: float32 rows in, [nodes, d_out] rows out.

    Attributes:
        layer: One of `LAYERS`.
        d_in: Width of x.
        d_out: Width of the result.
        edge_index: int64 [2, edges].
        num_nodes: Number of nodes.
    """

    layer: str
    d_in: int
    d_out: int
    edge_index: Tensor
    num_nodes: int

    @cached_property
    @torch.inference_mode(False)  # changes of ordinary tensors are seen
    def x(self) -> Tensor:
        width = self.d_out if self.layer == "appnp" else self.d_in
        x = torch.randn(self.num_nodes, width, generator=torch.Generator().manual_seed(0))
        return x.to(self.edge_index.device)

    @cached_property
    @torch.inference_mode(False)
    def conv(self) -> Any:
        """PyG's layer."""
        from torch_geometric import nn as pyg

        torch.manual_seed(0)
        hops, widths = HOPS.get(self.layer, 0), (self.d_in, self.d_out)
        match self.layer:
            case "gin":
                last = nn.Linear(self.d_out, self.d_out)
                made = pyg.GINConv(nn.Sequential(nn.Linear(*widths), nn.ReLU(), last))
            case "appnp":
                made = pyg.APPNP(hops, TELEPORT)
            case "sgc" | "tagcn":
                made = {"sgc": pyg.SGConv, "tagcn": pyg.TAGConv}[self.layer](*widths, K=hops)
            case name:
                made = {
                    "gcn": pyg.GCNConv,
                    "sage": pyg.SAGEConv,
                    "gat": pyg.GATConv,
                    "gatv2": pyg.GATv2Conv,
                }[name](*widths)
        return made.to(self.edge_index.device).eval().requires_grad_(False)

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor]:
        """Sources and destinations by destination, with the loops that the layer adds."""
        src, dst = self.edge_index
        if self.layer not in ("sage", "gin", "tagcn"):
            kept, loops = src != dst, torch.arange(self.num_nodes, device=src.device)
            src, dst = torch.cat([src[kept], loops]), torch.cat([dst[kept], loops])
        order = (dst * self.num_nodes + src).argsort()
        return src[order], dst[order]

    @cached_property
    def indptr(self) -> Tensor:
        counts = torch.bincount(self.edges[1], minlength=self.num_nodes)
        return torch.cat([counts.new_zeros(1), counts.cumsum(0)])

    def matrix(self, values: Tensor) -> Tensor:
        """Of the edges, destinations by sources, in CSR."""
        return csr_tensor(self.indptr, self.edges[0], values, self.num_nodes)

    @cached_property
    def normalized(self) -> Tensor:
        """D^-1/2 A D^-1/2."""
        scale = self.indptr.diff().float().pow(-0.5)
        scale[scale.isinf()] = 0
        src, dst = self.edges
        return self.matrix(scale[src] * scale[dst])

    @cached_property
    def graph(self) -> HeteroGraph:
        """What edges there are, of one type."""
        src, dst = self.edge_index
        return HeteroGraph(src, dst, torch.zeros_like(src), num_nodes=self.num_nodes)

    def make_inputs(self) -> None:
        """What is there for all candidates."""
        _ = self.conv, self.x

    def exact(self) -> Tensor:
        """PyG's result in float64."""
        double = copy.deepcopy(self.conv).double()
        return double(self.x.double(), self.edge_index)  # type: ignore[no-any-return]


def pyg(problem: HomogeneousProblem) -> Run:
    return lambda: problem.conv(problem.x, problem.edge_index)  # type: ignore[no-any-return]


def pyg_adjacency(problem: HomogeneousProblem) -> Run:
    """PyG given the transposed adjacency matrix, with which it calls `torch.sparse.mm`."""
    size = problem.num_nodes, problem.num_nodes
    ones = torch.ones_like(problem.edge_index[0]).float()
    matrix = torch.sparse_coo_tensor(problem.edge_index.flip(0), ones, size).to_sparse_csr()
    return lambda: problem.conv(problem.x, matrix)  # type: ignore[no-any-return]


def pyg_compiled(problem: HomogeneousProblem) -> Run:
    torch._dynamo.reset()
    conv = torch.compile(problem.conv)
    return lambda: conv(problem.x, problem.edge_index)  # type: ignore[no-any-return]


def dgl_layer(problem: HomogeneousProblem, conv: Any) -> tuple[Any, Callable[[Tensor], Tensor]]:
    """DGL's layer with the weights of PyG's, and its call with x."""
    graph = dgl_graph(*problem.edges, problem.num_nodes)
    from dgl.nn import pytorch as layers

    d_in, d_out = problem.d_in, problem.d_out
    hops = HOPS.get(problem.layer, 0)
    given: dict[str, Tensor | None]
    match problem.layer:
        case "gcn":
            made = layers.GraphConv(d_in, d_out, allow_zero_in_degree=True)
            given = {"weight": conv.lin.weight.t(), "bias": conv.bias}
        case "sage":
            made = layers.SAGEConv(d_in, d_out, "mean")
            given = {"fc_neigh.weight": conv.lin_l.weight, "fc_self.weight": conv.lin_r.weight}
            given |= {"fc_self.bias": conv.lin_l.bias}
        case "gin":
            made, given = layers.GINConv(conv.nn, "sum"), {}
        case "sgc":
            made = layers.SGConv(d_in, d_out, hops, allow_zero_in_degree=True)
            given = {"fc.weight": conv.lin.weight, "fc.bias": conv.lin.bias}
        case "tagcn":
            made = layers.TAGConv(d_in, d_out, hops)
            weights = torch.cat([lin.weight for lin in conv.lins], dim=1)
            given = {"lin.weight": weights, "lin.bias": conv.bias}
        case "appnp":
            made, given = layers.APPNPConv(hops, TELEPORT), {}
        case "gat":
            made = layers.GATConv(d_in, d_out, 1, allow_zero_in_degree=True)
            given = {"fc.weight": conv.lin.weight, "attn_l": conv.att_src}
            given |= {"attn_r": conv.att_dst, "bias": conv.bias}
        case _:
            made = layers.GATv2Conv(d_in, d_out, 1, allow_zero_in_degree=True)
            given = {"fc_src.weight": conv.lin_l.weight, "fc_src.bias": conv.lin_l.bias}
            given |= {"fc_dst.weight": conv.lin_r.weight, "fc_dst.bias": conv.lin_r.bias}
            given |= {"attn": conv.att}
    made.load_state_dict({**made.state_dict(), **given})
    return made, lambda x: made(graph, x).view(problem.num_nodes, -1)


def dgl(problem: HomogeneousProblem) -> Run:
    made, call = dgl_layer(problem, problem.conv)
    made.eval().requires_grad_(False)
    return lambda: call(problem.x)


def expert(problem: HomogeneousProblem) -> Run:
    """Matrices made once, `torch.sparse.mm` of them, and weights on the narrower side."""
    conv, x = problem.conv, problem.x
    narrows = problem.d_out < problem.d_in
    ones = torch.ones_like(problem.edges[0]).float()
    hops = HOPS.get(problem.layer, 0)
    match problem.layer:
        case "gcn":
            a, w, b = problem.normalized, conv.lin.weight.t().contiguous(), conv.bias
            if narrows:
                return lambda: torch.sparse.mm(a, x @ w).add_(b)
            return lambda: torch.addmm(b, torch.sparse.mm(a, x), w)
        case "sage":
            counts = problem.indptr.diff().clamp(min=1).float()
            a, near, own = problem.matrix(1 / counts[problem.edges[1]]), conv.lin_l, conv.lin_r
            if narrows:
                return lambda: torch.sparse.mm(a, x @ near.weight.t()).add_(
                    torch.addmm(near.bias, x, own.weight.t())
                )
            return lambda: near(torch.sparse.mm(a, x)).addmm_(x, own.weight.t())
        case "gin":
            a, first, rest = problem.matrix(ones), conv.nn[0], conv.nn[1:]
            if narrows:

                def gin() -> Tensor:
                    rows = x @ first.weight.t()
                    return rest(torch.sparse.mm(a, rows).add_(rows).add_(first.bias))  # type: ignore[no-any-return]

                return gin
            return lambda: conv.nn(torch.sparse.mm(a, x).add_(x))
        case "sgc":
            a, linear = problem.normalized, conv.lin

            def sgc() -> Tensor:
                rows = x @ linear.weight.t() if narrows else x
                for _ in range(hops):
                    rows = torch.sparse.mm(a, rows)
                return rows.add_(linear.bias) if narrows else linear(rows)

            return sgc
        case "tagcn":
            a, weights = problem.normalized, [lin.weight.t() for lin in conv.lins]

            def tagcn() -> Tensor:
                if narrows:
                    rows = x @ weights[-1]
                    for w in reversed(weights[:-1]):
                        rows = torch.sparse.mm(a, rows).addmm_(x, w)
                    return rows.add_(conv.bias)
                rows, out = x, torch.addmm(conv.bias, x, weights[0])
                for w in weights[1:]:
                    rows = torch.sparse.mm(a, rows)
                    out.addmm_(rows, w)
                return out

            return tagcn
        case "appnp":
            a = problem.matrix(problem.normalized.values() * (1 - TELEPORT))

            def appnp() -> Tensor:
                start, rows = TELEPORT * x, x
                for _ in range(hops):
                    rows = torch.sparse.mm(a, rows).add_(start)
                return rows

            return appnp
        case "gat":
            return _expert_gat(problem)
        case _:
            return _expert_gatv2(problem)


def _weighted(problem: HomogeneousProblem, scores: Tensor, bound: Tensor, rows: Tensor) -> Tensor:
    """Sums by a softmax of scores, none of which is above its bound."""
    matrix = problem.matrix((scores - bound).exp_())
    total = torch.sparse.mm(matrix, rows.new_ones(problem.num_nodes, 1))
    return torch.sparse.mm(matrix, rows).div_(total)


def _expert_gat(problem: HomogeneousProblem) -> Run:
    conv, x = problem.conv, problem.x
    src, dst = problem.edges
    w = conv.lin.weight.t().contiguous()
    near, own = w @ conv.att_src.view(-1), w @ conv.att_dst.view(-1)

    def run() -> Tensor:
        s, d = x @ near, x @ own
        scores = functional.leaky_relu(s[src] + d[dst], conv.negative_slope)
        bound = functional.leaky_relu(s.max() + d, conv.negative_slope)[dst]
        if problem.d_out <= problem.d_in:
            return _weighted(problem, scores, bound, x @ w).add_(conv.bias)
        return torch.addmm(conv.bias, _weighted(problem, scores, bound, x), w)

    return run


def _expert_gatv2(problem: HomogeneousProblem) -> Run:
    conv, x = problem.conv, problem.x
    src, dst = problem.edges
    a, offsets = conv.att.view(-1), problem.indptr

    def run() -> Tensor:
        left, right = conv.lin_l(x), conv.lin_r(x)
        mixed = functional.leaky_relu_(left[src].add_(right[dst]), conv.negative_slope)
        scores = mixed @ a
        bound = torch.segment_reduce(scores, "max", offsets=offsets)[dst]
        return _weighted(problem, scores, bound, left).add_(conv.bias)

    return run


class Own(NamedTuple):
    """hetune's call, and what tells what it ran."""

    run: Callable[[], Any]
    ran: Callable[[], str]

    def __call__(self) -> Any:
        return self.run()


def hetune_layer(problem: HomogeneousProblem, backend: Any = None) -> Own:
    """hetune's, whose kernels are compiled at once."""
    import hetune

    x, edge_index = problem.x, problem.edge_index
    module: Any = hetune.compile(problem.conv, backend=backend, expected_runs=math.inf)
    module.warm(x, edge_index)
    return Own(lambda: module(x, edge_index), lambda: str(module.status()))


def candidates(layer: str) -> list[Candidate]:
    """All of a layer's forms."""
    forms: dict[str, Callable[[HomogeneousProblem], Any]] = {
        "hetune/compile": hetune_layer,
        "pyg/edge_index": pyg,
        "pyg/adj_t": pyg_adjacency,
        "dgl/layer": dgl,
        "expert/sparse": expert,
        "pyg/edge_index+compile": pyg_compiled,
    }
    return [
        Candidate(name, layer, build, compiled=name.endswith("+compile"))  # type: ignore[arg-type]
        for name, build in forms.items()
    ]
