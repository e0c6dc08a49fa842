"""Layers of bfloat16, and all under torch's autocast: rows of 16 bits, and results as modules give.

Compiled layers compute in float32 all the same, so that their results are at least as exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.call import Call
from hetune.variants.frontend.calls import LayerCall
from hetune.variants.frontend.nn import RelationalLayer

Dtypes = Any
"""Of a result: a dtype, or what a result of several tensors has one of in place of each."""


def full_precision(device: str) -> AbstractContextManager[Any]:
    """Without autocast, which would round weights that are kept."""
    if torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


class Autocast:
    """Which dtypes a layer's results have.

    They differ with a module's options, and with what PyG finds installed. So the module itself is
    asked, once for each dtype that it is called with, on a graph of a few edges.
    """

    def __init__(self) -> None:
        self._known: dict[object, Dtypes] = {}

    def dtypes(self, adapter: Adapter, call: Call, device: torch.device) -> Dtypes:
        """Those of a call's result: float32 for a module of float32 where autocast is off.

        `hetune.nn`'s layers give their parameters' in any case.
        """
        dtype, is_autocast = adapter.dtype, torch.is_autocast_enabled(device.type)
        is_plain = dtype is torch.float32 and not is_autocast
        is_own = isinstance(adapter.module, RelationalLayer)
        if is_plain or is_own:
            return dtype
        given: tuple[object, ...]
        if type(call) is not LayerCall:
            given = call.given_dtype, adapter.module.training
        elif not isinstance(call.x, Tensor):
            given = tuple((name, rows.dtype) for name, rows in call.x.items())
        elif adapter.signature == "hetero":
            return dtype  # a call that the module does not know
        else:
            given = (call.x.dtype,)
        kind = torch.get_autocast_dtype(device.type) if is_autocast else None
        key = device, kind, dtype, given
        if key not in self._known:
            if isinstance(call, LayerCall) and type(call) is LayerCall:
                self._known[key] = _asked(adapter, call, device)
            else:
                self._known[key] = _dtypes_of(call.of_module())
        return self._known[key]


def cast(result: Any, dtypes: Dtypes) -> Any:
    """A float32 result in these dtypes."""
    if dtypes is torch.float32:
        return result
    match result:
        case Tensor() if isinstance(dtypes, torch.dtype):
            return result.to(dtypes)
        case Mapping():
            of = dtypes if isinstance(dtypes, Mapping) else dict.fromkeys(result, dtypes)
            return {name: cast(rows, of.get(name, torch.float32)) for name, rows in result.items()}
        case tuple() | list():
            each = dtypes if isinstance(dtypes, tuple) else (dtypes,) * len(result)
            return type(result)(map(cast, result, each))
    return result


def _dtypes_of(result: Any) -> Dtypes:
    match result:
        case Tensor():
            return result.dtype
        case Mapping():
            return {name: _dtypes_of(part) for name, part in result.items()}
        case tuple() | list():
            return tuple(map(_dtypes_of, result))
    return None


def _asked(adapter: Adapter, call: LayerCall, device: torch.device) -> Dtypes:
    width = adapter.width
    edge = torch.zeros(2, 1, dtype=torch.int64, device=device)
    with torch.no_grad():
        if isinstance(call.x, Tensor):
            x = torch.zeros(1, width, dtype=call.x.dtype, device=device)
            found: Tensor = adapter.module.forward(x, edge, edge[0])
            return found.dtype
        assert adapter.metadata is not None
        nodes, edges = adapter.metadata
        dtypes = {name: rows.dtype for name, rows in call.x.items()}
        x_dict = {
            name: torch.zeros(1, width, dtype=dtypes.get(name, torch.float32), device=device)
            for name in nodes
        }
        by_type: dict[str, Tensor] = adapter.module.forward(x_dict, dict.fromkeys(edges, edge))
        return {name: rows.dtype for name, rows in by_type.items() if rows is not None}
