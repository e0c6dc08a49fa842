"""What callers ask a selector about: a module, or the name of a layer and its widths."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, cast

from torch import nn

from hetune.variants.errors import InputError, VariantError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Unsupported
from hetune.variants.frontend.presets import preset_program
from hetune.variants.plan.variants import Device, Variant, variants_of


def variants_for(
    layer: nn.Module | str, widths: tuple[int, int] | int | None, heads: int, device: Device
) -> tuple[Variant, ...]:
    """The variants of a layer.

    Args:
        layer: A module that `hetune.compile` supports, or a layer's name.
        widths: As of `Selector.choose`.
        heads: Of a layer given by name.
        device: What they are made for.

    Raises:
        VariantError: The module is not supported.
        InputError: There is no such layer, or its widths are missing or do not fit.
    """
    if isinstance(layer, str):
        if widths is None:
            raise InputError(f"{layer} has no widths: give widths=(d_in, d_out)")
        both = widths if isinstance(widths, Sequence) else (widths, widths)
        try:
            d_in, d_out = map(index, both)
        except (TypeError, ValueError):
            raise InputError(
                f"widths={widths!r}: give (d_in, d_out), or one integer for both"
            ) from None
        return _named(layer, d_in, d_out, heads, device)
    adapter = adapt(layer)
    if isinstance(adapter, Unsupported):
        raise VariantError(f"{type(layer).__name__} has no variants: {adapter.reason}")
    return variants_of(adapter.program, device)


def listed(values: object) -> tuple[Any, ...]:
    """What a list holds; what is none stands alone."""
    try:
        return tuple(cast(Iterable[Any], values))
    except TypeError:
        return (values,)


@functools.lru_cache(maxsize=256)
def _named(layer: str, d_in: int, d_out: int, heads: int, device: Device) -> tuple[Variant, ...]:
    return variants_of(preset_program(layer, d_in, d_out, heads), device)
