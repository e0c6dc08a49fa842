"""In what numbers products are computed on a GPU: the caller's decision, never a schedule's."""

from __future__ import annotations

from hetune.variants.errors import KernelError

PRECISIONS = ("ieee", "tf32", "bf16")
"""``"ieee"`` is float32, without tensor cores; ``"tf32"`` rounds operands to 10 bits of fraction,
``"bf16"`` to 7. Sums are float32 in all three."""


def check_precision(precision: str) -> str:
    """The precision, if there is one of that name.

    Raises:
        KernelError: There is none.
    """
    if precision not in PRECISIONS:
        raise KernelError(f"no precision {precision!r}: take one of {', '.join(PRECISIONS)}")
    return precision
