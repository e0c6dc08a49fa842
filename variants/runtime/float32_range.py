"""Numbers that outgrow float32 in the order in which a variant adds and multiplies.

A variant may sum a node's edges before it divides by their number, or multiply weights by weights
before a row is touched. The results are the module's but for rounding, except where something in
between is too large for float32 (or, among weights, too small) and the module's own is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

OUTGROWN = (
    "a sum or product outgrows float32 in the order in which it is compiled, and may not in the "
    "module's own: scale features or weights down"
)
"""Why a call runs in the original module."""
_LEAST, _MOST = 1e-30, 3e38
_ORDINARY = 1e9
"""Three numbers of this size can be multiplied, and a million such products added."""


class Overflow:
    """Whether a run was told of a number that outgrew float32."""

    __slots__ = ("happened",)

    def __init__(self) -> None:
        self.happened = False

    def record(self) -> None:
        """It was."""
        self.happened = True


def may_differ(result: Tensor, inputs: Iterable[Tensor]) -> bool:
    """Whether a run that overflowed has to be done by the module.

    Kernels also compute on what they do not use, so an overflow alone says little. Where inputs are
    infinite or no numbers, so is what becomes of them.

    Args:
        result: What was computed.
        inputs: Features and weights.
    """
    sizes = [float(each.abs().max()) for each in inputs if each.numel()]
    if not all(size <= _MOST * 2 for size in sizes):
        return False
    return any(size > _ORDINARY for size in sizes) or not bool(result.isfinite().all())


def fits(made: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> bool:
    """Whether weights that were made of weights lie within float32's range, if those do.

    Args:
        made: Weights that a plan reads, float32.
        values: The parameters by name, some of which may be among them.
    """
    sizes = [
        float(weight.abs().max())
        for name, weight in made.items()
        if name not in values and weight.numel()
    ]
    if all(size == 0 or _LEAST <= size <= _MOST for size in sizes):
        return True
    return not all(bool(value.isfinite().all()) for value in values.values())
