"""HGT in plain PyTorch, as an expert writes it: folded weights, pairs, CSR products.

On the source side keys and messages are computed per (src, etype) pair; on the target side queries
per (dst, etype) pair, and values are summed before their map. Either way a score is one sampled
dense-dense product. With one head all maps before the sum are folded into one matrix per relation
for scores and one for messages, ahead of time, as hetune does: nodes have no keys, queries or
values. With several, folded keys and values have full matrices where the relation's are blocks, so
that is done where the relations have fewer weight rows than the graph has nodes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from _peers._pairs import HeadIndex, Side, pair_plan
from _peers._torch_ops import (
    WORKSPACE,
    HGTWeights,
    Multiply,
    bag,
    csr_tensor,
    gather,
    linear_by_type,
    segment_addmm,
    segment_mm,
    softmax_terms,
)
from _peers.problem import Problem


@dataclass(frozen=True, slots=True)
class _Folded:
    """Linear maps of nodes and then of relations, as one of each relation.

    Attributes:
        k: W_k W_att, the latter scaled by the prior, [R, d_in, d].
        k_bias: What b_k becomes, [R, d].
        v, v_bias: The same of W_v W_msg.
    """

    k: Tensor
    k_bias: Tensor
    v: Tensor
    v_bias: Tensor

    @staticmethod
    def of(weights: HGTWeights, att: Tensor, source_type: Tensor) -> "_Folded":
        def fold(weight: Tensor, matrices: Tensor) -> Tensor:
            r, heads, depth, _ = matrices.shape
            rows = weight[source_type].view(r, -1, heads, depth).transpose(1, 2)
            return (rows @ matrices).transpose(1, 2).reshape(r, -1, heads * depth)

        w, msg = weights, weights.msg
        bias = fold(w.k_bias.unsqueeze(1), att), fold(w.v_bias.unsqueeze(1), msg)
        return _Folded(fold(w.k, att), bias[0].squeeze(1), fold(w.v, msg), bias[1].squeeze(1))


@dataclass(frozen=True, slots=True)
class _Scores:
    """Of one head: what x at one end of an edge becomes, to meet x and a 1 at the other end.

    Attributes:
        source: [R, d_in, d_in + 1]; target: [R, d_in, d_in + 1].
        source_bias: [R, d_in + 1]; target_bias: [R, d_in + 1].
    """

    source: Tensor
    source_bias: Tensor
    target: Tensor
    target_bias: Tensor

    @staticmethod
    def of(weights: HGTWeights, folded: _Folded, target_type: Tensor) -> "_Scores":
        q = torch.cat([weights.q, weights.q_bias.unsqueeze(1)], dim=1)[target_type]
        k = torch.cat([folded.k, folded.k_bias.unsqueeze(1)], dim=1)
        both = k @ q.transpose(1, 2)  # [R, d_in + 1, d_in + 1]
        back = both.transpose(1, 2)
        source, target = both[:, :-1].contiguous(), back[:, :-1].contiguous()
        return _Scores(source, both[:, -1].contiguous(), target, back[:, -1].contiguous())


class _HGT:
    """Indexes of one form; calling it runs the layer."""

    def __init__(self, problem: Problem, side: Side, light: bool, multiply: Multiply) -> None:
        graph, heads = problem.graph, problem.heads
        self.multiply = multiply
        self.x, self.d, self.heads, self.light = problem.x, problem.width, heads, light
        self.depth = problem.width // heads
        self.n, self.weights = graph.num_nodes, HGTWeights.of(problem)
        if light:
            for bias in ("k_bias", "q_bias", "v_bias", "out_bias"):
                getattr(self.weights, bias).zero_()
        self.plan = pair_plan(graph, side)
        self.index = index = HeadIndex.of(self.plan, graph.dst, heads)
        self.source_type = graph.etype_src_ntype.long()
        bounds = graph.node_offsets
        slices = {t: slice(bounds[t], bounds[t + 1]) for t in range(graph.num_ntypes)}
        self.sources = {t: slices[t] for t in sorted(set(self.source_type.tolist()))}
        self.targets = {t: slices[t] for t in sorted(set(graph.etype_dst_ntype.tolist()))}

        # Folded weights have biases, which a plain product by relation has not.
        biased = multiply is segment_mm
        few = graph.num_etypes * problem.width < graph.num_nodes
        att = self.weights.att * (self.weights.prior / math.sqrt(self.depth))[:, :, None, None]
        self.att = att
        self.folded = self.scores = None
        if biased and (heads == 1 or few):
            self.folded = _Folded.of(self.weights, att, self.source_type)
            if heads == 1:
                target_type = graph.etype_dst_ntype.long()
                self.scores = _Scores.of(self.weights, self.folded, target_type)
        src = problem.edge_index[0][index.edge] * heads + index.head
        self.summed = src[index.left :].clone()
        zeros = self.x.new_zeros(index.row.numel())
        left, rows = index.left, self.plan.source.rows * heads
        self.left = csr_tensor(index.left_ptr, index.row[:left], zeros[:left], rows)
        self.right = csr_tensor(index.right_ptr, self.summed, zeros[left:], self.n * heads)

    def __call__(self) -> Tensor:
        w, plan, index = self.weights, self.plan, self.index
        table = WORKSPACE.take("table", (plan.source.rows + plan.target.rows, self.d), self.x)
        messages, sums = table[: plan.source.rows], table[plan.source.rows :]
        if self.scores is not None:
            scores, v = self._folded_scores(self.scores), self.x
        else:
            q = self._by_type(w.q, w.q_bias, self.targets, "q")
            k = v = self.x
            if plan.target.rows or self.folded is None:
                k = self._by_type(w.k, w.k_bias, self.sources, "k")
                v = self._by_type(w.v, w.v_bias, self.sources, "v")
            scores = self._scores(q, k)
        if plan.source.rows:
            self._source_messages(v, messages)
        joined = scores[0] if len(scores) == 1 else torch.cat(scores)
        terms, total = softmax_terms(joined, index.group, self.n * self.heads)
        if plan.target.rows:
            self._target_messages(v, terms[index.left :], sums)

        weights = index.final_weights(terms)
        h = bag(index.final_row, index.final_ptr, table.view(-1, self.depth), weights)
        return self._output(h.div_(total.unsqueeze(1)).view(self.n, self.d))

    def _by_type(self, weight: Tensor, bias: Tensor, slices: dict[int, slice], name: str) -> Tensor:
        out = WORKSPACE.take(name, (self.n, self.d), self.x)
        return linear_by_type(self.x, slices, weight, bias, out)

    def _folded_scores(self, folded: _Scores) -> list[Tensor]:
        """Scores of the source side's edges and of the target side's, from x alone."""
        ones = WORKSPACE.take("ones", (self.n, self.d + 1), self.x)
        ones[:, :-1] = self.x
        ones[:, -1] = 1
        sides = (
            (self.plan.source, folded.source, folded.source_bias),
            (self.plan.target, folded.target, folded.target_bias),
        )
        rows = []
        for name, (pairs, weight, bias) in zip(("keys", "queries"), sides, strict=True):
            out = WORKSPACE.take(name, (pairs.rows, self.d + 1), self.x)
            if pairs.rows:
                segment_addmm(gather(self.x, pairs.nodes, "rows"), pairs, weight, bias, out)
            rows.append(out)
        keys, queries = rows
        scores = [_sampled(self.left, ones, keys)] if self.plan.source.rows else []
        return scores + ([_sampled(self.right, queries, ones)] if self.plan.target.rows else [])

    def _scores(self, q: Tensor, k: Tensor) -> list[Tensor]:
        """The same from queries per node, and keys per node or folded ones per pair."""
        found = []
        if pairs := self.plan.source.rows:
            keys = WORKSPACE.take("keys", (pairs, self.d), self.x)
            folded = self.folded and (self.folded.k, self.folded.k_bias)
            self._by_pair(k, folded, self.att, keys)
            found.append(_sampled(self.left, q.view(-1, self.depth), keys.view(-1, self.depth)))
        if pairs := self.plan.target.rows:
            queries = WORKSPACE.take("queries", (pairs, self.d), self.x)
            rows = gather(q, self.plan.target.nodes, "rows")
            self.multiply(rows, self.plan.target, _blocks(self.att).transpose(1, 2), queries)
            found.append(_sampled(self.right, queries.view(-1, self.depth), k.view(-1, self.depth)))
        return found

    def _source_messages(self, v: Tensor, messages: Tensor) -> None:
        folded = self.folded and (self.folded.v, self.folded.v_bias)
        self._by_pair(v, folded, self.weights.msg, messages)

    def _by_pair(
        self, rows: Tensor, folded: tuple[Tensor, Tensor] | None, matrices: Tensor, out: Tensor
    ) -> None:
        """Rows of source pairs times their relation's matrices, or x times folded ones."""
        pairs = self.plan.source
        if folded is not None:
            segment_addmm(gather(self.x, pairs.nodes, "rows"), pairs, *folded, out)
        else:
            self.multiply(gather(rows, pairs.nodes, "rows"), pairs, _blocks(matrices), out)

    def _target_messages(self, v: Tensor, terms: Tensor, messages: Tensor) -> None:
        pairs, ptr = self.plan.target, self.index.right_ptr
        if self.scores is None or self.folded is None:
            summed = bag(self.summed, ptr, v.view(-1, self.depth), terms).view(-1, self.d)
            self.multiply(summed, pairs, _blocks(self.weights.msg), messages)
            return
        self.multiply(bag(self.summed, ptr, self.x, terms), pairs, self.folded.v, messages)
        if not self.light:
            attention = torch.segment_reduce(terms, "sum", offsets=ptr, axis=0)
            parts = zip(
                pairs.etypes,
                attention.split(pairs.sizes),
                messages.split(pairs.sizes),
                strict=True,
            )
            for r, share, rows in parts:
                rows.addr_(share, self.folded.v_bias[r])

    def _output(self, h: Tensor) -> Tensor:
        w = self.weights
        out = torch.empty_like(self.x)
        if not self.light:
            h = torch.ops.aten.gelu_(h)  # in place: no large temporary
        alpha = w.skip.sigmoid()
        linear_by_type(h, self.targets, w.out, w.out_bias, out)
        for t, rows in self.targets.items():
            torch.lerp(self.x[rows], out[rows], alpha[t], out=out[rows])
        return out


