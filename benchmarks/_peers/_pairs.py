"""Indexes of the expert forms: which rows to transform, and how to add them up.

A relation's messages may be transformed per distinct (src, etype) pair ("source") or summed first
and transformed per distinct (dst, etype) pair ("target"). "smaller" takes for each relation the
side with fewer rows. All of this is preprocessing and is not timed with the call.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from hetune.variants.graph.hetero import HeteroGraph

Side: TypeAlias = Literal["source", "target", "smaller"]


@dataclass(frozen=True, slots=True)
class Segments:
    """Distinct (node, etype) pairs, in order of the etype.

    Attributes:
        nodes: Node of each pair, int64 [P].
        etypes: The relations that occur, ascending.
        sizes: Number of pairs of each of them.
        ends: Where the pairs of each relation end, those without any too, int32 [R].
    """

    nodes: Tensor
    etypes: list[int]
    sizes: list[int]
    ends: Tensor

    @property
    def rows(self) -> int:
        """P."""
        return self.nodes.numel()

    @staticmethod
    def of(keys: Tensor, graph: HeteroGraph) -> "Segments":
        """From sorted keys etype * num_nodes + node."""
        n = max(graph.num_nodes, 1)
        counts = torch.bincount(keys // n, minlength=graph.num_etypes)
        etypes = counts.nonzero().flatten()
        sizes = counts[etypes].tolist()
        return Segments(keys % n, etypes.tolist(), sizes, counts.cumsum(0).int())


@dataclass(frozen=True, slots=True)
class PairPlan:
    """How to run one layer over one graph.

    Edges are reordered: first those of source-side relations by destination, then those of
    target-side relations by pair. Rows are numbered: source pairs, then target pairs.

    Attributes:
        source, target: Rows to transform on either side.
        edge: Position of each reordered edge in the graph, [E].
        source_edges: How many edges are on the source side.
        edge_row: Row that each reordered edge reads (source side) or adds to (target side), [E].
        target_ptr: CSR bounds of the target rows over the target-side edges, [T + 1].
        final_row: Rows to add up into nodes, in order of the node, [F].
        final_ptr: CSR bounds of the nodes over `final_row`, [N + 1].
        final_entry: Where each of `final_row` has its weight in cat(source-side edges, target
            rows), [F].
    """

    num_nodes: int
    source: Segments
    target: Segments
    edge: Tensor
    source_edges: int
    edge_row: Tensor
    target_ptr: Tensor
    final_row: Tensor
    final_ptr: Tensor
    final_entry: Tensor


def pair_plan(graph: HeteroGraph, side: Side) -> PairPlan:
    """Build the indexes for `side`, where the graph is."""
    n, r = graph.num_nodes, graph.num_etypes
    src, dst, etype = (ids.long() for ids in (graph.src, graph.dst, graph.etype))
    source_keys, source_of = torch.unique(etype * n + src, return_inverse=True)
    target_keys, target_of = torch.unique(etype * n + dst, return_inverse=True)
    nodes = max(n, 1)
    on_source = _sides(source_keys // nodes, target_keys // nodes, r, side)

    source_kept, target_kept = on_source[source_keys // nodes], ~on_source[target_keys // nodes]
    source = Segments.of(source_keys[source_kept], graph)
    target = Segments.of(target_keys[target_kept], graph)
    row_of_source, row_of_target = source_kept.cumsum(0) - 1, target_kept.cumsum(0) - 1

    side_of_edge = on_source[etype]
    left, right = side_of_edge.nonzero().flatten(), (~side_of_edge).nonzero().flatten()
    left = left[_order(dst[left], source_of[left])]
    right = right[_order(target_of[right], src[right])]
    left_row, right_row = row_of_source[source_of[left]], row_of_target[target_of[right]]

    final_node = torch.cat([dst[left], target.nodes])
    target_rows = source.rows + torch.arange(target.rows, device=graph.device)
    final_row = torch.cat([left_row, target_rows])
    order = _order(final_node, final_row)
    return PairPlan(
        num_nodes=n,
        source=source,
        target=target,
        edge=torch.cat([left, right]),
        source_edges=len(left),
        edge_row=torch.cat([left_row, right_row]),
        target_ptr=pointers(right_row, target.rows),
        final_row=final_row[order],
        final_ptr=pointers(final_node, n),
        final_entry=order,
    )


def pointers(groups: Tensor, count: int) -> Tensor:
    """CSR bounds [count + 1] of groups 0..count-1, given each member's group."""
    bounds = groups.new_zeros(count + 1)
    bounds[1:] = torch.bincount(groups, minlength=count).cumsum(0)
    return bounds


