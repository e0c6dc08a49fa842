"""Numbers that outgrow float32 in the order in which a variant adds and multiplies.

A variant may sum a node's edges before it divides by their number, or multiply weights by weights
before a row is touched. The results are the module's but for rounding, except where something in
between is too large for float32 (or, among weights, too small) and the module's own is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from hetune.variants.errors import InputError

OUTGROWN = (
    "a sum or product outgrows float32 in the order in which it is compiled, and may not in the "
    "module's own: scale features or weights down"
)
"""Why a call runs in the original module."""
_LEAST, _MOST = 1e-30, 3e38
_ORDINARY = 1e9
"""Three numbers of this size can be multiplied, and a million such products added."""


class OutgrownError(InputError):
    """A variant's result may not be the module's: a number outgrew float32 on the way."""

    def __init__(self, variant: str) -> None:
        super().__init__(f"the result of {variant} may be wrong: {OUTGROWN}")


class Overflow:
    """Whether a run was told of a number that outgrew float32."""

    __slots__ = ("happened",)

    def __init__(self) -> None:
        self.happened = False

    def record(self) -> None:
        """Notes that a number outgrew float32."""
        self.happened = True


def may_differ(results: Iterable[Tensor], inputs: Iterable[Tensor]) -> bool:
    """Whether a run that overflowed has to be done by the module.

    Kernels also compute on what they do not use, so an overflow alone says little. Where inputs are
    infinite or no numbers, so is what becomes of them.

    Args:
        results: What was computed.
        inputs: Features and weights.
    """
    sizes = [_size(each) for each in inputs]
    if not all(map(math.isfinite, sizes)):
        return False
    is_finite = all(math.isfinite(_size(result)) for result in results)
    return max(sizes, default=0) > _ORDINARY or not is_finite


def check_finite(variant: str, result: Tensor, inputs: Iterable[Tensor]) -> None:
    """Checks a result of a device whose kernels do not notice overflow; waits for the device.

    What overflowed on the way to a finite result is not found.

    Args:
        variant: Id of what ran.
        result: What was computed.
        inputs: Features and weights.

    Raises:
        OutgrownError: The result is not finite, and all inputs are.
    """
    if not math.isfinite(_size(result)) and all(math.isfinite(_size(each)) for each in inputs):
        raise OutgrownError(variant)


def _size(values: Tensor) -> float:
    """The largest absolute value; infinite or NaN if one is."""
    if not values.numel():
        return 0.0
    low, high = torch.stack(torch.aminmax(values)).tolist()
    return max(-low, high) if low == low else math.nan


def fits(made: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> bool:
    """Whether weights that were made of weights lie within float32's range, if those do.

    Args:
        made: Weights that a plan reads, float32.
        values: The parameters by name, some of which may be among them.
    """
    sizes = [_size(weight) for name, weight in made.items() if name not in values]
    if all(size == 0 or _LEAST <= size <= _MOST for size in sizes):
        return True
    return not all(math.isfinite(_size(value)) for value in values.values())