def pairs(
    problem: Problem, *, side: Side, light: bool = False, multiply: Multiply = segment_mm
) -> Callable[[], Tensor]:
    """HGT with keys and values on the chosen side.

    Args:
        problem: The cell.
        side: "source", "target", or "smaller": which of them decided per relation.
        light: Without biases and without the GELU: DGL's model.
        multiply: The product of messages by relation; with another than the default, weights are
            not folded.
    """
    return _HGT(problem, side, light, multiply)


def _blocks(matrices: Tensor) -> Tensor:
    """[R, H, D, D] as block-diagonal [R, H D, H D]."""
    r, heads, depth, _ = matrices.shape
    if heads == 1:
        return matrices.squeeze(1)
    out = matrices.new_zeros(r, heads, depth, heads, depth)
    out.diagonal(dim1=1, dim2=3).copy_(matrices.permute(0, 2, 3, 1))
    return out.view(r, heads * depth, heads * depth)


def _sampled(pattern: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Row . row for each entry of the pattern."""
    if left.is_cuda and left.dtype == torch.float64:
        return dots(pattern, left, right)  # the reference takes no chances
    return torch.sparse.sampled_addmm(pattern, left, right.t(), beta=0.0).values()


def dots(pattern: Tensor, left: Tensor, right: Tensor, entries: int = 1 << 22) -> Tensor:
    """The same by picking both rows of so many entries at a time."""
    columns = pattern.col_indices()
    rows = torch.arange(left.shape[0], device=left.device)
    rows = rows.repeat_interleave(pattern.crow_indices().diff(), output_size=columns.numel())
    parts = zip(rows.split(entries), columns.split(entries), strict=True)
    return torch.cat([(left[one] * right[other]).sum(1) for one, other in parts])
