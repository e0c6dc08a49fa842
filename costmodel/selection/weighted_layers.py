"""Compiled layers of a function, by the weights that it is called with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol, TypeVar

from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.fork_locks import new_lock

_MOST = 8
"""Sets of weights of a function that are kept; the one used longest ago makes room for another."""
_MOST_KINDS = 64
"""Likewise sets of options and of shapes of weights, each with its own weights."""
Tensors = Mapping[str, Tensor]
_Found = TypeVar("_Found")


class LayerOfWeights(Protocol):
    """A layer whose weights are the caller's tensors."""

    def set_weights(self, weights: Tensors) -> None:
        """Takes other weights."""


class WeightedLayers:
    """Makes a layer for each kind of call, and for each of the last sets of weights.

    Args:
        compiled: Compiles a layer.
    """

    def __init__(self, compiled: Callable[[Any], Any]) -> None:
        self._compiled = compiled
        self._layers: dict[Hashable, OrderedDict[tuple[int, ...], _WeightedLayer]] = {}
        self._lock = new_lock()
        self._last: tuple[Hashable, _WeightedLayer] | None = None

    def run(
        self,
        kind: Hashable,
        weights: Tensors,
        make: Callable[[], LayerOfWeights],
        call: Callable[[Any], _Found],
    ) -> _Found:
        """What a call of the compiled layer gives.

        Args:
            kind: Equal for calls that one layer may be for, with other weights.
            weights: By name.
            make: Makes the layer, with these weights.
            call: Calls the compiled layer.

        Raises:
            InputError: The kind is not hashable: an option is no constant.
        """
        key = tuple(map(id, weights.values()))
        while True:
            last = self._last
            if last is not None and last[0] == kind and last[1].key == key:
                found = last[1]
            else:
                found = self._layer(kind, weights, key, make)
                self._last = kind, found
            with found.lock:
                if found.key == key:  # nobody took it for other weights meanwhile
                    return call(found.compiled)

    def _layer(
        self,
        kind: Hashable,
        weights: Tensors,
        key: tuple[int, ...],
        make: Callable[[], LayerOfWeights],
    ) -> _WeightedLayer:
        with self._lock:
            try:
                layers = self._layers[kind] = self._layers.pop(kind, OrderedDict())
            except TypeError as error:
                raise InputError(f"an option is no constant: {error}") from None
            if len(self._layers) > _MOST_KINDS:
                del self._layers[next(iter(self._layers))]
            found = layers.pop(key, None)
            if found is None and len(layers) < _MOST:
                layer = make()
                found = _WeightedLayer(layer, self._compiled(layer), key)
            elif found is None:
                _, found = layers.popitem(last=False)
                found.take(weights, key)
            layers[key] = found
        return found


class _WeightedLayer:
    """A layer with weights, and who uses it now."""

    def __init__(self, layer: LayerOfWeights, compiled: Any, key: tuple[int, ...]) -> None:
        self._layer, self.compiled = layer, compiled
        self.key, self.lock = key, new_lock()

    def take(self, weights: Tensors, key: tuple[int, ...]) -> None:
        """Goes on with other weights."""
        with self.lock:
            self._layer.set_weights(weights)
            self.key = key
