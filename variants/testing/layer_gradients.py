"""Gradients of layers, and how far they are from others."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Arguments = Sequence[Any] | dict[str, Any]
GRADIENT_TOLERANCE = 1e-5
_LEAST = 1e-4
"""Of the largest gradient: what is smaller is compared with that."""


def gradient_error(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest difference relative to the largest element of the same gradient.

    Softmax leaves some gradients exactly zero, but for rounding: none counts as smaller than a
    ten thousandth of the largest.

    Args:
        found: Gradients.
        expected: What they should be, in float64.
    """
    sizes = [_size(each) for each in expected]
    least = _LEAST * max(sizes, default=0.0)
    errors = [_size(one.double() - other) for one, other in zip(found, expected, strict=True)]
    scales = (max(size, least) or 1.0 for size in sizes)
    return max((error / scale for error, scale in zip(errors, scales, strict=True)), default=0.0)


def gradient_tolerance(own: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    """How large an error may be: where gradients cancel, twice that of torch's own float32.

    Args:
        own: Gradients of the module by torch, in float32.
        exact: The same in float64.
    """
    return max(GRADIENT_TOLERANCE, 2 * gradient_error(own, exact))


def gradients_of(module: nn.Module, args: Arguments, seed: int = 0) -> list[Tensor]:
    """Gradients by a call's floats, then by all parameters, of a random multiple of its results.

    Zeros of what results do not depend on.

    Args:
        module: What is called.
        args: Of the call, by place or by name: tensors, dictionaries of them, and graphs.
        seed: Of the multiple.
    """
    with torch.enable_grad():
        leaves: list[Tensor] = []
        if isinstance(args, dict):
            found = module(**_leaf(args, leaves))
        else:
            found = module(*(_leaf(each, leaves) for each in args))
        results = [*_tensors(found)]
        draw = torch.Generator().manual_seed(seed)
        upstream = [torch.randn(each.shape, generator=draw).to(each) for each in results]
        wanted = [*leaves, *(each for each in module.parameters() if each.requires_grad)]
        gradients = torch.autograd.grad(results, wanted, upstream, allow_unused=True)
    pairs = zip(gradients, wanted, strict=True)
    return [torch.zeros_like(leaf) if each is None else each for each, leaf in pairs]


def exact_gradients_of(module: nn.Module, args: Arguments, seed: int = 0) -> list[Tensor]:
    """The same of a module in float64, by torch."""
    return gradients_of(copy.deepcopy(module).double(), _double(args), seed)


def _leaf(value: Any, leaves: list[Tensor]) -> Any:
    if isinstance(value, dict):
        return {name: _leaf(each, leaves) for name, each in value.items()}
    if not (isinstance(value, Tensor) and value.is_floating_point()):
        return value
    leaves.append(value.detach().clone().requires_grad_())
    return leaves[-1]


def _double(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _double(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_double(each) for each in value]
    is_float = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if is_float else value


def _tensors(result: Any) -> Iterator[Tensor]:
    match result:
        case Tensor():
            yield result
        case dict():
            yield from _tensors([*result.values()])
        case list() | tuple():
            for part in result:
                yield from _tensors(part)


def _size(tensor: Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0
