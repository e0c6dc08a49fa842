"""What a layer's Python attributes hold, which its program takes for granted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import FunctionType
from typing import Any

from torch import Tensor, nn

from hetune.variants.frontend.tracing.captured import names_in

CACHE = "_cached_edge_index"
"""Of PyG's layers with the option `cached`: every call of one reads it."""
_MOST = 1000
"""Of the containers and objects that attributes lead to; a data set behind one is not searched."""


class PythonState:
    """Attributes of a module, its classes and its parts, what their containers hold, and globals.

    Not parameters, buffers, parts, hooks and the mode, which others watch. A check is a few
    comparisons of dictionaries, done in every call.
    """

    def __init__(self, module: nn.Module) -> None:
        self._watched = [
            (path, held, dict(held) if isinstance(held, Mapping) else held.copy(), ignored)
            for path, held, ignored in _containers(module)
        ]
        self._globals = [*_globals_read(_own_kinds(module))]

    def change(self) -> str | None:
        """The path of something that was assigned since, or None."""
        for path, held, before, ignored in self._watched:
            if _equal(held, before):
                continue
            if not isinstance(held, Mapping):
                return path.removesuffix(".")
            for name in (*before, *(name for name in held if name not in before)):
                is_there = name in before and name in held
                if name not in ignored and not (is_there and _equal(held[name], before[name])):
                    return f"{path}{name}"
        for where, name, value in self._globals:
            if not _equal(where.get(name), value):
                return f"{name} of {where['__name__']}"
        return None


def _equal(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # tensors or arrays of several numbers: they are not the same ones
        return False


def _containers(module: nn.Module) -> Iterator[tuple[str, Any, frozenset[str]]]:
    """All that may be assigned to: where it is, dictionaries, lists and sets, names to ignore."""
    waiting: list[tuple[str, Any, frozenset[str]]] = []
    for path, part in module.named_modules():
        ignored = _of_all(_base(part))
        if getattr(part, "cached", False):
            ignored |= {CACHE}
        waiting.append((f"{path}." if path else "", vars(part), ignored))
    waiting += [(f"{kind.__name__}.", vars(kind), frozenset()) for kind in _own_kinds(module)]
    known: set[int] = set()
    while waiting and len(known) < _MOST:
        path, held, ignored = waiting.pop(0)
        if id(held) in known or len(held) > _MOST:
            continue
        known.add(id(held))
        if not isinstance(held, tuple):
            yield path, held, ignored
        inner: Iterable[tuple[Any, Any]] = (
            held.items() if isinstance(held, Mapping) else enumerate(held)
        )
        for name, value in inner:
            if name in ignored:
                continue
            if isinstance(value, dict | list | set | tuple):
                waiting.append((f"{path}{name}.", value, frozenset()))
            elif hasattr(value, "__dict__") and not callable(value) | isinstance(value, Tensor):
                waiting.append((f"{path}{name}.", vars(value), frozenset()))


def _base(module: nn.Module) -> type:
    """PyG's class of all layers, or torch's of all modules."""
    names = ("MessagePassing", "Module")
    return next(kind for kind in type(module).__mro__ if kind.__name__ in names)


def _own_kinds(module: nn.Module) -> tuple[type, ...]:
    kinds = type(module).__mro__
    return kinds[: kinds.index(_base(module))]


@cache
def _of_all(base: type) -> frozenset[str]:
    """What torch and PyG keep in modules for themselves; options of layers are not."""
    of_rgcn, of_torch_compile = "_use_segment_matmul_heuristic_output", "_is_torch_compile"
    kind = type("Bare", (base,), {})  # PyG writes methods into the class of what is made
    own = {*vars(kind()), of_rgcn, of_torch_compile}
    return frozenset(own - {"aggr", "flow", "node_dim"})


def _globals_read(kinds: Iterable[type]) -> Iterator[tuple[dict[str, Any], str, object]]:
    """Numbers and texts that methods, and functions of their file, read: where, name and value."""
    waiting = [f for kind in kinds for held in vars(kind).values() for f in _functions(held)]
    known: set[tuple[int, str]] = set()
    while waiting:
        function = waiting.pop()
        where = function.__globals__
        for name in names_in(function):
            value = where.get(name)
            if (id(where), name) in known:
                continue
            known.add((id(where), name))
            if isinstance(value, FunctionType) and value.__globals__ is where:
                waiting.append(value)
            elif isinstance(value, bool | int | float | str):
                yield where, name, value


def _functions(held: object) -> Iterator[FunctionType]:
    """Those of a method, of whatever kind, or of a property."""
    parts = (held.fget,) if isinstance(held, property) else (getattr(held, "__func__", held),)
    yield from (part for part in parts if isinstance(part, FunctionType))
