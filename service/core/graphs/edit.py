"""Edits of graphs as documents and tensors, checked against limits before memory is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from hetune.service.core.formats.documents import Count, Document
from hetune.service.core.formats.json_arrays import JsonArray
from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.formats.number_fields import Pair
from hetune.variants.errors import GraphError, MalformedError
from hetune.variants.graph.edit import Parallel, edited
from hetune.variants.graph.hetero import HeteroGraph


class EditHeader(Document):
    """An edit of a graph in safetensors: its edges are tensors."""

    add_nodes: dict[str, Count] = Field(default_factory=dict)
    parallel: Parallel = "all"


class EditDocument(EditHeader):
    """An edit of a graph. Edges are sources and destinations by edge type, from 0 in each type."""

    has_arrays: ClassVar[bool] = True
    add: dict[str, Pair] = Field(default_factory=dict)
    remove: dict[str, Pair] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GraphEdit:
    """What to change, as `hetune.variants.graph.edited` takes it.

    Attributes:
        header: Nodes that come, and what becomes of parallel edges.
        add: Edges that come, integers [2, n] by edge type.
        remove: Edges that go.
    """

    header: EditHeader
    add: Mapping[str, Tensor] = field(default_factory=dict)
    remove: Mapping[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, document: EditDocument) -> GraphEdit:
        """That of a document.

        Raises:
            MalformedError: An edge type has something else than sources and destinations.
            GraphError: It has more of the one than of the other.
        """
        return cls(
            document,
            {name: _ends(f"add.{name[:64]}", ends) for name, ends in document.add.items()},
            {name: _ends(f"remove.{name[:64]}", ends) for name, ends in document.remove.items()},
        )

    def apply(self, graph: HeteroGraph, limits: ServiceLimits) -> HeteroGraph:
        """The edited graph.

        Raises:
            TooLargeError: It would be over a limit.
            GraphError: The graph has no such type, node or edge.
        """
        come = sum(ends.shape[-1] for ends in self.add.values() if ends.dim())
        check_limit("nodes", graph.num_nodes + sum(self.header.add_nodes.values()), limits.nodes)
        check_limit("edges", graph.num_edges + come, limits.edges)
        return edited(
            graph,
            add=self.add,
            remove=self.remove,
            add_nodes=self.header.add_nodes,
            parallel=self.header.parallel,
        )


def _ends(name: str, ends: JsonArray) -> Tensor:
    if ends.rows != 2:
        raise MalformedError(f"{name} has {ends.rows} lists: give sources and destinations")
    found, sources = ends.integers(name), ends.width
    if found.size != 2 * sources:
        raise GraphError(
            f"{name} has {sources} sources and {found.size - sources} destinations: give pairs"
        )
    return torch.from_numpy(found.reshape(2, sources))
