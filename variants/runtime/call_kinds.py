"""Layers for kinds of calls that a layer's own program is not for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Layer = TypeVar("Layer")
_MOST = 4
"""Kinds that one layer is compiled for, beside that of its own program."""


class CallKinds(Generic[Layer]):
    """Compiled layers of one module, by the kind of call that each is for."""

    def __init__(self) -> None:
        self._layers: dict[Hashable, Layer] = {}

    def layer(self, kind: Hashable, make: Callable[[], Layer]) -> Layer | None:
        """The layer for a call that another one is wanted for, made once; few are kept.

        Args:
            kind: Of the call, as `Unsupported` names it; None where no layer is for it.
            make: Makes a layer.
        """
        if kind is not None and kind not in self._layers and len(self._layers) < _MOST:
            self._layers[kind] = make()
        return self._layers.get(kind)
