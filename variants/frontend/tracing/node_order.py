"""The order of nodes in which those of a type follow each other, as in graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.variants.program.nodes import Space, Type


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

    def with_nodes_sorted(
        self, values: Mapping[str, Tensor], types: Mapping[str, Type]
    ) -> dict[str, Tensor]:
        """Values by name, those that have rows of nodes in this order."""
        return {**values, **{n: self.sorted(values[n]) for n in _of_nodes(values, types)}}

    def with_nodes_unsorted(
        self, values: Mapping[str, Tensor], types: Mapping[str, Type]
    ) -> dict[str, Tensor]:
        """Values by name, those that have rows of nodes in this order as nodes are."""
        moved = {n: values[n].index_select(0, self.ranks) for n in _of_nodes(values, types)}
        return {**values, **moved}

    def renumbered(self, nodes: Tensor) -> Tensor:
        """Numbers of rows for numbers of nodes."""
        return self.ranks.index_select(0, nodes)


def _of_nodes(names: Iterable[str], types: Mapping[str, Type]) -> list[str]:
    return [name for name in names if name in types and types[name].space is Space.NODE]
