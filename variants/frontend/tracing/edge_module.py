"""Modules that are called with graphs, as the tracer runs them: on the graphs' edges."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from hetune.variants.frontend.tracing.arguments import CallArguments, read_arguments


class EdgeModule(nn.Module):
    """Computes what another module does, from tensors alone.

    Its ``forward`` takes what `read` gives, by name, numbers or symbols.

    Attributes:
        module: The other one.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    @abstractmethod
    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallArguments:
        """What the other module was called with, edges in place of its graph.

        Raises:
            InputError: It takes no such arguments.
            NotTraceable: No program takes such arguments.
        """

    def kept(self) -> Mapping[str, Tensor]:
        """As of `kept_by`."""
        return {}


def kept_by(module: nn.Module) -> Mapping[str, Tensor]:
    """Arguments that a module on edges has itself, by name, whatever a call gives."""
    return module.kept() if isinstance(module, EdgeModule) else {}


def original(module: nn.Module) -> nn.Module:
    """What users call: a module itself, or what one on edges stands for."""
    inner = module.module if isinstance(module, EdgeModule) else module
    assert isinstance(inner, nn.Module)
    return inner


def read_call_of(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> CallArguments:
    """The arguments of a call as a module that is traced takes them.

    Raises:
        InputError: It takes no such arguments.
        NotTraceable: No program takes such arguments.
    """
    if isinstance(module, EdgeModule):
        return module.read(args, kwargs)
    return read_arguments(module, args, kwargs)
