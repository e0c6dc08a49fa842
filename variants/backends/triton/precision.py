"""In what numbers products are computed on a GPU: the caller's decision, never a schedule's."""

from __future__ import annotations

from hetune.variants.errors import KernelError

PRECISIONS = ("ieee", "tf32x3", "tf32", "bf16")
"""``"ieee"`` is float32, without tensor cores; ``"tf32"`` rounds operands to 10 bits of fraction,
``"bf16"`` to 7, and ``"tf32x3"`` splits them into two numbers of 10 bits each, of whose products
it adds the three large ones: about as exact as float32. Sums are float32 in all of them."""


def check_precision(precision: str) -> str:
    """The precision, if there is one of that name.

    Raises:
        KernelError: There is none.
    """
    if precision not in PRECISIONS:
        raise KernelError(f"no precision {precision!r}: take one of {', '.join(PRECISIONS)}")
    return precision
