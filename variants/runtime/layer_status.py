"""Which layers of a model are compiled, and what they ran."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace

from hetune.variants.graph.hetero import HeteroGraph


@dataclass(frozen=True, slots=True)
class LayerStatus:
    """One layer.

    Attributes:
        name: In the model, as `named_modules` has it.
        kind: Its class.
        variants: Ids of its variants; empty where there are none.
        refusal: Why it cannot run compiled as it is now, or None.
        variant: What its last call ran; None where that was the original layer, or none came.
        reason: Why its last call ran in the original layer, or None.
        has_gradients: Whether its last call ran compiled for a backward that does so, too.
        otherwise: What runs where it does not.
    """

    name: str
    kind: str
    variants: tuple[str, ...]
    refusal: str | None
    variant: str | None = None
    reason: str | None = None
    has_gradients: bool = False
    otherwise: str = "original"

    def by_layers(self) -> LayerStatus:
        """That of a model whose layers run where it does not."""
        return replace(self, otherwise="layers")

    @property
    def is_compiled(self) -> bool:
        """Whether calls may run variants."""
        return self.refusal is None

    def __str__(self) -> str:
        if not self.is_compiled:
            return f"{self.otherwise}: {self.reason or self.refusal}"
        if self.reason is not None:
            return f"compiled; the last call ran the {self.otherwise}: {self.reason}"
        if self.variant is None:
            return "compiled"
        gradients = ", with gradients" if self.has_gradients else ""
        return f"compiled; the last call ran {self.variant}{gradients}"


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The layers of a model. Printed, it is a table.

    Attributes:
        layers: Each once, in the model's order; where it is compiled whole, the model first.
    """

    layers: tuple[LayerStatus, ...]

    def __str__(self) -> str:
        names = max((len(layer.name) for layer in self.layers), default=0)
        kinds = max((len(layer.kind) for layer in self.layers), default=0)
        return "\n".join(
            f"{layer.name:{names}}  {layer.kind:{kinds}}  {layer}" for layer in self.layers
        )


@dataclass(slots=True)
class LastCall:
    """What a layer's last call ran: a variant, or the original for a reason.

    Attributes:
        variant: The variant.
        reason: Why not.
        has_gradients: Whether it has a compiled backward.
    """

    variant: str | None = None
    reason: str | None = None
    has_gradients: bool = False
    _graph: weakref.ref[HeteroGraph] | None = None

    def repeats(self, graph: HeteroGraph) -> bool:
        """Whether the call before had the same graph: more may. This one's is remembered."""
        if self._graph is not None and self._graph() is graph:
            return True
        self._graph = weakref.ref(graph)
        return False

    def set(self, variant: str | None, reason: str | None) -> None:
        """Records a call."""
        self.variant, self.reason, self.has_gradients = variant, reason, False
