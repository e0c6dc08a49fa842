"""Numbers that were read from files."""

from __future__ import annotations

import sys
from typing import Any

_MOST = sys.float_info.max


def finite(value: Any, least: float = -_MOST) -> Any:
    """A number of a JSON document, as it is.

    Args:
        value: Anything that JSON holds.
        least: What it must not be below.

    Raises:
        ValueError: It is no integer and no float, not finite as a float, or below that.
    """
    if type(value) not in (int, float) or not -_MOST <= value <= _MOST:
        raise ValueError(f"{value!r} is no finite number")
    if value < least:
        raise ValueError(f"{value!r} is below {least:g}")
    return value
