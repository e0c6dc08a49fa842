"""What a model is called with, and calls like that on random graphs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.tracing.arguments import are_edges
from hetune.variants.frontend.tracing.not_traceable import NotTraceable

EXAMPLE = "give a call's arguments as example=(x, edge_index)"


@dataclass(frozen=True, slots=True, eq=False)
class ModelCall:
    """A call on a graph, in float64.

    Attributes:
        values: All arguments by name.
        features: Names of rows of nodes.
        edges: Name of the edge_index.
        num_nodes: N.
    """

    values: Mapping[str, Any]
    features: tuple[str, ...]
    edges: str
    num_nodes: int

    @property
    def edge_index(self) -> Tensor:
        """Int64 [2, E]."""
        found: Tensor = self.values[self.edges]
        return found


@dataclass(frozen=True, slots=True)
class CallForm:
    """What calls of a model look like.

    Attributes:
        features: Row shapes of nodes, by the argument's name.
        edge_rows: Row shapes of edges, likewise.
        edges: Name of the edge_index.
        edge_type: Name of the edges' types; None where all are of one.
        num_relations: Number of edge types.
        others: Arguments that are the same in all calls.
    """

    features: Mapping[str, tuple[int, ...]]
    edge_rows: Mapping[str, tuple[int, ...]]
    edges: str
    edge_type: str | None
    num_relations: int
    others: Mapping[str, Any]

    def drawn(self, random: torch.Generator, num_nodes: int) -> ModelCall:
        """A call on a random graph with loops, double edges and nodes without edges."""
        count = 3 * num_nodes + 1
        ends = torch.randint(0, max(1, num_nodes - 2), (2, count), generator=random)
        ends[:, 1:4] = ends[0, 1:4]
        ends[:, 4:7] = ends[:, 7:10]

        def rows(number: int, shape: tuple[int, ...]) -> Tensor:
            found = torch.randn(number, *shape, generator=random, dtype=torch.float64)
            return found if shape else found.abs() + 0.1  # weights, of which degrees are summed up

        values: dict[str, Any] = {n: rows(num_nodes, shape) for n, shape in self.features.items()}
        values[self.edges] = ends
        values |= {name: rows(count, shape) for name, shape in self.edge_rows.items()}
        if self.edge_type is not None:
            values[self.edge_type] = torch.randint(
                0, self.num_relations, (count,), generator=random
            )
        return ModelCall(values | dict(self.others), tuple(self.features), self.edges, num_nodes)


def form_of(module: nn.Module, example: Sequence[Any] | None) -> CallForm:
    """What a model is called with.

    Args:
        module: The model.
        example: Arguments of a call; by default the names of its forward's say what they are.

    Raises:
        NotTraceable: There are arguments that no program takes, or some are not known.
    """
    signature = inspect.signature(type(module).forward)
    names = [p for p in list(signature.parameters.values())[1:] if p.kind not in _VARIABLE]
    if example is not None:
        given = dict(zip((p.name for p in names), example, strict=False))
        if len(given) != len(example):
            raise NotTraceable(f"the example has {len(example)} arguments, and it takes fewer")
        return _form(module, {n: value for n, value in given.items() if value is not None})
    values: dict[str, Any] = {}
    for parameter in names:
        match parameter.name:
            case "edge_index":
                values["edge_index"] = torch.zeros(2, 1, dtype=torch.int64)
            case "edge_type":
                values["edge_type"] = torch.zeros(1, dtype=torch.int64)
            case "x":
                values["x"] = torch.zeros(1, _width(module))
            case name if parameter.default is parameter.empty:
                raise NotTraceable(f"it is not known what its argument {name} is: {EXAMPLE}")
    return _form(module, values)


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _form(module: nn.Module, values: Mapping[str, Any]) -> CallForm:
    lists = [n for n, v in values.items() if are_edges(v)]
    if not lists:
        raise NotTraceable(f"there is no edge_index of integers among its arguments: {EXAMPLE}")
    edges = lists[0]
    count = values[edges].shape[1]
    features: dict[str, tuple[int, ...]] = {}
    edge_rows: dict[str, tuple[int, ...]] = {}
    others: dict[str, Any] = {}
    edge_type = None
    for name, value in values.items():
        if name == edges:
            continue
        if not isinstance(value, Tensor):
            others[name] = value
        elif _is_integer(value) and tuple(value.shape) == (count,):
            edge_type = name
        elif name.startswith("edge") and (value.dtype, *value.shape[:1]) == (torch.float32, count):
            edge_rows[name] = tuple(value.shape[1:])
        elif value.dtype is torch.float32 and value.dim() > 1:
            features[name] = tuple(value.shape[1:])
        else:
            raise NotTraceable(
                f"its argument {name} is {value.dtype} {list(value.shape)}: float32 rows of nodes "
                "and edges and types of edges are served"
            )
    relations = 1 if edge_type is None else _num_relations(module, values[edge_type])
    return CallForm(features, edge_rows, edges, edge_type, relations, others)


def _is_integer(value: object) -> bool:
    return isinstance(value, Tensor) and value.dtype in (torch.int64, torch.int32)


def _num_relations(module: nn.Module, types: Tensor) -> int:
    found = (getattr(part, "num_relations", None) for part in module.modules())
    counts = [count for count in found if isinstance(count, int)]
    return max([*counts, int(types.max()) + 1 if types.numel() else 1])


def _width(module: nn.Module) -> int:
    """Of rows that the first part with a width takes in."""
    for part in module.modules():
        for name in ("in_channels", "in_features"):
            found = getattr(part, name, None)
            width = found[0] if isinstance(found, tuple) else found
            if isinstance(width, int) and width > 0:
                return width
    raise NotTraceable(f"it is not known how wide its features are: {EXAMPLE}")
