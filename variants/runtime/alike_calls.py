"""Calls of a layer that differ in their numbers and in how many rows and edges they give."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.call import Call, LooseEdges, RepeatReader
from hetune.variants.runtime.modes import is_plain
from hetune.variants.runtime.repeated_calls import (
    is_in_memory,
    is_rows,
    keys_of,
    reader_of,
    still_runs,
    tensors_in,
)


class CallsAlike:
    """Calls with the same kinds of tensors, or of dictionaries of them.

    All of them record gradients, or none.
    """

    def __init__(self, adapter: Adapter, read: RepeatReader, args: tuple[Any, ...]) -> None:
        self.adapter, self._reader = adapter, read
        self._keys = [*map(keys_of, args)]
        self._kinds = [*map(_kind, tensors_in(args))]
        self._has_gradients = torch.is_grad_enabled()

    @classmethod
    def of(cls, adapter: Adapter, call: Call, args: tuple[Any, ...]) -> CallsAlike | None:
        """Those like one of a layer; None where there may be none."""
        if (read := reader_of(adapter, call, args)) is None:
            return None
        rows, others = tensors_in(args[:1]), tensors_in(args[1:])
        is_read = rows and others and all(map(is_rows, rows)) and all(map(is_in_memory, others))
        return cls(adapter, read, args) if is_read else None

    def has(self, args: tuple[Any, ...]) -> bool:
        """Whether a call that gives these is one of them, and nothing is at work around it."""
        if not is_plain("cpu", self._has_gradients) or [*map(keys_of, args)] != self._keys:
            return False
        for given, kind in zip(tensors_in(args), self._kinds, strict=True):
            if type(given) is not kind[0] or given.is_nested or _kind(given) != kind:
                return False
        return True

    def read(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Call, LooseEdges] | None:
        """Such a call, and its edges; None where the module is no longer what it was."""
        if not still_runs(self.adapter, module) or (call := self._reader(args)) is None:
            return None
        return None if (edges := call.loose_edges()) is None else (call, edges)


def first_of(given: Any) -> Any:
    """A tensor of those that are given together; None where there are none."""
    return next(iter(given.values()), None) if type(given) is dict else given


def _kind(given: Tensor) -> tuple[object, ...]:
    """Equal for tensors that differ in how many rows they have, or [2, E] edges."""
    shape, dtype = given.shape, given.dtype
    fixed = shape[:1] if len(shape) == 2 and not dtype.is_floating_point else shape[1:]
    return type(given), dtype, given.layout, given.is_cpu, len(shape), fixed
