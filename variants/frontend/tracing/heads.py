"""Values that a loop over heads computed one by one, as one value with an axis of heads."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hetune.variants.frontend.tracing.expressions import called
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.program.nodes import (
    Dot,
    Linear,
    Map,
    Op,
    Reshape,
    Slice,
    Space,
    Take,
    operands,
    with_operands,
    without_operands,
)


def together(recorder: ProgramRecorder, names: Sequence[str]) -> str | None:
    """A value with the rows of others side by side, on a new first axis of each row.

    Args:
        recorder: Of the program.
        names: The others, of one type.

    Returns:
        None where they are not made alike.
    """
    types = {recorder.types[name] for name in names}
    if len({*names}) < len(names) or len(types) > 1:
        return None
    ops = [op for op in map(recorder.op_of, names) if op is not None]
    if not ops:
        return _weights(recorder, names)
    if len(ops) < len(names) or len({_alike(op) for op in ops}) > 1:
        return None
    first = ops[0]
    if isinstance(first, Slice):
        return _slices(recorder, ops)
    if not isinstance(first, Reshape | Linear | Map | Dot | Take):
        return None
    args = [together(recorder, column) for column in zip(*map(operands, ops), strict=True)]
    found = tuple(arg for arg in args if arg is not None)
    if len(found) < len(args):
        return None
    if isinstance(first, Reshape):
        return recorder.emit(Reshape(found[0], (len(names), *first.shape)), "heads")
    return recorder.emit(with_operands(first, found), "heads")


def _alike(op: Op) -> object:
    """Equal for operators that differ in their operands alone, and for all slices."""
    return Slice if isinstance(op, Slice) else without_operands(op)


def _slices(recorder: ProgramRecorder, ops: Sequence[Op]) -> str | None:
    """What is cut into all its parts, in order."""
    slices = [op for op in ops if isinstance(op, Slice)]
    whole, step = slices[0].x, slices[0].stop
    are_parts = all(
        (part.x, part.start, part.stop) == (whole, i * step, (i + 1) * step)
        for i, part in enumerate(slices)
    )
    if not are_parts or recorder.types[whole].shape != (len(slices) * step,):
        return None
    return recorder.emit(Reshape(whole, (len(slices), step)), "heads")


def _weights(recorder: ProgramRecorder, names: Sequence[str]) -> str | None:
    if any(name not in recorder.weights for name in names):
        return None
    type_ = recorder.types[names[0]]
    axis = 0 if type_.space is Space.SHARED else 1
    parts = [recorder.weights[name] for name in names]
    stacked = called(torch.stack, (parts, axis), {})
    return recorder.new_weight(stacked, type_.with_shape(len(names), *type_.shape))
