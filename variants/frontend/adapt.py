"""The adapter of any module that hetune may compile."""

from __future__ import annotations

from torch import nn

from hetune.variants.frontend import pyg
from hetune.variants.frontend.adapter import Adapter, Unsupported, refusal
from hetune.variants.frontend.nn import HGT, FlatLayer, RelationalLayer


def adapt(module: nn.Module) -> Adapter | Unsupported:
    """The adapter of a layer of `hetune.nn` or of PyTorch Geometric."""
    if isinstance(module, RelationalLayer):
        if "forward" in vars(module) or type(module).forward not in (
            FlatLayer.forward,
            HGT.forward,
        ):
            return Unsupported(f"{type(module).__name__} has a forward() of its own")
        reason = refusal(module)
        return Unsupported(reason) if reason else module.adapter()
    return pyg.adapt(module)
