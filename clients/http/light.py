"""What takes less time than to give it to another thread."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

LIGHT_BYTES = 1 << 20
"""As much is copied in a fraction of a millisecond."""
_MOST_VALUES = 256


def is_light(given: object) -> bool:
    """Whether texts, numbers and arrays are few and small, so that it takes little to work on them.

    Graphs never are, in whatever form, nor is anything that is not known.
    """
    return _bytes_of(given) <= LIGHT_BYTES


def _bytes_of(given: object) -> float:
    match given:
        case None | int() | float():
            return 8
        case str() | bytes():
            return len(given)
        case Tensor() if given.device.type == "cpu":
            return given.numel() * given.element_size()
        case np.ndarray():
            return given.nbytes
        case Mapping() if len(given) <= _MOST_VALUES and all(type(key) is str for key in given):
            return sum(map(_bytes_of, given.values()))
        case list() | tuple() if len(given) <= _MOST_VALUES:
            return sum(map(_bytes_of, given))
    return float("inf")
