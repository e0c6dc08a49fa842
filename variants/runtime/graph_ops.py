"""Compiled layers within graphs of `torch.compile`: an operator that runs one.

Calls are operators where torch can know the result's shape beforehand: with tensors, or
dictionaries of tensors, and without gradients. Others stay outside of graphs, see `graph_break`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakMethod, WeakValueDictionary

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.calls import parameter_names
from hetune.variants.frontend.loose_edges import joined

Run = Callable[..., Any]
_TYPES, _NAMES = "\x1e", "\x1f"
"""Between the names of types, and between those that name one edge type, or arguments."""
_NONE = "None"


class GraphCalls:
    """A layer's calls as operators.

    Args:
        adapter: Of the layer.
        run: A method of the layer's, which runs a call.
    """

    def __init__(self, adapter: Adapter, run: Run) -> None:
        self.number = next(_NUMBERS)
        self.names = parameter_names(adapter.module)
        self.is_traced = adapter.result_shape is not None
        if not self.is_traced:
            self.names = self.names[: 3 if adapter.metadata is None else 2]
        self.result_types = adapter.result_types
        shape, width = adapter.result_shape, adapter.result_width
        self.shape = (width,) if shape is None else shape
        self._run = WeakMethod(run)
        _CALLS[self.number] = self

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A call as an operator, or None where it has to run outside of graphs. Torch traces this.

        Args:
            args: Of the call.
            kwargs: Likewise.
        """
        given, names = (*args, *kwargs.values()), (*self.names[: len(args)], *kwargs)
        if torch.is_grad_enabled() or len(given) != len(names):
            return None
        if self.is_traced:
            return self._traced_call(names, given)
        if names != self.names:
            return None
        match given:
            case Tensor() as x, Tensor() as index, Tensor() as etype if _may_be_traced((x,)):
                shape = [x.shape[0], *self.shape]
                return torch.ops.hetune.layer(self.number, [x], [index, etype], "", shape)
            case dict() as x_dict, dict() as edges if _may_be_traced(x_dict.values()):
                types = _TYPES.join([*x_dict, *[_NAMES.join(key) for key in edges]])
                rows, lists = [*x_dict.values()], [*edges.values()]
                keys = [name for name in self.result_types if name in x_dict]
                sizes = [x_dict[name].shape[0] for name in keys]
                shape = [sum(sizes), *self.shape]
                found = torch.ops.hetune.layer(self.number, rows, lists, types, shape)
                return dict(zip(keys, found.split(sizes), strict=True))
        return None

    def _traced_call(self, names: tuple[str, ...], given: tuple[Any, ...]) -> Any:
        tensors = [value for value in given if value is not None]
        if not all(isinstance(value, Tensor) for value in tensors) or given[0] is None:
            return None
        if not _may_be_traced(tensors[:1]):
            return None
        pairs = zip(names, given, strict=True)
        types = _NAMES.join([f"{name}={_NONE if v is None else ''}" for name, v in pairs])
        shape = [tensors[0].shape[0], *self.shape]
        return torch.ops.hetune.layer(self.number, tensors[:1], tensors[1:], types, shape)

    def run(
        self, features: list[Tensor], edges: list[Tensor], types: str, shape: list[int]
    ) -> Tensor:
        """The operator's result, [N, *row shape]: of all node types that get messages.

        Args:
            features: Rows of all nodes, or of each node type.
            edges: What else is given: an edge_index and an edge_type, or an edge_index of each
                edge type, or what a traced layer takes.
            types: Names of the types; "" where they are numbered. Or names of arguments.
            shape: That torch was told, [N, *row shape]. An argument, since torch keeps compiled
                graphs on disk, by their text, where the next process gives numbers to other layers.

        Raises:
            InputError: The result has not the shape that torch was told.
        """
        run = self._run()
        assert run is not None
        if self.is_traced:
            tensors = iter((*features, *edges))
            pairs = [name.split("=") for name in types.split(_NAMES)]
            found = run((), {name: None if none else next(tensors) for name, none in pairs})
        elif not types:
            found = run((*features, *edges), {})
        else:
            names = types.split(_TYPES)
            keys = [tuple(name.split(_NAMES)) for name in names[len(features) :]]
            x_dict = dict(zip(names, features, strict=False))
            by_type = run((x_dict, dict(zip(keys, edges, strict=True))), {})
            found = joined([by_type[name] for name in self.result_types if name in x_dict])
        rows: Tensor = found.contiguous()
        if list(rows.shape) != shape or rows.dtype != torch.float32:
            raise InputError(
                f"the result has the shape {list(rows.shape)}, {rows.dtype}, and torch.compile "
                f"was told float32 of {shape}: compile it a second time"
            )
        return rows


def graph_calls(adapter: Adapter, run: Run) -> GraphCalls | None:
    """A layer's calls as operators; None where nobody knows the shapes of its results."""
    is_known = adapter.read is None or adapter.result_shape is not None
    return GraphCalls(adapter, run) if is_known else None


def _may_be_traced(features: Any) -> bool:
    return all(isinstance(x, Tensor) and x.dtype is torch.float32 for x in features)


_CALLS: WeakValueDictionary[int, GraphCalls] = WeakValueDictionary()
_NUMBERS = itertools.count()
_LIBRARY: Any = torch.library.Library("hetune", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define(
    "layer(int number, Tensor[] features, Tensor[] edges, str types, SymInt[] shape) -> Tensor"
)


def _layer(
    number: int, features: list[Tensor], edges: list[Tensor], types: str, shape: list[int]
) -> Tensor:
    return _CALLS[number].run(features, edges, types, shape)


def _shape(
    number: int, features: list[Tensor], edges: list[Tensor], types: str, shape: list[int]
) -> Tensor:
    return features[0].new_empty(shape)


def _in_turn(
    info: Any,
    dims: tuple[Any, ...],
    number: int,
    features: list[Tensor],
    edges: list[Tensor],
    *told: object,
) -> tuple[Tensor, int]:
    """What `torch.vmap` makes of the operator: a call for each row of the batch."""

    def row(tensors: list[Tensor], dims: list[int | None], i: int) -> list[Tensor]:
        return [t if d is None else t.select(d, i) for t, d in zip(tensors, dims, strict=True)]

    rows = (
        torch.ops.hetune.layer(number, row(features, dims[1], i), row(edges, dims[2], i), *told)
        for i in range(info.batch_size)
    )
    return torch.stack([*rows]), 0


_LIBRARY.impl("layer", _layer, "CompositeExplicitAutograd")
torch.library.register_fake("hetune::layer", _shape, lib=_LIBRARY)
torch.library.register_vmap("hetune::layer", _in_turn, lib=_LIBRARY)
