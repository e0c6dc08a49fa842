"""RGAT (additive attention, softmax across relations) in plain PyTorch, as an expert writes it.

Scores come from weights-first products, one per pair: (x W_r) q = x (W_r q).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from _peers._pairs import HeadIndex, Segments, Side, pair_plan
from _peers._torch_ops import WORKSPACE, Multiply, bag, gather, segment_mm, softmax_terms
from _peers.problem import Problem

# Seconds of a score per (node, etype) in one dense product, of a score per existing pair, and of a
# small product's launch: measured on a CPU, for a GPU from what data sheets say of its memory. They
# only decide which of the two ways is taken.
_COSTS = {"cpu": (1.2e-9, 10e-9, 5e-6), "cuda": (6e-12, 0.3e-9, 8e-6)}


class Scores:
    """x[node] @ w[etype] for each entry, dense or per pair, whichever is less work."""

    def __init__(self, node: Tensor, etype: Tensor, head: Tensor, problem: Problem) -> None:
        n, r, heads = problem.graph.num_nodes, problem.graph.num_etypes, problem.heads
        keys, pair = (etype * n + node).unique(return_inverse=True)
        self.pairs = Segments.of(keys, problem.graph)
        dense, each, launch = _COSTS[problem.graph.device.type]
        per_pair = self.pairs.rows * each + len(self.pairs.etypes) * launch
        self.is_dense = n * r * dense < per_pair
        self.entry = (node * r + etype if self.is_dense else pair) * heads + head

    def __call__(self, x: Tensor, w: Tensor, name: str) -> Tensor:
        """Scores [E H] from x [N, d] and w [R, d, H]."""
        r, d, heads = w.shape
        if self.is_dense:
            table = WORKSPACE.take(name, (x.shape[0], r * heads), x)
            torch.mm(x, w.transpose(0, 1).reshape(d, r * heads), out=table)
        else:
            table = WORKSPACE.take(name, (self.pairs.rows, heads), x)
            segment_mm(gather(x, self.pairs.nodes, "rows"), self.pairs, w, table)
        return table.view(-1).index_select(0, self.entry)


def pairs(problem: Problem, *, side: Side, multiply: Multiply = segment_mm) -> Callable[[], Tensor]:
    """Scores per pair, softmax over each node's edges, messages on the chosen side.

    Args:
        problem: The cell.
        side: "source" is compaction, "target" aggregates first, "smaller" decides per relation.
        multiply: The product of messages by relation.
    """
    conv: Any = problem.conv
    x, graph, heads = problem.x, problem.graph, problem.heads
    depth = problem.width // heads
    plan = pair_plan(graph, side)
    index = HeadIndex.of(plan, graph.dst, heads)
    src, dst = problem.edge_index[:, index.edge]
    etype = problem.edge_type[index.edge]
    source_scores = Scores(src, etype, index.head, problem)
    target_scores = Scores(dst, etype, index.head, problem)
    summed_nodes, sources = src[index.left :].clone(), plan.source.rows
    del src, dst, etype

    def run() -> Tensor:
        flat = conv.weight.view(-1, heads * depth)
        w_q = (flat @ conv.q).view(graph.num_etypes, -1, heads)
        w_k = (flat @ conv.k).view(graph.num_etypes, -1, heads)
        scores = target_scores(x, w_q, "scores").add_(source_scores(x, w_k, "scores"))
        leaky_relu(scores, conv.negative_slope, inplace=True)
        terms, total = softmax_terms(scores, index.group, graph.num_nodes * heads)

        table = WORKSPACE.take("table", (sources + plan.target.rows, heads * depth), x)
        if sources:
            gathered = gather(x, plan.source.nodes, "rows")
            multiply(gathered, plan.source, conv.weight, table[:sources])
        if plan.target.rows:
            summed = bag(summed_nodes, index.right_ptr, x, terms[index.left :])
            summed = summed.view(plan.target.rows, heads, -1)
            for h in range(heads):
                columns = slice(h * depth, (h + 1) * depth)
                weight, out = conv.weight[:, :, columns], table[sources:, columns]
                multiply(summed[:, h], plan.target, weight, out)
        weights = index.final_weights(terms)
        out = bag(index.final_row, index.final_ptr, table.view(-1, depth), weights)
        out.div_(total.unsqueeze(1))
        return out.view(-1, heads * depth).add_(conv.bias)

    return run
