"""The layers once more, edge by edge in plain Python: the oracle that shares no code with hetune.

Weights have the names and shapes of `hetune.variants.frontend.layers`; everything is float64.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from hetune.variants.graph.hetero import HeteroGraph

Weights = Mapping[str, Tensor]


def rgcn_loop(weights: Weights, x: Tensor, graph: HeteroGraph, *, mean: bool) -> Tensor:
    """RGCN with whole weights: [N, width]."""
    weights, x = _doubled(weights), x.double()
    out = _rows(graph, weights["w"].shape[-1])
    edges = list(_edges(graph))
    counts = Counter((d, r) for _, d, r in edges)
    for s, d, r in edges:
        out[d] += x[s] @ weights["w"][r] / (counts[d, r] if mean else 1)
    return _finished(out, weights, x)


def rgat_loop(
    weights: Weights, x: Tensor, graph: HeteroGraph, *, within: bool, slope: float = 0.2
) -> Tensor:
    """RGAT with additive attention, vectors shared by relations or not: [N, heads * width]."""
    weights, x = _doubled(weights), x.double()
    w = weights["w"] if weights["w"].dim() == 4 else weights["w"].unsqueeze(2)
    num_etypes, _, heads, width = w.shape
    att_q, att_k = (
        weights[name].reshape(-1, heads, weights[name].shape[-1]).expand(num_etypes, -1, -1)
        for name in ("att_q", "att_k")
    )

    def attend(row: Tensor, vectors: Tensor) -> Tensor:
        """Per head the product with its own row, or with the rows of all heads."""
        own = row if vectors.shape[-1] == width else row.reshape(1, -1)
        return (own * vectors).sum(-1)

    messages: list[Tensor] = []
    scores: list[Tensor] = []
    groups: list[Hashable] = []
    targets: list[int] = []
    for s, d, r in _edges(graph):
        sent = torch.einsum("k,khd->hd", x[s], w[r])
        own = torch.einsum("k,khd->hd", x[d], w[r])
        score = attend(own, att_q[r]) + attend(sent, att_k[r])
        messages.append(sent)
        scores.append(functional.leaky_relu(score, slope))
        groups.append((d, r) if within else d)
        targets.append(d)
    out = _weighted_sum(_rows(graph, heads, width), messages, scores, groups, targets)
    return _finished(out.flatten(1), weights, x)


def hgt_loop(weights: Weights, x: Tensor, graph: HeteroGraph) -> Tensor:
    """HGT: [N, width]."""
    weights, x = _doubled(weights), x.double()
    ntype = graph.ntype.tolist()
    a_rel, m_rel = (
        weights[name] if weights[name].dim() == 4 else weights[name].unsqueeze(1)
        for name in ("a_rel", "m_rel")
    )
    num_etypes, heads, depth, _ = a_rel.shape
    p_rel = weights["p_rel"].reshape(num_etypes, heads)

    def projected(part: str, node: int) -> Tensor:
        weight = weights[f"w_{part}"][ntype[node]].flatten(1)
        bias = weights[f"b_{part}"][ntype[node]].flatten()
        return (x[node] @ weight + bias).view(heads, depth)

    messages, scores, targets = [], [], []
    for s, d, r in _edges(graph):
        key = torch.einsum("hd,hde->he", projected("k", s), a_rel[r])
        score = (key * projected("q", d)).sum(-1) * p_rel[r] / math.sqrt(depth)
        messages.append(torch.einsum("hd,hde->he", projected("v", s), m_rel[r]))
        scores.append(score)
        targets.append(d)
    summed = _weighted_sum(_rows(graph, heads, depth), messages, scores, targets, targets)
    out = _rows(graph, heads * depth)
    for node, kind in enumerate(ntype):
        active = functional.gelu(summed[node].flatten())
        out[node] = active @ weights["w_out"][kind] + weights["b_out"][kind]
        if "skip" in weights:
            gate = torch.sigmoid(weights["skip"][kind])
            out[node] = gate * out[node] + (1 - gate) * x[node]
    return out


def _weighted_sum(
    out: Tensor,
    messages: list[Tensor],
    scores: list[Tensor],
    groups: Sequence[Hashable],
    targets: list[int],
) -> Tensor:
    """Adds ``softmax(scores) * messages`` to ``out``; the softmax is over each group's edges."""
    members: dict[Hashable, list[int]] = defaultdict(list)
    for edge, group in enumerate(groups):
        members[group].append(edge)
    for edges in members.values():
        shares = torch.softmax(torch.stack([scores[edge] for edge in edges]), 0)
        for edge, share in zip(edges, shares, strict=True):
            out[targets[edge]] += share.unsqueeze(-1) * messages[edge]
    return out


def _finished(out: Tensor, weights: Weights, x: Tensor) -> Tensor:
    if "root" in weights:
        out = out + x @ weights["root"].reshape(x.shape[1], -1)
    return out + weights["bias"].flatten() if "bias" in weights else out


def _edges(graph: HeteroGraph) -> Iterator[tuple[int, int, int]]:
    return zip(graph.src.tolist(), graph.dst.tolist(), graph.etype.tolist(), strict=True)


def _rows(graph: HeteroGraph, *shape: int) -> Tensor:
    return torch.zeros((graph.num_nodes, *shape), dtype=torch.float64)


def _doubled(weights: Weights) -> dict[str, Tensor]:
    return {name: weight.detach().double() for name, weight in weights.items()}
