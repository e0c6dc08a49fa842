"""Cases of `test_advice.py`: what says how to mend something, and who does as it says."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

import hetune
from hetune.variants.errors import HetuneError
from hetune.variants.graph.convert.edge_index_dict import to_edge_index_dict
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.fallback import FallbackWarning

Case = Callable[..., Iterator[Callable[[], Any]]]
CASES: dict[str, tuple[str, Case]] = {}
"""By name: the message as the source has it, and what first does the wrong thing and then follows
the advice."""


def case(message: str) -> Callable[[Case], Case]:
    def add(found: Case) -> Case:
        assert found.__name__ not in CASES
        CASES[found.__name__] = message, found
        return found

    return add


def compiled(module: torch.nn.Module) -> CompiledLayer:
    return compile_layer(module, backend="torch")


def run(layer: CompiledLayer, *args: Any, **kwargs: Any) -> Any:
    """A call that fails if the original module would run."""
    found = layer(*args, **kwargs, variant=layer.variants[0])
    if not any(isinstance(arg, hetune.HeteroGraph) for arg in args):
        torch.testing.assert_close(found, layer.module(*args, **kwargs))
    return found


def said_by(do: Callable[[], Any]) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            do()
        except HetuneError as error:
            return str(error)
    return str(next(w.message for w in caught if w.category is FallbackWarning))


def by_type(x, graph):
    sizes = torch.bincount(graph.ntype).tolist()
    rows = dict(zip(graph.ntype_names, x.split(sizes), strict=True))
    return rows, to_edge_index_dict(graph)
