"""A model as one program, from its inputs to its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from hetune.variants.frontend.adapter import Adapter, Arguments, Unsupported
from hetune.variants.frontend.message_passing import adapt_call
from hetune.variants.runtime.call_options import CallOptions
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.layer_status import LayerStatus


class WholeModel(CompiledLayer):
    """A model that is compiled as one layer is; calls that are no program run layer by layer."""

    _layers: Callable[..., Any] | None = None

    def run_layers_by(self, layers: Callable[..., Any]) -> None:
        """Says who runs calls that are no program.

        Args:
            layers: The model, layer by layer.
        """
        self.__dict__["_layers"] = layers

    def _traced(self, call: Arguments | None) -> Adapter | Unsupported:
        if call is None:
            return Unsupported("it is traced by its first call", needs_call=True)
        return adapt_call(self.module, *call)

    def _fall_back(
        self,
        run: Callable[..., Any],
        why: Unsupported,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: CallOptions,
    ) -> Any:
        self._last.set(None, why.reason)
        assert self._layers is not None
        return self._layers(*args, **kwargs)

    def status(self, name: str = "") -> LayerStatus:
        """As of a layer."""
        return super().status(name).by_layers()

    def _around(self, module: nn.Module, call: Arguments | None = None) -> WholeModel:
        twin = super()._around(module, call)
        assert isinstance(twin, WholeModel)
        if self._layers is not None:
            twin.run_layers_by(self._layers)
        return twin
