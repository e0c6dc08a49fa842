"""The adapter of a message-passing layer of PyTorch Geometric, traced by its first call."""

from __future__ import annotations

import dis
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from hetune.variants.frontend.adapter import Adapter, Unsupported, refusal
from hetune.variants.frontend.autocast import full_precision
from hetune.variants.frontend.dictionaries import with_dictionaries
from hetune.variants.frontend.pyg_lazy import is_uninitialized
from hetune.variants.frontend.traced_call import (
    TracedReader,
    dtype_of,
    mode_of,
    read_in_float32,
)
from hetune.variants.frontend.tracing.arguments import CallArguments
from hetune.variants.frontend.tracing.cached_edges import CachedLayer, with_cache
from hetune.variants.frontend.tracing.edge_module import original
from hetune.variants.frontend.tracing.feature_sets import SeveralSets, has_sets
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.python_state import PythonState
from hetune.variants.frontend.tracing.validate import validated
from hetune.variants.program.limitation import limitation

_REFUSALS: WeakKeyDictionary[nn.Module, _Refusals] = WeakKeyDictionary()
_MOST_REFUSED = 16
"""Traces of one module that fail before none is tried any more."""


def is_message_passing(module: nn.Module) -> bool:
    """Whether a module is a layer of PyTorch Geometric's, or a user's subclass of one."""
    return any(
        kind.__name__ == "MessagePassing"
        and kind.__module__ == "torch_geometric.nn.conv.message_passing"
        for kind in type(module).__mro__
    )


def adapt_call(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Adapter | Unsupported:
    """The adapter of a message-passing layer for calls like this one.

    Args:
        module: The layer. Parameters that it makes in its first call are made.
        args: Of the call.
        kwargs: Likewise.

    Raises:
        InputError: They are not the arguments of such a call.
    """
    found = _adapt(with_cache(with_dictionaries(module, args, kwargs)), args, kwargs)
    if isinstance(found, Unsupported) and has_sets(module, args, kwargs):
        again = _adapt(SeveralSets(module), args, kwargs)
        found = again if isinstance(again, Adapter) else found
    return found


def _adapt(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Adapter | Unsupported:
    own = original(module)
    if (reason := _state_refusal(module) or refusal(own)) is not None:
        return Unsupported(reason)
    arguments = read_in_float32(module, args, kwargs, dtype_of(own))
    if isinstance(arguments, Unsupported):
        return arguments
    if is_uninitialized(own) or (not own.training and _sets_more(own)):
        with torch.no_grad():
            own(*args, **kwargs)
    if (refusals := _REFUSALS.get(own)) is None:
        refusals = _REFUSALS[own] = _Refusals(own)
    kind = type(module), arguments.key, mode_of(own.modules())
    if (known := refusals.known(own, kind)) is not None:
        return known
    with full_precision(arguments.device.type):
        found = _traced_adapter(module, arguments)
    if isinstance(found, Unsupported):
        refusals.add(kind, found)
    return found


def _sets_more(module: nn.Module) -> bool:
    """Whether a forward sets attributes that its module has only after a first call."""
    code = getattr(type(module).forward, "__code__", None)
    steps = () if code is None else dis.get_instructions(code)
    return any(i.opname == "STORE_ATTR" and not hasattr(module, i.argval) for i in steps)


class _Refusals:
    """Why calls of a module run in the module itself, by their kind, until the module changes.

    A forward that writes to its attributes changes it in every call: so the traces are few.
    """

    def __init__(self, module: nn.Module) -> None:
        self._state, self._parts = PythonState(module), _inner(module)
        self._by_kind: dict[object, Unsupported] = {}
        self._left = _MOST_REFUSED

    def known(self, module: nn.Module, kind: object) -> Unsupported | None:
        """Why a call of this kind would be refused again."""
        if not self._left:
            return Unsupported(f"it was no program {_MOST_REFUSED} times")
        if self._parts != _inner(module) or self._state.change() is not None:
            self._state, self._parts = PythonState(module), _inner(module)
            self._by_kind.clear()
        return self._by_kind.get(kind)

    def add(self, kind: object, refusal: Unsupported) -> None:
        """Remembers why a trace failed."""
        self._by_kind[kind] = refusal
        self._left -= 1


def _inner(module: nn.Module) -> list[nn.Module]:
    return list(module.modules())[1:]


def _traced_adapter(module: nn.Module, arguments: CallArguments) -> Adapter | Unsupported:
    try:
        traced, recordings = validated(module, arguments)
    except NotTraceable as error:
        return Unsupported(f"it is no program: {error}")
    if (reason := limitation(traced.program)) is not None:
        return Unsupported(reason)
    return TracedReader(module, arguments, traced, recordings).adapter


def _state_refusal(module: nn.Module) -> str | None:
    own = module.module if isinstance(module, CachedLayer) else None
    for part in original(module).modules():
        if getattr(part, "cached", False) and part is not own:
            return "cached=True keeps to its first graph: hetune caches what follows from each one"
        if (layers := getattr(part, "decomposed_layers", 1)) != 1:
            return f"decomposed_layers={layers}: 1 compiles"
    return None
