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

from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.calls import joined, parameter_names

Run = Callable[..., Any]
_TYPES, _NAMES = "\x1e", "\x1f"
"""Between the names of types, and between those that name one edge type."""


class GraphCalls:
    """A layer's calls as operators.

    Args:
        adapter: Of the layer.
        run: A method of the layer's, which runs a call.
    """

    def __init__(self, adapter: Adapter, run: Run) -> None:
        self.number = next(_NUMBERS)
        self.names = parameter_names(adapter.module)[: 3 if adapter.metadata is None else 2]
        self.result_types = adapter.result_types
        self.width = adapter.result_width
        self._run = WeakMethod(run)
        _CALLS[self.number] = self

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A call as an operator, or None where it has to run outside of graphs. Torch traces this.

        Args:
            args: Of the call.
            kwargs: Likewise.
        """
        given = (*args, *kwargs.values())
        if torch.is_grad_enabled() or self.names != (*self.names[: len(args)], *kwargs):
            return None
        match given:
            case Tensor() as x, Tensor() as index, Tensor() as etype if _may_be_traced((x,)):
                return torch.ops.hetune.layer(self.number, [x], [index, etype], "")
            case dict() as x_dict, dict() as edges if _may_be_traced(x_dict.values()):
                types = _TYPES.join([*x_dict, *[_NAMES.join(key) for key in edges]])
                rows, lists = [*x_dict.values()], [*edges.values()]
                found = torch.ops.hetune.layer(self.number, rows, lists, types)
                names = [name for name in self.result_types if name in x_dict]
                sizes = [x_dict[name].shape[0] for name in names]
                return dict(zip(names, found.split(sizes), strict=True))
        return None

    def run(self, features: list[Tensor], edges: list[Tensor], types: str) -> Tensor:
        """The operator's result, [N, width]: of all node types that get messages.

        Args:
            features: Rows of all nodes, or of each node type.
            edges: An edge_index and an edge_type, or an edge_index of each edge type.
            types: Names of the types; "" where they are numbered.
        """
        run = self._run()
        assert run is not None
        if not types:
            found = run((*features, *edges), {})
        else:
            names = types.split(_TYPES)
            keys = [tuple(name.split(_NAMES)) for name in names[len(features) :]]
            x_dict = dict(zip(names, features, strict=False))
            by_type = run((x_dict, dict(zip(keys, edges, strict=True))), {})
            found = joined([by_type[name] for name in self.result_types if name in x_dict])
        rows: Tensor = found.contiguous()
        return rows


def _may_be_traced(features: Any) -> bool:
    return all(isinstance(x, Tensor) and x.dtype is torch.float32 for x in features)


_CALLS: WeakValueDictionary[int, GraphCalls] = WeakValueDictionary()
_NUMBERS = itertools.count()
_LIBRARY: Any = torch.library.Library("hetune", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("layer(int number, Tensor[] features, Tensor[] edges, str types) -> Tensor")


def _layer(number: int, features: list[Tensor], edges: list[Tensor], types: str) -> Tensor:
    return _CALLS[number].run(features, edges, types)


def _shape(number: int, features: list[Tensor], edges: list[Tensor], types: str) -> Tensor:
    calls, counts = _CALLS[number], [x.shape[0] for x in features]
    if types:
        named = zip(types.split(_TYPES), counts, strict=False)
        counts = [count for name, count in named if name in calls.result_types]
    return features[0].new_empty((sum(counts), calls.width))


def _in_turn(
    info: Any,
    dims: tuple[Any, ...],
    number: int,
    features: list[Tensor],
    edges: list[Tensor],
    types: str,
) -> tuple[Tensor, int]:
    """What `torch.vmap` makes of the operator: a call for each row of the batch."""

    def row(tensors: list[Tensor], dims: list[int | None], i: int) -> list[Tensor]:
        return [t if d is None else t.select(d, i) for t, d in zip(tensors, dims, strict=True)]

    rows = (
        torch.ops.hetune.layer(number, row(features, dims[1], i), row(edges, dims[2], i), types)
        for i in range(info.batch_size)
    )
    return torch.stack([*rows]), 0


_LIBRARY.impl("layer", _layer, "CompositeExplicitAutograd")
torch.library.register_fake("hetune::layer", _shape, lib=_LIBRARY)
torch.library.register_vmap("hetune::layer", _in_turn, lib=_LIBRARY)
