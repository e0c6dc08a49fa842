"""The order of nodes in which those of a type follow each other, as in graphs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class NodeOrder:
    """An order of nodes.

    Attributes:
        nodes: Which node each row is of, int64 [N].
        ranks: Which row each node has, int64 [N].
    """

    nodes: Tensor
    ranks: Tensor

    @classmethod
    def by_type(cls, types: Tensor) -> NodeOrder:
        """That in which types, integers [N], do not decrease."""
        nodes = torch.argsort(types, stable=True)
        return cls(nodes, torch.argsort(nodes))

    @property
    def is_same(self) -> bool:
        """Whether it is the one that nodes are in."""
        return torch.equal(self.nodes, torch.arange(len(self.nodes), device=self.nodes.device))

    def sorted(self, rows: Tensor) -> Tensor:
        """Rows of nodes, in this order."""
        return rows.index_select(0, self.nodes)

    def unsorted(self, rows: Tensor) -> Tensor:
        """Rows in this order, as those of nodes."""
        return rows.index_select(0, self.ranks)

    def renumbered(self, nodes: Tensor) -> Tensor:
        """Numbers of rows for numbers of nodes."""
        return self.ranks.index_select(0, nodes)