def _order(first: Tensor, second: Tensor) -> Tensor:
    """Positions in the order of `first`, and of `second` where that is equal."""
    by_second = second.argsort(stable=True)
    return by_second[first[by_second].argsort(stable=True)]


def mean_weights(graph: HeteroGraph) -> Tensor:
    """1 / (edges that share destination and relation) of each edge, float64 [E]."""
    keys = graph.etype.long() * graph.num_nodes + graph.dst.long()
    _, position, count = keys.unique(return_inverse=True, return_counts=True)
    return count[position].double().reciprocal()


def _sides(source_etypes: Tensor, target_etypes: Tensor, num_etypes: int, side: Side) -> Tensor:
    """For each relation, whether it is transformed on the source side, bool [R]."""
    if side != "smaller":
        return torch.full((num_etypes,), side == "source", device=source_etypes.device)
    source_rows = torch.bincount(source_etypes, minlength=num_etypes)
    return source_rows <= torch.bincount(target_etypes, minlength=num_etypes)


@dataclass(frozen=True, slots=True)
class HeadIndex:
    """A `PairPlan` for several heads: each (edge, head) is an entry, each (row, head) a row.

    Entries are ordered like the plan's edges, but with those of one (node, head) or one (target
    row, head) contiguous.

    Attributes:
        edge, head: Edge of the graph and head of each entry, [E H].
        group: node * H + head of each entry, [E H].
        left: How many entries are on the source side.
        row: row * H + head that each entry reads (source side) or adds to (target side), [E H].
        left_ptr: CSR bounds of (node, head) over the source-side entries, [N H + 1].
        right_ptr: CSR bounds of (target row, head) over the target-side entries, [T H + 1].
        final_row, final_ptr: (row, head) to add up into each (node, head).
        final_entry: Positions of their weights in cat(source-side entries, (target row, head)).
    """

    edge: Tensor
    head: Tensor
    group: Tensor
    left: int
    row: Tensor
    left_ptr: Tensor
    right_ptr: Tensor
    final_row: Tensor
    final_ptr: Tensor
    final_entry: Tensor

    @staticmethod
    def of(plan: PairPlan, dst: Tensor, heads: int) -> "HeadIndex":
        """Expand `plan`, whose edges have destinations `dst` (in the graph's order)."""
        left = plan.source_edges
        node, row = _spread(dst.long()[plan.edge], heads), _spread(plan.edge_row, heads)
        order = torch.cat(
            [
                node[:left].flatten().argsort(stable=True),
                row[left:].flatten().argsort(stable=True) + left * heads,
            ]
        )
        group, row = node.flatten()[order], row.flatten()[order]
        left *= heads
        targets = _spread(plan.target.nodes, heads).flatten()
        target_rows = plan.source.rows * heads + torch.arange(targets.numel(), device=dst.device)
        final_group = torch.cat([group[:left], targets])
        final_entry = final_group.argsort(stable=True)
        groups = plan.num_nodes * heads
        return HeadIndex(
            edge=plan.edge[order // heads],
            head=order % heads,
            group=group,
            left=left,
            row=row,
            left_ptr=pointers(group[:left], groups),
            right_ptr=pointers(row[left:], targets.numel()),
            final_row=torch.cat([row[:left], target_rows])[final_entry],
            final_ptr=pointers(final_group, groups),
            final_entry=final_entry,
        )

    def final_weights(self, terms: Tensor) -> Tensor:
        """Weight of each of `final_row`, from the entries' terms [E H]; 1 for target rows."""
        targets = self.right_ptr.numel() - 1
        if not targets:  # the source-side entries are in this order already
            return terms
        weights = torch.cat([terms[: self.left], terms.new_ones(targets)])
        return weights.index_select(0, self.final_entry)


def _spread(index: Tensor, heads: int) -> Tensor:
    """Row ids [E] as ids of (row, head), [E, heads]."""
    return index.unsqueeze(1) * heads + torch.arange(heads, device=index.device)
