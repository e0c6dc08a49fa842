"""Hooks that torch calls for every module: they see the layer in a compiled one, too.

A compiled run does not call the layer's module, so nobody else would call them for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_modules


def are_registered() -> bool:
    """Whether there are any, before or after forward."""
    return bool(torch_modules._global_forward_pre_hooks or torch_modules._global_forward_hooks)


def run_between(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    run: Callable[[tuple[Any, ...]], Any],
) -> Any:
    """What a run gives, between the hooks: they may change its arguments and its result.

    Args:
        module: What hooks are told that it runs.
        args: Positional arguments of the call.
        kwargs: The others.
        run: Runs it, with positional arguments that hooks may have changed.
    """
    for hook in tuple(torch_modules._global_forward_pre_hooks.values()):
        changed = hook(module, args)
        if changed is not None:
            args = changed if isinstance(changed, tuple) else (changed,)
    result = run(args)
    for key, hook in tuple(torch_modules._global_forward_hooks.items()):
        if key in torch_modules._global_forward_hooks_with_kwargs:
            changed = hook(module, args, kwargs, result)
        else:
            changed = hook(module, args, result)
        result = result if changed is None else changed
    return result
