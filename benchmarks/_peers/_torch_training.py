"""The expert's forms with gradients, in hybrid form.

What stock PyTorch differentiates slowly is a function of its own here: a sparse product, whose
backward is a product with the transpose, and a product by relation. Each form takes x [N, d].
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from _peers._pairs import HeadIndex, Segments, Side, mean_weights, pair_plan, pointers
from _peers._torch_hgt import _blocks, _sampled
from _peers._torch_ops import HGTWeights, bag, csr_tensor, segment_mm
from _peers._torch_rgat import Scores
from _peers.problem import Problem

Form = Callable[[Any], Tensor]


class Pattern:
    """Where a sparse matrix has entries: by row, and the way back by column."""

    def __init__(self, ptr: Tensor, columns: Tensor, width: int) -> None:
        self.ptr, self.columns = ptr, columns
        self.rows = torch.arange(len(ptr) - 1, device=ptr.device).repeat_interleave(ptr.diff())
        self.back = columns.argsort(stable=True)
        self.back_ptr, self.back_rows = pointers(columns, width), self.rows[self.back]
        self.zeros = csr_tensor(ptr, columns, torch.zeros_like(columns).float(), width)

    @staticmethod
    def gather(rows: Tensor, width: int) -> "Pattern":
        """With one entry a row."""
        return Pattern(torch.arange(len(rows) + 1, device=rows.device), rows, width)

    def product(self, table: Tensor, values: Tensor | None = None) -> Tensor:
        """The matrix times a table; without values, of ones."""
        return _Product.apply(self, table, values)  # type: ignore[no-any-return]

    def dots(self, left: Tensor, right: Tensor) -> Tensor:
        """Row . row for each entry."""
        return _Dots.apply(self, left, right)  # type: ignore[no-any-return]

    def transposed(self, table: Tensor, values: Tensor | None) -> Tensor:
        values = None if values is None else values[self.back]
        return bag(self.back_rows, self.back_ptr, table, values)

    def sampled(self, left: Tensor, right: Tensor) -> Tensor:
        return _sampled(self.zeros.to(left.dtype), left, right)


class _Product(Function):
    @staticmethod
    def forward(ctx: Any, pattern: Pattern, table: Tensor, values: Tensor | None) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(table, values)
        return bag(pattern.columns, pattern.ptr, table, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, up: Tensor) -> tuple[Tensor | None, ...]:
        (table, values), (_, of_table, of_values) = ctx.saved_tensors, ctx.needs_input_grad
        up = up.contiguous()
        by_table = ctx.pattern.transposed(up, values) if of_table else None
        return None, by_table, ctx.pattern.sampled(up, table) if of_values else None


class _Dots(Function):
    @staticmethod
    def forward(ctx: Any, pattern: Pattern, left: Tensor, right: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(left, right)
        return pattern.sampled(left, right)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, up: Tensor) -> tuple[Tensor | None, ...]:
        (left, right), pattern = ctx.saved_tensors, ctx.pattern
        by_left = bag(pattern.columns, pattern.ptr, right, up)
        return None, by_left, pattern.transposed(left, up)


class _ByRelation(Function):
    @staticmethod
    def forward(ctx: Any, segments: Segments, rows: Tensor, weight: Tensor) -> Tensor:
        ctx.segments = segments
        ctx.save_for_backward(rows, weight)
        out = rows.new_empty(len(rows), weight.shape[2])
        segment_mm(rows, segments, weight, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, up: Tensor) -> tuple[Tensor | None, ...]:
        (rows, weight), segments = ctx.saved_tensors, ctx.segments
        by_rows, by_weight = None, torch.zeros_like(weight)
        if ctx.needs_input_grad[1]:
            by_rows = rows.new_empty(rows.shape)
            segment_mm(up, segments, weight.transpose(1, 2), by_rows)
        sizes = segments.sizes
        for r, x, y in zip(segments.etypes, rows.split(sizes), up.split(sizes), strict=True):
            torch.mm(x.t(), y, out=by_weight[r])
        return None, by_rows, by_weight


def by_relation(rows: Tensor, segments: Segments, weight: Tensor) -> Tensor:
    """rows of r @ weight[r]."""
    return _ByRelation.apply(segments, rows, weight)  # type: ignore[no-any-return]


def softmax_terms(scores: Tensor, group: Tensor, num_groups: int) -> tuple[Tensor, Tensor]:
    """exp(score - its group's maximum) and their sum per group; dividing is left to the caller."""
    with torch.no_grad():
        top = scores.new_full((num_groups,), -math.inf).scatter_reduce_(0, group, scores, "amax")
        top = top.index_select(0, group)
    terms = (scores - top).exp()
    return terms, scores.new_zeros(num_groups).index_add(0, group, terms) + 1e-16


def rgcn(problem: Problem, side: Side) -> Form:
    """Mean, root weight, bias."""
    if problem.is_featureless:
        return _featureless_rgcn(problem)
    conv: Any = problem.conv
    plan, n = pair_plan(problem.graph, side), problem.graph.num_nodes
    source, target, left = plan.source, plan.target, plan.source_edges
    weights = mean_weights(problem.graph)[plan.edge].to(problem.dtype)
    entries = torch.cat([weights[:left], weights.new_ones(target.rows)])[plan.final_entry]
    sources = Pattern.gather(source.nodes, n)
    first = Pattern(plan.target_ptr, problem.edge_index[0][plan.edge[left:]], n)
    final = Pattern(plan.final_ptr, plan.final_row, source.rows + target.rows)

    def run(x: Tensor) -> Tensor:
        parts = []
        if source.rows:
            parts.append(by_relation(sources.product(x), source, conv.weight))
        if target.rows:
            parts.append(by_relation(first.product(x, weights[left:]), target, conv.weight))
        return final.product(torch.cat(parts), entries) + torch.addmm(conv.bias, x, conv.root)

    return run


def _featureless_rgcn(problem: Problem) -> Form:
    conv: Any = problem.conv
    n, graph = problem.graph.num_nodes, problem.graph
    order = graph.dst.argsort(stable=True)
    rows = (graph.etype.long() * n + graph.src)[order]
    pattern = Pattern(pointers(graph.dst.long(), n), rows, graph.num_etypes * n)
    values = mean_weights(graph).to(problem.dtype)[order]
    return lambda _: pattern.product(conv.weight.flatten(0, 1), values) + conv.root + conv.bias


def rgat(problem: Problem, side: Side) -> Form:
    """Additive attention, softmax across relations."""
    conv: Any = problem.conv
    graph, heads, depth = problem.graph, problem.heads, problem.width // problem.heads
    plan, n = pair_plan(graph, side), graph.num_nodes
    index, source, target = HeadIndex.of(plan, graph.dst, heads), plan.source, plan.target
    src, dst = problem.edge_index[:, index.edge]
    ends = [Scores(end, problem.edge_type[index.edge], index.head, problem) for end in (src, dst)]
    pairs = [Pattern.gather(end.pairs.nodes, n) for end in ends]
    sources = Pattern.gather(source.nodes, n)
    first = Pattern(index.right_ptr, src[index.left :], n)
    final = Pattern(index.final_ptr, index.final_row, (source.rows + target.rows) * heads)

    def scores(end: int, x: Tensor, w: Tensor) -> Tensor:
        r, d, _ = w.shape
        if ends[end].is_dense:
            table = x @ w.transpose(0, 1).reshape(d, r * heads)
        else:
            table = by_relation(pairs[end].product(x), ends[end].pairs, w)
        return table.view(-1).index_select(0, ends[end].entry)

    def run(x: Tensor) -> Tensor:
        flat = conv.weight.view(-1, heads * depth)
        w_k, w_q = ((flat @ a).view(graph.num_etypes, -1, heads) for a in (conv.k, conv.q))
        both = functional.leaky_relu(scores(0, x, w_k) + scores(1, x, w_q), conv.negative_slope)
        terms, total = softmax_terms(both, index.group, n * heads)
        parts = []
        if source.rows:
            parts.append(by_relation(sources.product(x), source, conv.weight))
        if target.rows:
            sums = first.product(x, terms[index.left :]).view(target.rows, heads, -1).unbind(1)
            weights = conv.weight.split(depth, dim=2)
            by_head = [by_relation(s, target, w) for s, w in zip(sums, weights, strict=True)]
            parts.append(torch.cat(by_head, dim=1))
        table = torch.cat(parts).view(-1, depth)
        rows = final.product(table, index.final_weights(terms)) / total.unsqueeze(1)
        return rows.view(-1, heads * depth) + conv.bias

    return run


def hgt(problem: Problem, side: Side, light: bool = False) -> Form:
    """Keys and values of source pairs, queries and sums of target pairs.

    Args:
        problem: The cell.
        side: As of `pair_plan`.
        light: Without biases and without the GELU: DGL's model.
    """
    graph, heads, d = problem.graph, problem.heads, problem.width
    depth, n, plan = d // heads, graph.num_nodes, pair_plan(problem.graph, side)
    index, source, target = HeadIndex.of(plan, graph.dst, heads), plan.source, plan.target
    left, rows = index.left, source.rows * heads
    src = problem.edge_index[0][index.edge] * heads + index.head
    sources, targets = (Pattern.gather(end.nodes, n) for end in (source, target))
    near = Pattern(index.left_ptr, index.row[:left], rows)
    far = Pattern(index.right_ptr, src[left:], n * heads)
    final = Pattern(index.final_ptr, index.final_row, rows + target.rows * heads)
    sizes = torch.tensor(graph.node_offsets).diff().tolist()
    reached = set(graph.etype_dst_ntype.tolist())

    def of_heads(table: Tensor) -> Tensor:
        return table.view(-1, depth)

    def run(x: Tensor) -> Tensor:
        w, x_of = HGTWeights.of(problem), x.split(sizes)

        def linear(parts: tuple[Tensor, ...], weight: Tensor, bias: Tensor) -> list[Tensor]:
            found = zip(parts, weight, bias, strict=True)
            return [p @ a if light else torch.addmm(b, p, a) for p, a, b in found]

        k, q, v = (
            torch.cat(linear(x_of, weight, bias))
            for weight, bias in ((w.k, w.k_bias), (w.q, w.q_bias), (w.v, w.v_bias))
        )
        att = _blocks(w.att * (w.prior / math.sqrt(depth))[:, :, None, None])
        msg, scores, parts = _blocks(w.msg), [], []
        if source.rows:
            keys = by_relation(sources.product(k), source, att)
            scores.append(near.dots(of_heads(q), of_heads(keys)))
            parts.append(by_relation(sources.product(v), source, msg))
        if target.rows:
            queries = by_relation(targets.product(q), target, att.transpose(1, 2))
            scores.append(far.dots(of_heads(queries), of_heads(k)))
        terms, total = softmax_terms(torch.cat(scores), index.group, n * heads)
        if target.rows:
            sums = far.product(of_heads(v), terms[left:]).view(-1, d)
            parts.append(by_relation(sums, target, msg))
        h = final.product(of_heads(torch.cat(parts)), index.final_weights(terms))
        h = (h / total.unsqueeze(1)).view(n, d)
        out = linear((h if light else functional.gelu(h)).split(sizes), w.out, w.out_bias)
        alpha = w.skip.sigmoid()
        mixed = (torch.lerp(x_of[t], out[t], alpha[t]) for t in range(len(sizes)))
        return torch.cat([m if t in reached else x_of[t] for t, m in enumerate(mixed)])

    return run
