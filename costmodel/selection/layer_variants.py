"""The variants of what a selector is asked about: a module, a program, or a preset's name."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from torch import nn

from hetune.variants.errors import InputError, VariantError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Unsupported
from hetune.variants.frontend.presets import preset_program
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.precision import Precision
from hetune.variants.plan.variants import Variant, variants_of
from hetune.variants.program.nodes import Program


def variants_for(
    layer: nn.Module | Program | str,
    widths: tuple[int, int] | int | None,
    heads: int,
    device: Device,
    precision: Precision,
) -> tuple[Variant, ...]:
    """The variants of a layer.

    Args:
        layer: As of `Selector.choose`.
        widths: As of `Selector.choose`.
        heads: Of a layer given by name.
        device: What they are made for.
        precision: What they may store tables in.

    Raises:
        VariantError: The module is not supported.
        InputError: There is no such layer, or its widths are missing or do not fit.
    """
    if isinstance(layer, Program):
        return variants_of(layer, device, precision)
    if isinstance(layer, str):
        program = preset_program(layer, *_widths(layer, widths), heads)
        return variants_of(program, device, precision)
    adapter = adapt(layer)
    if isinstance(adapter, Unsupported):
        raise VariantError(f"{type(layer).__name__} has no variants: {adapter.reason}")
    return variants_of(adapter.program, device, precision)


def _widths(layer: str, widths: tuple[int, int] | int | None) -> tuple[int, int]:
    if widths is None:
        raise InputError(f"{layer} has no widths: give widths=(d_in, d_out)")
    both = widths if isinstance(widths, Sequence) else (widths, widths)
    try:
        d_in, d_out = map(index, both)
    except (TypeError, ValueError):
        raise InputError(
            f"widths={widths!r}: give (d_in, d_out), or one integer for both"
        ) from None
    return d_in, d_out
