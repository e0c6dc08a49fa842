"""Functions with other globals, so that DGL's operators of graphs take symbols; none is patched."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.dgl.proxy import ProxyGraph
from hetune.variants.frontend.tracing.captured import names_in, with_globals


def edge_softmax(
    graph: ProxyGraph, logits: Tensor, eids: object = None, norm_by: str = "dst"
) -> Tensor:
    """DGL's: the softmax of rows of edges that share a destination, or a source."""
    moves = graph.moves if norm_by == "dst" else graph.moves.reversed()
    return moves.softmax(logits)


def gather_mm(a: Tensor, b: Tensor, *, idx_b: Tensor) -> Tensor:
    """DGL's: each row's product with the matrix of its type."""
    return (a.unsqueeze(1) @ b[idx_b]).squeeze(1)


def segment_mm(a: Tensor, b: Tensor, seglen_a: Tensor) -> Tensor:
    """DGL's: rows' products with the matrices of their types, by which they are sorted."""
    kinds = torch.arange(len(b), device=seglen_a.device).repeat_interleave(seglen_a)
    return gather_mm(a, b, idx_b=kinds)


def reverse(graph: ProxyGraph, **options: object) -> ProxyGraph:
    """DGL's: the edges turned round."""
    return graph.reverse()


_REPLACED: dict[str, Callable[..., Any]] = {
    "dgl.ops.edge_softmax": edge_softmax,
    "dgl.ops.gather_mm": gather_mm,
    "dgl.ops.segment_mm": segment_mm,
    "dgl.reverse": reverse,
}


def _replacements() -> dict[int, Callable[..., Any]]:
    found = {}
    for path, replacement in _REPLACED.items():
        folder, name = path.rsplit(".", 1)
        found[id(getattr(sys.modules[folder], name))] = replacement
    return found


class _Namespace:
    """A module of DGL's, or of one of its layers, as traced functions see it."""

    def __init__(self, module: ModuleType, known: dict[int, Callable[..., Any]]) -> None:
        self._module, self._known = module, known

    def __getattr__(self, name: str) -> Any:
        return _value(getattr(self._module, name), self._known)


def _value(value: Any, known: dict[int, Callable[..., Any]]) -> Any:
    if isinstance(value, type) and issubclass(value, nn.Module) and _is_dgl_s(value):
        own = {name: _function(f, known, _inner) for name, f in _functions_of(value).items()}
        changed = {name: f for name, f in own.items() if f is not getattr(value, name)}
        return type(value.__name__, (value,), changed) if changed else value
    return _inner(value, known)


def _inner(value: Any, known: dict[int, Callable[..., Any]]) -> Any:
    """As `_value`, but for classes, which name themselves."""
    if isinstance(value, ModuleType) and value.__name__.split(".")[0] == "dgl":
        return _Namespace(value, known)
    return known.get(id(value), value)


def _is_dgl_s(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "dgl"


def _functions_of(kind: type) -> dict[str, FunctionType]:
    kinds = kind.__mro__[: kind.__mro__.index(nn.Module)]
    functions = {name: f for base in reversed(kinds) for name, f in vars(base).items()}
    return {name: f for name, f in functions.items() if isinstance(f, FunctionType)}


def _function(
    function: FunctionType,
    known: dict[int, Callable[..., Any]],
    changed: Callable[[Any, dict[int, Callable[..., Any]]], Any] = _value,
) -> FunctionType:
    """A function whose globals are replaced, the same one if none is."""
    own = function.__globals__
    new = {name: changed(own[name], known) for name in names_in(function) if name in own}
    if all(value is own[name] for name, value in new.items()):
        return function
    return with_globals(function, {**own, **new})


def replaced_in(function: FunctionType) -> FunctionType:
    """A function that is traced, whose operators of graphs take symbols."""
    return _function(function, _replacements())


def replace_methods(module: nn.Module) -> None:
    """Gives a module that is traced, and its parts, methods that take symbols."""
    known = _replacements()
    for part in module.modules():
        for name, function in _functions_of(type(part)).items():
            if (made := _function(function, known)) is not function:
                part.__dict__[name] = MethodType(made, part)
