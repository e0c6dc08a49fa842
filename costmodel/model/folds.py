"""Parts to hold out in turn: whole groups, never single rows."""

from __future__ import annotations

import heapq
from collections import Counter

import numpy as np
from numpy.typing import ArrayLike, NDArray


def folds_of(groups: ArrayLike, count: int) -> NDArray[np.int64]:
    """The part of each row, of about equal sizes.

    Args:
        groups: The group of each row [rows]; a group is never divided.
        count: How many parts, or one for each group where those are fewer.

    Returns:
        Numbers from 0; int64 [rows]. Equal groups give equal parts.
    """
    names, numbers = np.unique(np.asarray(groups), return_inverse=True)
    sizes = Counter(numbers.tolist())
    parts = [(0, part) for part in range(min(count, len(names)))]
    part_of = np.zeros(len(names), dtype=np.int64)
    for group in sorted(range(len(names)), key=lambda g: (-sizes[g], g)):
        size, part = heapq.heappop(parts)
        part_of[group] = part
        heapq.heappush(parts, (size + sizes[group], part))
    return part_of[numbers.reshape(-1)]
