"""What the layers of one model have in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from torch import nn

from hetune.variants.frontend.adapter import Adapter
from hetune.variants.runtime import fallback
from hetune.variants.runtime.edges import GraphCache


class LayerSharing:
    """Graphs of the same edge tensors, indexed once, and what was warned of.

    Attributes:
        warned: Reasons for running uncompiled that were told.
    """

    def __init__(self, warned: Iterable[str] = ()) -> None:
        self.warned = set(warned)
        self._graphs: dict[Hashable, GraphCache] = {}

    def warn(self, module: nn.Module, reason: str) -> None:
        """Warns that a module runs uncompiled; once for each reason."""
        if reason not in self.warned:
            self.warned.add(reason)
            name: str = module._get_name()  # type: ignore[no-untyped-call]
            fallback.warn(f"{name} runs uncompiled: {reason}")

    def graphs(self, adapter: Adapter) -> GraphCache:
        """The graphs of a layer: those of all that make equal graphs of equal tensors."""
        types = None if adapter.metadata is None else tuple(map(tuple, adapter.metadata))
        key = adapter.num_relations, adapter.is_reversed, types
        return GraphCache(self._graphs.setdefault(key, GraphCache()))
