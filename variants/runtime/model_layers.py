"""Which parts of a model are layers that hetune compiles."""

from __future__ import annotations

from collections import Counter

from torch import nn

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.wrapper import ModuleWrapper
from hetune.variants.runtime.compiled import CompiledLayer

_LISTED = 8


def is_layer(module: nn.Module) -> bool:
    """Whether a module is compiled as one layer, in the state that it is in or in another one."""
    found = adapt(module)
    return isinstance(found, Adapter) or found.is_layer


def is_model(module: object) -> bool:
    """Whether a module is compiled layer by layer, if there are any."""
    if not isinstance(module, nn.Module) or isinstance(module, CompiledLayer) or is_layer(module):
        return False
    return not passes_messages(module) or any(map(is_layer, module.modules()))


def passes_messages(module: nn.Module) -> bool:
    """Whether a module is a layer of PyG, or derived from one."""
    return any(
        kind.__module__.startswith("torch_geometric.nn.conv.") for kind in type(module).__mro__
    )


def left_layers(model: nn.Module) -> dict[str, tuple[nn.Module, str]]:
    """Layers that pass messages and are not compiled, by name, with the reasons.

    Args:
        model: The model, with compiled layers in their places.
    """
    found: dict[str, tuple[nn.Module, str]] = {}
    for name, part in model.named_children():
        if isinstance(part, ModuleWrapper):
            continue
        reason = adapt(part)
        if passes_messages(part) and not isinstance(reason, Adapter):
            found[name] = part, reason.reason
        found |= {f"{name}.{inner}": value for inner, value in left_layers(part).items()}
    return found


def nothing_to_compile(model: nn.Module) -> InputError:
    """The error for a model without any layer that could be compiled."""
    name, left = type(model).__name__, left_layers(model)
    if left:
        found = "; ".join(
            f"{path} ({type(part).__name__}): {reason}"
            for path, (part, reason) in (*left.items(),)[:_LISTED]
        )
        return InputError(f"{name} has no layer that hetune compiles: {found}")
    parts = [part for part in model.modules() if not part._modules and part is not model]
    kinds = Counter(type(part).__name__ for part in parts).most_common(_LISTED)
    found = ", ".join(f"{count} {kind}" for kind, count in kinds) or "no parts"
    return InputError(
        f"{name} has no layer that passes messages, but {found}: give a layer of hetune.nn or PyG, "
        "or a model with such layers"
    )
