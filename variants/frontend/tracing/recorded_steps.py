"""Recorded steps without those that give what an earlier one gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.recording import NOTHING, Slot, Step, filled, slots_in

_VIEWS = frozenset(("view", "reshape", "expand", "expand_as", "movedim", "unsqueeze", "t"))
_DIMS = frozenset(("dim", "ndim", "ndimension"))
_COMPARISONS = frozenset(("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"))


def simplified(
    steps: Sequence[Step], values: Sequence[Any], outputs: Mapping[str, int]
) -> tuple[list[Step], dict[str, int]]:
    """Steps that give the same outputs, with fewer views, and the slots of these.

    Two views of one tensor that lie in the same places are one, as they are on every graph: all
    elements of axes are taken, or one of them, and what is written to one is in the other.

    Args:
        steps: In order.
        values: What each slot had.
        outputs: Slots by name.
    """
    renamed = [*map(Slot, range(len(values)))]
    roots: dict[int, int] = {}  # what views are of
    known: dict[object, int] = {}
    has_squeezed = any(step.func.__name__.startswith("squeeze") for step in steps)
    found = []
    for step in steps:
        kwargs = {name: filled(value, renamed) for name, value in step.kwargs.items()}
        step = replace(step, args=filled(step.args, renamed), kwargs=kwargs)
        if isinstance(step.out, int):
            step = replace(step, out=renamed[step.out].index)
        if step.expected is not NOTHING and _is_certain(step, has_squeezed):
            continue
        key = _key(step, values, roots, known)
        out = step.out
        same = out if key is None or not isinstance(out, int) else known.setdefault(key, out)
        if isinstance(out, int) and isinstance(same, int) and same != out:
            renamed[out] = Slot(same)
        else:
            found.append(step)
    return found, {name: renamed[slot].index for name, slot in outputs.items()}


def _key(
    step: Step, values: Sequence[Any], roots: dict[int, int], known: dict[object, int]
) -> object:
    """Equal for views that lie in the same places, and for extents of one axis; None of others."""
    of, name = step.args[0] if step.args else None, step.func.__name__
    if not isinstance(of, Slot) or not isinstance(step.out, int) or step.writes:
        return None
    if name == "_extent":
        return step.func, repr(step.args)
    tensor, base = values[step.out], values[of.index]
    with torch._C.DisableTorchFunction():
        if not isinstance(tensor, Tensor) or not _is_whole(name, step.args, base):
            return None
        if slots_in(step.args[1:]) and 1 in base.shape and tensor.shape == base.shape:
            return None  # it may be expanded on other graphs
        if tensor.untyped_storage()._cdata != base.untyped_storage()._cdata:
            return None
        root = roots[step.out] = roots.get(of.index, of.index)
        known.setdefault(_place(root, values[root]), root)
        return _place(root, tensor)


def _place(root: int, tensor: Tensor) -> object:
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    strides = tuple(stride if extent != 1 else 0 for extent, stride in steps)
    return root, tensor.shape, strides, tensor.storage_offset(), tensor.dtype


def _is_whole(name: str, args: tuple[Any, ...], of: Tensor) -> bool:
    """Whether a view has all elements of each axis, or one of them."""
    if name == "narrow":
        return isinstance(args[1], int) and of.stride(args[1]) == 0
    if name != "__getitem__":
        return name in _VIEWS
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    return all(type(part) is int or part == slice(None) or part is None for part in index)


def _is_certain(step: Step, has_squeezed: bool) -> bool:
    """Whether a function gives what is expected on every graph."""
    name, args = step.func.__name__, step.args
    if name in _DIMS:
        return not has_squeezed
    are_slots = len(args) == 2 and all(isinstance(arg, Slot) for arg in args)
    return are_slots and args[0] == args[1] and name in _COMPARISONS
