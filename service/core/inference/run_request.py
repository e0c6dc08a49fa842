"""A request to run a model, as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from hetune.service.core.graphs.rows import Nodes
from hetune.service.core.inference.subset import Subset
from hetune.variants.graph.hetero import HeteroGraph


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What `Inference.run` takes beside the model, and what it says of it."""

    graph: HeteroGraph | str
    features: Tensor | Mapping[str, Tensor]
    version: int | None = None
    nodes: Nodes | None = None
    subset: Subset = "auto"
    outputs: Sequence[int] | None = None
    variants: Sequence[str | None] | None = None
    memory_limit: int | None = None
    explain: bool = False
    deadline: float | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it asks for all rows of a graph that is kept, however they are computed."""
        demands = (self.nodes, self.variants, self.memory_limit, self.deadline)
        return (
            isinstance(self.graph, str)
            and all(demand is None for demand in demands)
            and self.subset != "reach"
            and not self.explain
        )
