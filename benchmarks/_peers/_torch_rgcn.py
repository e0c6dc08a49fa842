"""RGCN (mean, root weight, bias) in plain PyTorch, as an expert writes it."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from _peers._pairs import Side, mean_weights, pair_plan, pointers
from _peers._torch_ops import (
    WORKSPACE,
    Multiply,
    bag,
    bag_mean,
    csr_tensor,
    gather,
    segment_mm,
)
from _peers.problem import Problem

Run = Callable[[], Tensor]
Product = Literal["bag", "csr"]


def pairs(
    problem: Problem, *, side: Side, product: Product = "bag", multiply: Multiply = segment_mm
) -> Run:
    """One product per pair of the chosen side, sorted by relation; then a sparse product.

    Args:
        problem: The cell.
        side: "source" is compaction, "target" aggregates first, "smaller" decides per relation.
        product: The sparse product: embedding_bag, or a CSR tensor.
        multiply: The product by relation.
    """
    conv: Any = problem.conv
    x, plan = problem.x, pair_plan(problem.graph, side)
    edge_weights = mean_weights(problem.graph)[plan.edge]
    entries = torch.cat(
        [edge_weights[: plan.source_edges], edge_weights.new_ones(plan.target.rows)]
    )
    weights = entries.to(problem.dtype)[plan.final_entry]
    target_src = problem.edge_index[0][plan.edge[plan.source_edges :]]
    rows = plan.source.rows + plan.target.rows

    if product == "csr":
        final = _csr(plan.final_ptr, plan.final_row, weights, rows)
        target_weights = edge_weights[plan.source_edges :].to(problem.dtype)
        first = _csr(plan.target_ptr, target_src, target_weights, problem.graph.num_nodes)

    def run() -> Tensor:
        table = WORKSPACE.take("table", (rows, problem.width), x)
        if plan.source.rows:
            gathered = gather(x, plan.source.nodes, "rows")
            multiply(gathered, plan.source, conv.weight, table[: plan.source.rows])
        if plan.target.rows:
            csr = product == "csr"
            summed = first @ x if csr else bag_mean(target_src, plan.target_ptr, x)
            multiply(summed, plan.target, conv.weight, table[plan.source.rows :])
        own = _own_share(conv, x)
        if product == "csr":
            return (final @ table).add_(own)
        return bag(plan.final_row, plan.final_ptr, table, weights).add_(own)

    return run


def dense(problem: Problem) -> Run:
    """x @ [W_1 .. W_R] for every node and relation; then a sparse product. For few relations."""
    conv: Any = problem.conv
    x, graph, d = problem.x, problem.graph, problem.width
    order = problem.edge_index[1].argsort(stable=True)
    rows = (problem.edge_index[0] * graph.num_etypes + problem.edge_type)[order]
    ptr = pointers(problem.edge_index[1], graph.num_nodes)
    weights = mean_weights(graph).to(problem.dtype)[order]

    def run() -> Tensor:
        table = WORKSPACE.take("table", (graph.num_nodes, graph.num_etypes * d), x)
        torch.mm(x, conv.weight.transpose(0, 1).reshape(d, -1), out=table)
        return bag(rows, ptr, table.view(-1, d), weights).add_(_own_share(conv, x))

    return run


def _own_share(conv: Any, x: Tensor) -> Tensor:
    """x @ root + bias, in a kept buffer."""
    out = WORKSPACE.take("own", (x.shape[0], conv.root.shape[1]), x)
    return torch.addmm(conv.bias, x, conv.root, out=out)


def _csr(ptr: Tensor, rows: Tensor, weights: Tensor, width: int) -> Tensor:
    return csr_tensor(ptr.int(), rows.int(), weights, width)  # 32-bit ids: the faster ones here
