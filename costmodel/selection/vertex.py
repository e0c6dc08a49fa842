"""`hetune.vertex`: a function of one vertex that runs on graphs, compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import update_wrapper
from types import FunctionType
from typing import Any

from torch import Tensor

from hetune.costmodel.selection.compile import compile
from hetune.costmodel.selection.weighted_layers import WeightedLayers
from hetune.variants.errors import InputError
from hetune.variants.frontend.tracing.captured import captured
from hetune.variants.frontend.vertex.layer import VertexLayer


class VertexFunction:
    """A function of one vertex, called with a graph. Made by `vertex`."""

    def __init__(self, function: FunctionType) -> None:
        update_wrapper(self, function)
        self._function, self._signature = function, inspect.signature(function)
        self._layers = WeightedLayers(compile)

    def __call__(
        self,
        graph: Any,
        v_feature: Mapping[str, Tensor] | None = None,
        e_feature: Mapping[str, Tensor] | None = None,
        **weights: Any,
    ) -> Tensor:
        """Runs the function for each vertex of a graph.

        Args:
            graph: A `HeteroGraph`, a homogeneous DGL graph or an int64 edge_index [2, E].
            v_feature: Float32 [N, *row shape] by name.
            e_feature: Float32 [E, *row shape] by name, in the order of the edges; "type" are the
                types of edges [E], where the graph does not tell.
            **weights: The function's other arguments: weights, and options that are no tensors.

        Returns:
            Float [N, *row shape].

        Raises:
            InputError: A feature or an argument is missing, or none of the function's.
        """
        try:
            self._signature.bind(None, **weights)
        except TypeError as error:
            raise InputError(f"{self._function.__name__}: {error}") from None
        tensors = {name: value for name, value in weights.items() if isinstance(value, Tensor)}
        options = {name: value for name, value in weights.items() if name not in tensors}
        shapes = tuple((name, w.shape, w.dtype, w.device) for name, w in tensors.items())
        out: Tensor = self._layers.run(
            (captured(self._function), tuple(options.items()), shapes),
            tensors,
            lambda: VertexLayer(self._function, tensors, options),
            lambda layer: layer(graph, v_feature, e_feature),
        )
        return out


def vertex(function: Callable[..., Any]) -> VertexFunction:
    """Decorator: a function of one vertex runs on graphs, compiled.

    Its first parameter is the vertex, whose features are attributes, as are those of its
    neighbours ``v.innbs`` and of its incoming edges ``v.inedges`` (with ``src``, ``dst`` and
    ``type``), also type by type: ``for r in v.relations``, ``r.innbs``. The others are weights.
    Values are tensors with one row. The body runs once for all vertices: comprehensions over
    neighbours, and ``sum``, ``max``, ``min`` and ``len`` of them, are what it is made of.

    Raises:
        InputError: It is no function written in Python.
    """
    if not isinstance(function, FunctionType):
        raise InputError(f"{function!r} is no function written in Python: give one")
    return VertexFunction(function)
