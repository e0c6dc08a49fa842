"""Calls like the one before: they need not be read again, which takes longer than small kernels."""

from __future__ import annotations

import weakref
from typing import Any, Self, TypeGuard

import torch
from torch import Tensor, nn

from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.call import Call, RepeatReader
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime import global_hooks
from hetune.variants.runtime.modes import is_plain
from hetune.variants.runtime.seen import SeenTensor
from hetune.variants.runtime.supported_calls import SupportedCall


class RepeatedCall:
    """A call with rows of float32, and edges, that ran compiled and needed no gradients.

    Both may be dictionaries. It holds neither.

    Args:
        adapter: Of the layer.
        read: Reads calls like it.
        graph: What it ran on.
        args: All that it gave.
    """

    def __init__(
        self, adapter: Adapter, read: RepeatReader, graph: HeteroGraph, args: tuple[Any, ...]
    ) -> None:
        self._adapter, self._read, self._graph = adapter, read, weakref.ref(graph)
        rows, others = tensors_in(args[:1]), tensors_in(args[1:])
        self._keys, self._shapes = [*map(keys_of, args)], [each.shape for each in rows]
        self._device, self._kind = rows[0].device, rows[0].device.type
        self._others = seen = list[_Seen]()
        seen += [_seen(each, lambda _: seen.clear()) for each in others]

    @classmethod
    def of(
        cls, adapter: Adapter, call: Call, graph: HeteroGraph, args: tuple[Any, ...]
    ) -> Self | None:
        """A call that is one, else None."""
        rows, others = tensors_in(args[:1]), tensors_in(args[1:])
        if not (rows and others and all(map(is_rows, rows))):
            return None
        if not all(isinstance(each, HeteroGraph) or _is_counted(each) for each in others):
            return None
        read = reader_of(adapter, call, args)
        return None if read is None else cls(adapter, read, graph, args)

    def supported(self, module: nn.Module, args: tuple[Any, ...]) -> SupportedCall | None:
        """As `supported_call`, of a call that reads as this one did and needs no gradients.

        Args:
            module: The layer's.
            args: All that the call gives.
        """
        adapter, graph = self._adapter, self._graph()
        if not self._is_like(args) or not still_runs(adapter, module):
            return None
        if graph is None or adapter.graph_refusal(graph):
            return None
        call = self._read(args)
        return None if call is None else (adapter, call, graph)

    def _is_like(self, args: tuple[Any, ...]) -> bool:
        if [*map(keys_of, args)] != self._keys:
            return False
        for rows, shape in zip(tensors_in(args[:1]), self._shapes, strict=True):
            if not (is_rows(rows) and rows.shape == shape and rows.device == self._device):
                return False
        known, others = [*self._others], tensors_in(args[1:])  # other threads may clear them
        if len(others) != len(known) or not is_plain(self._kind):
            return False
        return all(
            seen.is_now(each) if isinstance(seen, SeenTensor) else seen() is each
            for seen, each in zip(known, others, strict=True)
        )


_TENSORS = (Tensor, nn.Parameter)
_Seen = SeenTensor | weakref.ref[HeteroGraph]


def _seen(given: Tensor | HeteroGraph, forget: Any) -> _Seen:
    return weakref.ref(given) if isinstance(given, HeteroGraph) else SeenTensor(given, forget)


def reader_of(adapter: Adapter, call: Call, args: tuple[Any, ...]) -> RepeatReader | None:
    """What reads calls like one that ran compiled; None where not all of them run alike."""
    is_alike = not adapter.dropout and adapter.dtype is torch.float32
    return call.repeat_reader(args) if is_alike else None


def still_runs(adapter: Adapter, module: nn.Module) -> bool:
    """Whether a layer that ran compiled, in float32, may do so again."""
    is_same = adapter.module is module and adapter.dtype is torch.float32
    is_refused = global_hooks.are_registered() or adapter.refusal() or adapter.mode_refusal()
    return is_same and not is_refused


def keys_of(given: object) -> tuple[object, ...] | None:
    """Those of a dictionary, in their order."""
    return (*given,) if type(given) is dict else None


def tensors_in(args: tuple[Any, ...]) -> list[Any]:
    """What is given, alone or in dictionaries."""
    found: list[Any] = []
    for given in args:
        found += given.values() if type(given) is dict else (given,)
    return found


def is_rows(x: object) -> TypeGuard[Tensor]:
    """Whether these are rows of float32 as `torch.empty` makes them."""
    if not isinstance(x, Tensor) or type(x) not in _TENSORS:
        return False
    return x.dtype is torch.float32 and x.layout is torch.strided and not x.is_nested


def is_in_memory(given: object) -> TypeGuard[Tensor]:
    """Whether this is a tensor of no subclass, whose numbers have addresses."""
    return type(given) is Tensor and given.layout is torch.strided


def _is_counted(given: object) -> bool:
    """Whether this is such a tensor that counts the writes to it."""
    return is_in_memory(given) and not given.is_inference()
