"""Indexes of the expert forms: which rows to transform, and how to add them up.

A relation's messages may be transformed per distinct (src, etype) pair ("source") or summed first
and transformed per distinct (dst, etype) pair ("target"). "smaller" takes for each relation the
side with fewer rows. All of this is preprocessing and is not timed with the call.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hetune.variants.graph.hetero import HeteroGraph

Side: TypeAlias = Literal["source", "target", "smaller"]
_Ids: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segments:
    """Distinct (node, etype) pairs, in order of the etype.

    Attributes:
        nodes: Node of each pair, int64 [P].
        etypes: The relations that occur, ascending.
        sizes: Number of pairs of each of them.
    """

    nodes: Tensor
    etypes: list[int]
    sizes: list[int]

    @property
    def rows(self) -> int:
        """P."""
        return self.nodes.numel()

    @staticmethod
    def of(keys: _Ids, num_nodes: int) -> "Segments":
        """From sorted keys etype * num_nodes + node."""
        etypes, sizes = np.unique(keys // max(num_nodes, 1), return_counts=True)
        nodes = torch.from_numpy(keys % max(num_nodes, 1))
        return Segments(nodes, etypes.tolist(), sizes.tolist())


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
    """Build the indexes for `side`."""
    n = graph.num_nodes
    src, dst, etype = (ids.numpy().astype(np.int64) for ids in (graph.src, graph.dst, graph.etype))
    source_keys, source_of = np.unique(etype * n + src, return_inverse=True)
    target_keys, target_of = np.unique(etype * n + dst, return_inverse=True)
    on_source = _sides(source_keys // n, target_keys // n, graph.num_etypes, side)

    source_kept, target_kept = on_source[source_keys // n], ~on_source[target_keys // n]
    source = Segments.of(source_keys[source_kept], n)
    target = Segments.of(target_keys[target_kept], n)
    row_of_source, row_of_target = np.cumsum(source_kept) - 1, np.cumsum(target_kept) - 1

    left, right = np.flatnonzero(on_source[etype]), np.flatnonzero(~on_source[etype])
    left = left[np.lexsort((source_of[left], dst[left]))]
    right = right[np.lexsort((src[right], target_of[right]))]
    left_row, right_row = row_of_source[source_of[left]], row_of_target[target_of[right]]

    final_node = np.concatenate([dst[left], target.nodes.numpy()])
    final_row = np.concatenate([left_row, source.rows + np.arange(target.rows)])
    order = np.lexsort((final_row, final_node))
    return PairPlan(
        num_nodes=n,
        source=source,
        target=target,
        edge=torch.from_numpy(np.concatenate([left, right])),
        source_edges=len(left),
        edge_row=torch.from_numpy(np.concatenate([left_row, right_row])),
        target_ptr=pointers(right_row, target.rows),
        final_row=torch.from_numpy(final_row[order]),
        final_ptr=pointers(final_node, n),
        final_entry=torch.from_numpy(order),
    )


def pointers(groups: _Ids, count: int) -> Tensor:
    """CSR bounds [count + 1] of groups 0..count-1, given each member's group."""
    bounds = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(groups, minlength=count), out=bounds[1:])
    return torch.from_numpy(bounds)


def mean_weights(graph: HeteroGraph) -> Tensor:
    """1 / (edges that share destination and relation) of each edge, float64 [E]."""
    keys = graph.etype.long() * graph.num_nodes + graph.dst.long()
    _, position, count = keys.unique(return_inverse=True, return_counts=True)
    return count[position].double().reciprocal()


def _sides(
    source_etypes: _Ids, target_etypes: _Ids, num_etypes: int, side: Side
) -> NDArray[np.bool_]:
    """For each relation, whether it is transformed on the source side."""
    if side != "smaller":
        return np.full(num_etypes, side == "source")
    source_rows = np.bincount(source_etypes, minlength=num_etypes)
    return source_rows <= np.bincount(target_etypes, minlength=num_etypes)


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
        target_rows = plan.source.rows * heads + torch.arange(targets.numel())
        final_group = torch.cat([group[:left], targets])
        final_entry = final_group.argsort(stable=True)
        groups = plan.num_nodes * heads
        return HeadIndex(
            edge=plan.edge[order // heads],
            head=order % heads,
            group=group,
            left=left,
            row=row,
            left_ptr=pointers(group[:left].numpy(), groups),
            right_ptr=pointers(row[left:].numpy(), targets.numel()),
            final_row=torch.cat([row[:left], target_rows])[final_entry],
            final_ptr=pointers(final_group.numpy(), groups),
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
    return index.unsqueeze(1) * heads + torch.arange(heads)
