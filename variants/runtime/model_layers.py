"""Which parts of a model are layers that hetune compiles."""

from __future__ import annotations

from collections import Counter

from torch import nn

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.runtime.compiled import CompiledLayer

_LISTED = 8


def is_layer(module: nn.Module) -> bool:
    """Whether a module is compiled as one layer, in the state that it is in or in another one."""
    found = adapt(module)
    return isinstance(found, Adapter) or found.is_layer


def is_model(module: object) -> bool:
    """Whether a module is compiled layer by layer, if there are any."""
    if not isinstance(module, nn.Module) or isinstance(module, CompiledLayer):
        return False
    return not is_layer(module)


def nothing_to_compile(model: nn.Module) -> InputError:
    """The error for a model without any layer that could be compiled."""
    parts = [part for part in model.modules() if not part._modules and part is not model]
    kinds = Counter(type(part).__name__ for part in parts).most_common(_LISTED)
    found = ", ".join(f"{count} {kind}" for kind, count in kinds) or "no parts"
    return InputError(
        f"{type(model).__name__} has no layer that passes messages, but {found}: give a layer of "
        "hetune.nn or PyG, or a model with such layers"
    )
