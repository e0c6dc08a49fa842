"""From nodes to edges and back, in torch's words."""

from __future__ import annotations

import torch
from torch import Tensor


class Moves:
    """Of one graph: rows of nodes at the ends of edges, and rows of edges reduced at nodes.

    Attributes:
        src: The source of each edge, int64 [E].
        dst: Likewise its destination.
        num_nodes: N: of the nodes that edges lead to.
        num_sources: Of those that they come from.
    """

    def __init__(
        self, src: Tensor, dst: Tensor, num_nodes: int, num_sources: int | None = None
    ) -> None:
        self.src, self.dst, self.num_nodes = src, dst, num_nodes
        self.num_sources = num_nodes if num_sources is None else num_sources

    @property
    def num_edges(self) -> int:
        """E."""
        return self.src.shape[0]

    def at_src(self, rows: Tensor) -> Tensor:
        """Of rows of nodes, that of each edge's source."""
        return rows.index_select(0, self.src)

    def at_dst(self, rows: Tensor) -> Tensor:
        """Of rows of nodes, that of each edge's destination."""
        return rows.index_select(0, self.dst)

    def degrees(self, ends: Tensor) -> Tensor:
        """How many edges have each node at an end, int64 [N]."""
        count = self.num_sources if ends is self.src else self.num_nodes
        none = torch.zeros(count, dtype=ends.dtype, device=ends.device)
        return none.index_add(0, ends, torch.ones_like(ends))

    def reduced(self, rows: Tensor, fn: str) -> Tensor:
        """The sum, mean, max or min of the rows of edges that lead to each node; 0 of none."""
        zeros = rows.new_zeros((self.num_nodes, *rows.shape[1:]))
        if fn == "sum":
            return zeros.index_add(0, self.dst, rows)
        if fn == "mean":
            count = self.degrees(self.dst).clamp(min=1).to(rows.dtype)
            total = zeros.index_add(0, self.dst, rows)
            return total / count.reshape(-1, *[1] * (rows.dim() - 1))
        index = self.dst.reshape(-1, *[1] * (rows.dim() - 1)).expand(rows.shape)
        return zeros.scatter_reduce(0, index, rows, f"a{fn}", include_self=False)

    def softmax(self, scores: Tensor) -> Tensor:
        """The softmax of rows of edges among those that lead to the same node."""
        weight = (scores - self.at_dst(self.reduced(scores, "max"))).exp()
        return weight / self.at_dst(self.reduced(weight, "sum"))

    def reversed(self) -> Moves:
        """Those of the edges turned round."""
        return Moves(self.dst, self.src, self.num_sources, self.num_nodes)
