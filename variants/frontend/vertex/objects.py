"""What a function of a vertex sees: the vertex, its incoming edges, and their sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.frontend.vertex.rows import Neighbors, VertexValue


class FeatureRows:
    """Features by name, as values.

    Args:
        features: Their rows.
        value: The value of such rows.
    """

    def __init__(
        self, features: Mapping[str, Tensor], value: Callable[[Tensor], VertexValue]
    ) -> None:
        self._features, self._value = features, value

    def value(self, of: str, name: str) -> VertexValue:
        """The value of a feature.

        Raises:
            InputError: There is none of that name.
        """
        if name not in self._features:
            known = ", ".join(self._features) or "nothing"
            raise InputError(f"a {of} has no feature {name!r} but {known}: give it in the call")
        return self._value(self._features[name])


class Vertex:
    """A vertex: its features are attributes.

    Attributes:
        inedges: Its incoming edges.
        relations: The types of these, each with its edges.
    """

    inedges: Neighbors
    relations: list[Relation]

    def __init__(self, rows: FeatureRows) -> None:
        self._rows = rows

    @property
    def innbs(self) -> Neighbors:
        """The sources of its incoming edges."""
        return _sources(self.inedges)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("inedges", "relations", "_rows"):
            raise AttributeError(name)
        return self._rows.value("vertex", name)


class Edge:
    """An edge: its features are attributes; ``type`` is its type.

    Attributes:
        src: The vertex that it comes from.
        dst: The vertex that it leads to.
    """

    def __init__(self, rows: FeatureRows, src: Vertex, dst: Vertex) -> None:
        self._rows, self.src, self.dst = rows, src, dst

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_rows":
            raise AttributeError(name)
        return self._rows.value("edge", name)


class Relation:
    """A type of edges that lead to a vertex.

    Attributes:
        inedges: Those of this type.
    """

    def __init__(self, inedges: Neighbors) -> None:
        self.inedges = inedges

    @property
    def innbs(self) -> Neighbors:
        """The sources of its edges."""
        return _sources(self.inedges)


def _sources(edges: Neighbors) -> Neighbors:
    return Neighbors([edge.src for edge in edges], edges.count_value)
