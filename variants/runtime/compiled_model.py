"""`hetune.compile` of a model: each of its layers runs the variant that suits its input."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Self, TypeVar

import torch
from torch import nn

from hetune.variants.errors import VariantError
from hetune.variants.frontend.wrapper import ModuleWrapper, unwrapped
from hetune.variants.runtime.choice import Choice
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.layer_sharing import LayerSharing
from hetune.variants.runtime.layer_status import ModelReport
from hetune.variants.runtime.model_copy import ModelCopy
from hetune.variants.runtime.model_layers import is_layer, nothing_to_compile
from hetune.variants.runtime.warm import Progress
from hetune.variants.runtime.whole_model import WholeModel

_Found = TypeVar("_Found")
CompileLayer = Callable[[nn.Module, LayerSharing], CompiledLayer]
CompileWhole = Callable[[nn.Module], WholeModel]


class CompiledModel(ModuleWrapper):
    """A model whose layers choose among their compiled variants for every graph.

    It is called as the model is, and has its methods, attributes, parameters and state dict. Its
    parts are the model's, but for the layers, which are `CompiledLayer`s; the model keeps its own.
    Layers that are called with the same edge tensors share their indexes.

    Attributes:
        module: The original model. What is assigned to it is seen by this one.
    """

    _whole: WholeModel | None

    def __init__(
        self,
        module: nn.Module,
        compile_layer: CompileLayer,
        sharing: LayerSharing | None = None,
        compile_whole: CompileWhole | None = None,
    ) -> None:
        """Compiles the layers.

        Args:
            module: The model.
            compile_layer: Compiles one, which shares something with the others.
            sharing: What that is.
            compile_whole: Compiles the model as one program, if that is wanted.

        Raises:
            InputError: There are no layers that could be compiled.
        """
        super().__init__()
        self._compile_layer, self._sharing = compile_layer, sharing or LayerSharing()
        self._compiled: dict[nn.Module, CompiledLayer] = {}
        self._copy = ModelCopy(module, self._in_place_of)
        if not self.compiled_layers:
            raise nothing_to_compile(module)
        self._compile_whole = compile_whole
        whole = self.__dict__["_whole"] = compile_whole(module) if compile_whole else None
        if whole is not None:
            whole.run_layers_by(self._run_layers)
        self.training = module.training
        self.module = module
        self._follow()

    def _follow(self) -> None:
        """Takes over what was assigned to the model."""
        self._copy.follow()
        self.__dict__["_modules"] = self._copy.module._modules

    def _in_place_of(self, part: nn.Module) -> nn.Module | None:
        if isinstance(part, ModuleWrapper):
            return part
        if part not in self._compiled and is_layer(part):
            self._compiled[part] = self._compile_layer(part, self._sharing)
        return self._compiled.get(part)

    @property
    def compiled_layers(self) -> dict[str, CompiledLayer]:
        """The layers, by name; each once."""
        parts = self._copy.module.named_modules()
        return {name: part for name, part in parts if isinstance(part, CompiledLayer)}

    def __getattr__(self, name: str) -> Any:
        if "module" not in self.__dict__:
            return super().__getattr__(name)
        self._follow()
        return getattr(self._copy.module, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model, called as the original is; layers take a `HeteroGraph`, too.

        Raises:
            HetuneError: As of a layer.
        """
        if torch.compiler.is_compiling():
            return self._copy.module(*args, **kwargs)
        if self._whole is not None:
            return self._whole(*args, **kwargs)
        return self._run_layers(*args, **kwargs)

    def _run_layers(self, *args: Any, **kwargs: Any) -> Any:
        self._follow()
        return self._copy.module(*args, **kwargs)

    def report(self) -> ModelReport:
        """Which layers are compiled, or why not, and what their last calls ran.

        Of a model that is compiled whole the model comes first; alone, if it ran as one program.
        """
        self._follow()
        whole = () if self._whole is None else (self._whole.status(),)
        if any(model.variant for model in whole):
            return ModelReport(whole)
        layers = self.compiled_layers.items()
        return ModelReport((*whole, *(layer.status(name) for name, layer in layers)))

    def explain(self, *args: Any, **kwargs: Any) -> dict[str, Choice]:
        """What the layers would run in a call with these arguments, by name, and why.

        The model runs once. Of a layer that is called several times, the last call counts; one
        that would run uncompiled is left out.
        """
        return self._visited(CompiledLayer.explain, args, kwargs)

    def warm(
        self, *args: Any, progress: Progress | None = None, **kwargs: Any
    ) -> dict[str, tuple[str, ...]]:
        """Compiles and indexes all that calls on a graph may need, so that none waits for it.

        The model runs once.

        Args:
            *args: Of a call.
            progress: As of `CompiledLayer.warm`.
            **kwargs: Of a call.

        Returns:
            Ids of the variants that calls may run, by the layer's name.

        Raises:
            MemoryLimitError: No variant fits the limit.
            CompileError: A kernel does not compile.
        """
        return self._visited(partial(CompiledLayer.warm, progress=progress), args, kwargs)

    def _visited(
        self, visit: Callable[..., _Found], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, _Found]:
        """What is found of each layer before it is called, by name; of a whole model as ""."""
        if self._whole is not None:
            with suppress(VariantError):  # the call runs layer by layer
                return {"": visit(self._whole, *args, **kwargs)}
        thread, found = threading.get_ident(), dict[str, _Found]()

        def look(name: str, layer: nn.Module, args: Any, kwargs: Any) -> None:
            if threading.get_ident() == thread:
                with suppress(VariantError):  # the call runs uncompiled
                    found[name] = visit(layer, *args, **kwargs)

        hooks = [
            layer.register_forward_pre_hook(partial(look, name), with_kwargs=True)
            for name, layer in self.compiled_layers.items()
        ]
        try:
            with torch.no_grad():
                self(*args, **kwargs)
        finally:
            for hook in hooks:
                hook.remove()
        return found

    def train(self, mode: bool = True) -> Self:
        """Sets the mode of the model, and of its compiled layers."""
        super().train(mode)
        self._copy.module.train(mode)
        return self

    def _around(self, module: nn.Module) -> CompiledModel:
        sharing = LayerSharing(self._sharing.warned)
        return CompiledModel(module, self._compile_layer, sharing, self._compile_whole)

    def extra_repr(self) -> str:
        """How many layers are compiled."""
        return f"layers={len(self.compiled_layers)}"


def compile_model(
    module: nn.Module, compile_layer: Callable[..., CompiledLayer], is_whole: bool = False
) -> CompiledModel:
    """Compiles the layers of a model; those of a compiled one anew.

    Args:
        module: The model.
        compile_layer: `hetune.variants.runtime.compile_layer.compile_layer`, with options.
        is_whole: Whether the model is one program as well, which runs where it can.

    Raises:
        InputError: There are no layers that could be compiled.
    """
    before = module._compiled if isinstance(module, CompiledModel) else {}

    def compiled(part: nn.Module, sharing: LayerSharing) -> CompiledLayer:
        return compile_layer(before.get(part, part), sharing=sharing)

    def whole(model: nn.Module) -> WholeModel:
        found = compile_layer(model, kind=WholeModel)
        assert isinstance(found, WholeModel)
        return found

    return CompiledModel(unwrapped(module), compiled, compile_whole=whole if is_whole else None)
