"""Layers inside of a module that is none itself, and how to compile them."""

from __future__ import annotations

from torch import nn
from torch.nn.parameter import UninitializedParameter

from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Adapter, Unsupported
from hetune.variants.frontend.wrapper import ModuleWrapper

_NAMED = 8


def advice(module: nn.Module, why: Unsupported) -> str:
    """What to write to compile the layers inside of a module that is none; "" where none is."""
    if why.is_layer:
        return ""
    found = [(path, part) for path, part in _parts(module, "net") if _may_be_compiled(part)]
    if not found:
        return ""
    kinds = " and ".join(sorted({type(part).__name__ for _, part in found}))
    lines = "; ".join(f"{path} = hetune.compile({path})" for path, _ in found[:_NAMED])
    left = len(found) - _NAMED
    more = f"; and {left} more alike" if left > 0 else ""
    return f"; its layers of type {kinds} are. Compile them in their places: {lines}{more}"


def _parts(module: nn.Module, path: str) -> list[tuple[str, nn.Module]]:
    """Parts by the expressions that name them, but for those of compiled layers."""
    found: list[tuple[str, nn.Module]] = []
    for name, part in module.named_children():
        if isinstance(part, ModuleWrapper):
            continue
        inner = path + _step(module, name)
        found.append((inner, part))
        found += _parts(part, inner)
    return found


def _step(parent: nn.Module, name: str) -> str:
    if isinstance(parent, nn.ModuleDict):
        return f"[{name!r}]"
    if name.isdigit() and isinstance(parent, nn.ModuleList | nn.Sequential):
        return f"[{name}]"
    return f".{name}" if name.isidentifier() else f"._modules[{name!r}]"


def _may_be_compiled(part: nn.Module) -> bool:
    if isinstance(adapt(part), Adapter):
        return True
    is_known = type(part).__module__.startswith("torch_geometric.nn.conv.")
    return is_known and any(isinstance(p, UninitializedParameter) for p in part.parameters())
