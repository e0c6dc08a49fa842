"""PyG's layers that keep to the edges of their first call, normalized: the option `cached`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.tracing.arguments import CallArguments, read_arguments
from hetune.variants.frontend.tracing.edge_module import EdgeModule
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.python_state import CACHE

_WEIGHT = "edge_weight kept"


def with_cache(module: nn.Module) -> nn.Module:
    """A module, or what runs it on the edges that it keeps, if it does."""
    keeps = getattr(module, "cached", False) and hasattr(module, CACHE)
    return CachedLayer(module) if keeps else module


@contextmanager
def unfilled(module: nn.Module) -> Iterator[None]:
    """An empty cache of a module stays empty: the next call's edges are those to keep."""
    is_empty = vars(module).get(CACHE, module) is None
    try:
        yield
    finally:
        if is_empty:
            vars(module)[CACHE] = None


class CachedLayer(EdgeModule):
    """Runs a layer on the edges and weights in its cache, which its own calls fill.

    What a call gives for them is ignored from then on, as the layer ignores it.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self._keeps, self._edges = True, ""

    def forward(self, **values: Any) -> Any:
        """The layer's result.

        Args:
            **values: Its arguments by name, the weights of its cache among them.
        """
        if _WEIGHT not in values:
            return self.module(**values)
        own, given = vars(self.module), {n: v for n, v in values.items() if n != _WEIGHT}
        before, edges = own[CACHE], given[self._edges]
        own[CACHE] = edges, values[_WEIGHT]
        try:
            return self.module(**given)
        finally:
            own[CACHE] = before

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallArguments:
        """As of `EdgeModule`: what the cache has takes the place of edges and weights."""
        found = read_arguments(self.module, args, kwargs)
        if self._keeps and vars(self.module)[CACHE] is None:
            with torch.random.fork_rng(devices=[]):
                self.module(*args, **kwargs)
            self._keeps = vars(self.module)[CACHE] is not None
        if not self._keeps:
            return found
        if any(each is not None and each.requires_grad for each in vars(self.module)[CACHE]):
            raise NotTraceable("cached=True keeps weights of edges that have gradients")
        self._edges = found.edges
        given = {n: v for n, v in found.values.items() if n != found.edges}
        values = {n: v for n, v in given.items() if n != "edge_weight" or v is None}
        return replace(found, values=values | self.kept(), edge_features=())

    def kept(self) -> dict[str, Tensor]:
        """The edges and weights of the cache."""
        cache = vars(self.module)[CACHE]
        return {} if cache is None else {self._edges: cache[0], _WEIGHT: cache[1]}
