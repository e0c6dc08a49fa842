"""PyG's layers called with several sets of features of one graph, [..., N, width]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from hetune.variants.frontend.tracing.arguments import CallArguments, read_arguments
from hetune.variants.frontend.tracing.edge_module import EdgeModule


def has_sets(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a layer may be called with several sets of features."""
    is_plain = isinstance(module, EdgeModule) or getattr(module, "node_dim", 0) != -2
    return not is_plain and any(map(_are_sets, (*args, *kwargs.values())))


class SeveralSets(EdgeModule):
    """Runs a layer on nodes' rows of all sets, [N, ..., width]."""

    def forward(self, **values: Any) -> Any:
        """The layer's result, as the layer gives it.

        Args:
            **values: Its arguments by name.
        """
        return self.module(
            **{n: v.movedim(0, -2) if _are_sets(v) else v for n, v in values.items()}
        )

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallArguments:
        """As of `EdgeModule`: rows of nodes come first."""
        moved = tuple(_moved(value) for value in args)
        return read_arguments(
            self.module, moved, {name: _moved(value) for name, value in kwargs.items()}
        )


def _moved(value: Any) -> Any:
    return value.movedim(-2, 0) if _are_sets(value) else value


def _are_sets(value: object) -> bool:
    return isinstance(value, Tensor) and value.dim() > 2 and value.is_floating_point()
