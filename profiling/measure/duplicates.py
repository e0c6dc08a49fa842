"""Which variants run the same on a graph, and are measured once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hetune.variants.kernel.device import Device
from hetune.variants.plan.choices import Choices

Run = tuple[Any, ...]
"""What a variant runs on a graph; equal where two variants do the same."""


def run_of(variant: Choices | str, device: Device, launches: Iterable[tuple[float, ...]]) -> Run:
    """What a variant runs on a graph.

    On a small graph sizes of blocks make the same cuts: such variants run the same code on the same
    rows, and which of them seems to be faster is chance. On a GPU each schedule is code of its own.

    Args:
        variant: What it is; its id where it is promoted no more, and stands for itself.
        device: What it is for.
        launches: The counts of each of its launches on the graph (`CandidateTable.columns`).
    """
    if device == "cpu" and isinstance(variant, Choices):
        return (variant.plan, *launches)
    return (variant, *launches)
