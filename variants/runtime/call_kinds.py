"""Layers for kinds of calls that a layer's own program is not for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from hetune.variants.frontend.adapter import Unsupported

Layer = TypeVar("Layer")
_MOST = 4
"""Kinds that one layer is compiled for, beside that of its own program."""


class CallKinds(Generic[Layer]):
    """Compiled layers of one module, by the kind of call that each is for."""

    def __init__(self) -> None:
        self._layers: dict[Hashable, Layer] = {}

    def layer(self, found: object, make: Callable[[], Layer]) -> Layer | None:
        """The layer for a call that another one is wanted for, made once; few are kept.

        Args:
            found: What came of the call, an `Unsupported` that names its kind or anything else.
            make: Makes a layer.
        """
        if not isinstance(found, Unsupported) or found.kind is None:
            return None
        if found.kind not in self._layers and len(self._layers) < _MOST:
            self._layers[found.kind] = make()
        return self._layers.get(found.kind)
