"""Calls of a program: rows by its names, and edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Adapter, Unsupported
from hetune.variants.frontend.call import Call
from hetune.variants.frontend.calls import (
    check_device,
    feature_refusal,
    flat_graph,
    flattened,
    graph_for,
    read_edge_index,
    read_edges,
)
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.nodes import Space
from hetune.variants.program.text import show_param

_EDGES = ("edges", "edge_index", "edge_type")
CALL_OPTIONS = (*_EDGES, "variant", "memory_limit", "out", "progress", "gradients")
"""Names in calls that are no rows of the program."""


class ProgramCall(Call):
    """A call with rows for a program's features and constants.

    Args:
        adapter: Of the layer.
        rows: By the program's names.
        edges: A graph, or an edge_index with the types of its edges, None where all are of one.
    """

    __slots__ = ("_adapter", "_edges", "_rows")

    def __init__(
        self,
        adapter: Adapter,
        rows: Mapping[str, Tensor],
        edges: HeteroGraph | tuple[Tensor, Tensor | None],
    ) -> None:
        self._adapter, self._rows, self._edges = adapter, rows, edges

    @property
    def features(self) -> tuple[Tensor, ...]:
        """The rows."""
        return tuple(self._rows.values())

    @property
    def edges(self) -> object:
        """As they were given."""
        return self._edges

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The edge tensors, none where a graph was given."""
        if isinstance(self._edges, HeteroGraph):
            return ()
        return tuple(tensor for tensor in self._edges if tensor is not None)

    @property
    def others(self) -> tuple[object, ...]:
        """The number of nodes."""
        return (self._num_nodes,)

    @property
    def _num_nodes(self) -> int:
        for param in self._adapter.inputs:
            if param.type.space is Space.NODE and param.name in self._rows:
                return self._rows[param.name].shape[0]
        raise InputError("no rows of nodes say how many there are: give a HeteroGraph")

    def graph(self) -> HeteroGraph:
        """The graph that was given, or that of the edge tensors."""
        if isinstance(self._edges, HeteroGraph):
            return graph_for(self._adapter, self._edges)
        return flat_graph(self._adapter, *self._edges, self._num_nodes)

    def inputs(self, graph: HeteroGraph) -> dict[str, Tensor]:
        """The rows of all features and constants, [rows, *row shape].

        Raises:
            InputError: Some are missing, or their number, shape or device does not fit.
        """
        found: dict[str, Tensor] = {}
        counts = {
            Space.NODE: graph.num_targets,
            Space.SOURCE: graph.num_sources,
            Space.EDGE: graph.num_edges,
        }
        for param in self._adapter.inputs:
            rows = self._rows.get(param.name)
            if rows is None:
                raise InputError(f"{show_param(param)} is missing: give a tensor for it")
            count = counts[param.type.space]
            expected = count, *param.type.shape
            if rows.shape != expected and rows.shape != (count, param.type.width):
                raise InputError(
                    f"{param.name} has the shape {list(rows.shape)}: give {list(expected)}, a row "
                    f"for each of the graph's {param.type.space}s"
                )
            check_device(param.name, rows, graph)
            found[param.name] = rows
        return found

    def gradient_refusal(self) -> str | None:
        """Constants are no features."""
        fixed = [param.name for param in self._adapter.inputs if param.role == "constant"]
        name = next((name for name in fixed if self._rows[name].requires_grad), None)
        return None if name is None else f"{name} is a constant: give it as a feature"

    def result(
        self, graph: HeteroGraph, results: tuple[Tensor, ...]
    ) -> Tensor | tuple[Tensor, ...]:
        """One result [rows, width], or a tuple of several."""
        flat = tuple(map(flattened, results))
        return flat[0] if len(flat) == 1 else flat


def read_program_call(
    adapter: Adapter, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> ProgramCall | Unsupported:
    """Reads what `ProgramLayer.forward` takes.

    Raises:
        InputError: There are no edges, or what is given is none of the program's.
    """
    names = [param.name for param in adapter.inputs]
    rows = {name: value for name, value in kwargs.items() if name not in _EDGES}
    edges = [kwargs[name] for name in _EDGES if name in kwargs]
    unnamed = iter([name for name in names if name not in rows])
    for value in args:
        if _are_rows(value):
            rows[next(unnamed, "")] = value
        else:
            edges.append(value)
    if unknown := [name for name in rows if name not in names]:
        named = ", ".join(map(show_param, adapter.inputs)) or "nothing"
        what = f"{unknown[0]} is" if unknown[0] else "there are more rows than are"
        raise InputError(f"{what} no input of the program, which takes {named}")
    for name, value in rows.items():
        if (reason := feature_refusal(name, value, adapter.dtype, dims=None)) is not None:
            return Unsupported(reason)
    match edges:
        case [HeteroGraph() as graph]:
            return ProgramCall(adapter, rows, graph)
        case [edge_index] if adapter.num_relations == 1:
            index = read_edge_index(edge_index)
            if isinstance(index, Unsupported):
                return index
            return ProgramCall(adapter, rows, (index, None))
        case [edge_index, edge_type]:
            read = read_edges(edge_index, edge_type)
            return read if isinstance(read, Unsupported) else ProgramCall(adapter, rows, read)
    raise InputError(
        f"{len(edges)} arguments are edges: give a HeteroGraph, or an edge_index and an edge_type"
    )


def _are_rows(value: object) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.dtype is torch.bool)
