"""What a layer was called with, as far as a compiled layer has to know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.reused_index import EdgePart

RepeatReader = Callable[[tuple[Any, ...]], "Call | None"]
"""Reads the arguments of a repeated call; None where the module has changed."""

Ids = tuple[Tensor, Tensor, Tensor]
"""Sources, destinations and types, integers [E]."""


class LooseEdges(NamedTuple):
    """Edges, and all that a program needs beside, without a graph.

    Attributes:
        parts: The edges, one part after the other.
        nodes: How many there are of each type.
        rows: Features and constants by name, [rows, *row shape].
        result: What the call returns, of the program's result [N, width].
    """

    parts: Sequence[EdgePart]
    nodes: Sequence[int]
    rows: Mapping[str, Tensor]
    result: Callable[[Tensor], Any]

    @property
    def num_edges(self) -> int:
        """E."""
        return sum(part.src.numel() for part in self.parts)


class Call(ABC):
    """One call of a layer: its graph, its rows for the program, and how its results are returned.

    What reads a layer's arguments (`Adapter.read`) makes one; `LayerCall` is that of layers which
    are called with rows of nodes and typed edges.
    """

    @property
    @abstractmethod
    def features(self) -> tuple[Tensor, ...]:
        """All tensors of floats that results depend on: their devices and gradients matter."""

    @property
    @abstractmethod
    def edges(self) -> object:
        """The edges as they were given: a `HeteroGraph` names types, others number them."""

    @property
    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """What `graph` is made of; none where a graph was given, which then keeps what is made."""

    @property
    @abstractmethod
    def others(self) -> tuple[object, ...]:
        """What else `graph` depends on, hashable, to tell it from those of other layers."""

    @abstractmethod
    def graph(self) -> HeteroGraph:
        """The graph that the program runs on, which may be another than the caller's.

        Asked once for the same `tensors` (by identity and write counter) and `others`. What it
        computes beside, such as constants, is kept with the graph in a slot of its ``state``.

        Raises:
            GraphError: The edges are no graph.
            InputError: The graph does not fit the layer.
        """

    @abstractmethod
    def inputs(self, graph: HeteroGraph) -> dict[str, Tensor]:
        """A tensor for each feature and constant of the program, by its name.

        Float rows on the graph's device: [N, *row shape] of nodes in the graph's order, or
        [E, *row shape] of edges in the order of ``graph.src``. A constant that is the same tensor
        as before, not written to, costs nothing again.

        Args:
            graph: What `graph` gave for this call or an equal one.

        Raises:
            InputError: Something does not fit the graph or the layer.
        """

    @abstractmethod
    def result(self, graph: HeteroGraph, results: tuple[Tensor, ...]) -> Any:
        """What the call returns.

        Args:
            graph: As of `inputs`.
            results: The program's, float32 [rows, *row shape]; edges in the order of ``graph.src``.
        """

    def repeat_reader(self, args: tuple[Any, ...]) -> RepeatReader | None:
        """What reads calls that differ in their rows' numbers alone, or None.

        Where each call has edges of its own, those of the others are other ones, too.

        It holds nothing that the call gave.

        Args:
            args: Of this call, which gave no others.
        """
        return None

    def loose_edges(self) -> LooseEdges | None:
        """What to run on without making a graph; None where that takes one. Nothing is checked."""
        return None

    def edge_batch(self) -> tuple[Ids, Mapping[str, Tensor]] | None:
        """Edges, and features by name, where each call has edges of its own. Nothing is checked."""
        return None

    def gradient_refusal(self) -> str | None:
        """Why gradients of the program are not the call's, or None. Asked where some are needed."""
        return None

    @property
    def given_dtype(self) -> torch.dtype:
        """Of the floats that the call was given."""
        return torch.float32

    def of_module(self) -> Any:
        """What the module itself gives for a small call of the kind, for its dtypes alone."""
        return torch.empty(0, dtype=torch.float32, device="cpu")

    @property
    def takes_out(self) -> bool:
        """Whether the program has one result, whose rows are what the call returns."""
        return True
