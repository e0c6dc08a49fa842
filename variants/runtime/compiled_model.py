"""`hetune.compile` of a model: each of its layers runs the variant that suits its input."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Self, TypeVar

import torch
from torch import nn

from hetune.variants.errors import VariantError
from hetune.variants.frontend.dictionaries import is_hetero_conv
from hetune.variants.frontend.wrapper import ModuleWrapper, unwrapped
from hetune.variants.runtime.choice import Choice
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.layer_sharing import LayerSharing
from hetune.variants.runtime.layer_status import LayerStatus, ModelReport
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
    _original: nn.Module

    def __init__(
        self,
        module: nn.Module,
        compile_layer: CompileLayer,
        compile_whole: CompileWhole,
        sharing: LayerSharing | None = None,
        is_whole: bool = False,
    ) -> None:
        """Compiles the layers.

        Args:
            module: The model.
            compile_layer: Compiles one, which shares something with the others.
            compile_whole: Compiles a model as one program.
            sharing: What layers share.
            is_whole: Whether the model is one program as well, which runs where it can. Parts that
                hold a layer for each type of edges are.

        Raises:
            InputError: There are no layers that could be compiled.
        """
        super().__init__()
        self._compile_layer, self._sharing = compile_layer, sharing or LayerSharing()
        self._compile_whole = compile_whole
        self.__dict__["_original"] = module
        self._compiled: dict[nn.Module, CompiledLayer | CompiledModel] = {}
        self._copy = ModelCopy(module, self._in_place_of)
        if not self.compiled_layers:
            raise nothing_to_compile(module)
        whole = self.__dict__["_whole"] = compile_whole(module) if is_whole else None
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
        if part in self._compiled:
            return self._compiled[part]
        if is_layer(part):
            self._compiled[part] = self._compile_layer(part, self._sharing)
        elif (
            part is not self._original
            and is_hetero_conv(part)
            and any(map(is_layer, part.modules()))
        ):
            given = self._compile_layer, self._compile_whole, self._sharing
            self._compiled[part] = CompiledModel(part, *given, is_whole=True)
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

    def compile_part(self, layer: nn.Module) -> CompiledLayer:
        """Compiles a layer as those of the model are."""
        return self._compile_layer(layer, self._sharing)

    def report(self) -> ModelReport:
        """Which layers are compiled, or why not, and what their last calls ran.

        Of a model that is compiled whole the model comes first; alone, if it ran as one program.
        """
        self._follow()
        return ModelReport((*self._statuses(""),))

    def _statuses(self, name: str) -> Iterator[LayerStatus]:
        whole = None if self._whole is None else self._whole.status(name)
        if whole is not None:
            yield whole
        if whole is None or whole.variant is None:
            for path, part in self._compiled_parts().items():
                path = f"{name}.{path}" if name else path
                if isinstance(part, CompiledModel):
                    yield from part._statuses(path)
                else:
                    yield part.status(path)

    def _compiled_parts(self) -> dict[str, CompiledLayer | CompiledModel]:
        """Layers by name, each once, and models in place of theirs."""
        found: dict[str, CompiledLayer | CompiledModel] = {}
        inside: tuple[str, ...] = ()
        for name, part in self._copy.module.named_modules():
            if isinstance(part, CompiledLayer | CompiledModel) and not name.startswith(inside):
                found[name] = part
                inside = (*inside, f"{name}.") if isinstance(part, CompiledModel) else inside
        return found

    def explain(self, *args: Any, gradients: bool = False, **kwargs: Any) -> dict[str, Choice]:
        """What the layers would run in a call with these arguments, by name, and why.

        The model runs once. Of a layer that is called several times, the last call counts; one
        that would run uncompiled is left out. With gradients, choices say what backwards would run.
        """
        visit = partial(CompiledLayer.explain, gradients=gradients)
        return self._visited(visit, args, kwargs, gradients)

    def warm(
        self,
        *args: Any,
        progress: Progress | None = None,
        gradients: bool = False,
        **kwargs: Any,
    ) -> dict[str, tuple[str, ...]]:
        """Compiles and indexes all that calls on a graph may need, so that none waits for it.

        The model runs once.

        Args:
            *args: Of a call.
            progress: As of `CompiledLayer.warm`.
            gradients: Whether calls are to be differentiated.
            **kwargs: Of a call.

        Returns:
            Ids of the variants that calls may run, by the layer's name.

        Raises:
            MemoryLimitError: No variant fits the limit.
            CompileError: A kernel does not compile.
        """
        visit = partial(CompiledLayer.warm, progress=progress, gradients=gradients)
        return self._visited(visit, args, kwargs, gradients)

    def _visited(
        self,
        visit: Callable[..., _Found],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        gradients: bool,
    ) -> dict[str, _Found]:
        """What is found of each layer before it is called, by name; of a whole model as ""."""
        if self._whole is not None:
            with suppress(VariantError):  # the call runs layer by layer
                return {"": visit(self._whole, *args, **kwargs)}
        thread, found = threading.get_ident(), dict[str, _Found]()

        def look(name: str, part: nn.Module, args: Any, kwargs: Any) -> None:
            layer = part._whole if isinstance(part, CompiledModel) else part
            if threading.get_ident() == thread:
                with suppress(VariantError):  # the call runs uncompiled
                    found[name] = visit(layer, *args, **kwargs)

        parts: dict[str, nn.Module] = {**self.compiled_layers, **self._compiled_parts()}
        hooks = [
            part.register_forward_pre_hook(partial(look, name), with_kwargs=True)
            for name, part in parts.items()
        ]
        try:
            with torch.set_grad_enabled(gradients):  # as layers' inputs need them
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
        given = self._compile_layer, self._compile_whole, sharing
        return CompiledModel(module, *given, is_whole=self._whole is not None)

    def _layers_by_original(self) -> dict[nn.Module, CompiledLayer]:
        found: dict[nn.Module, CompiledLayer] = {}
        for original, part in self._compiled.items():
            found |= (
                part._layers_by_original() if isinstance(part, CompiledModel) else {original: part}
            )
        return found

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
    before = module._layers_by_original() if isinstance(module, CompiledModel) else {}

    def compiled(part: nn.Module, sharing: LayerSharing) -> CompiledLayer:
        return compile_layer(before.get(part, part), sharing=sharing)

    def whole(model: nn.Module) -> WholeModel:
        found = compile_layer(model, kind=WholeModel)
        assert isinstance(found, WholeModel)
        return found

    original = unwrapped(module)
    return CompiledModel(original, compiled, whole, is_whole=is_whole or is_hetero_conv(original))
