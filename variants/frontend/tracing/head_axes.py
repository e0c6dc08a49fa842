"""Products that are looked at by head, as products with weights that have an axis of heads.

Sums over edges may then come before such products, and nothing copies rows to give them that axis.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import torch

from hetune.variants.frontend.tracing.expressions import called
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.simplify import needed
from hetune.variants.program.nodes import (
    Dot,
    Let,
    Linear,
    Map,
    Op,
    Reshape,
    Space,
    operands,
)


def with_head_axes(recorder: ProgramRecorder, lets: list[Let], results: Iterable[str]) -> list[Let]:
    """Values where edges' products are made with an axis of heads, and biases added with it.

    Args:
        recorder: Has their types, and the weights.
        lets: The values.
        results: Which of them are returned.
    """
    ops = {let.name: let.op for let in lets}
    readers = defaultdict[str, list[Op]](list)
    for let in needed(lets, results):
        for name in operands(let.op):
            readers[name].append(let.op)
    made: list[Let] = []
    for let in lets:
        match let.op:
            case Reshape(x, shape) if len(shape) == 2 and x not in results:
                linear = ops.get(x)
                alike = all(op == let.op or isinstance(op, Dot) for op in readers[x])
                if isinstance(linear, Linear) and alike and let.type.space is Space.EDGE:
                    weight = _by_head(recorder, linear.w, shape)
                    let = let if weight is None else replace(let, op=Linear(linear.x, weight))
            case Map("add", (rows, bias)) if isinstance(flat := ops.get(rows), Reshape):
                shape = recorder.types[flat.x].shape
                weight = _by_head(recorder, bias, shape) if len(shape) == 2 else None
                if weight is not None and len(readers[rows]) == 1:
                    op = Map("add", (flat.x, weight))
                    added = recorder.emit(op, f"{let.name}_by_head")
                    made.append(Let(added, recorder.types[added], op))
                    let = replace(let, op=Reshape(added, let.type.shape))
        made.append(let)
    return made


def _by_head(recorder: ProgramRecorder, name: str, shape: tuple[int, ...]) -> str | None:
    """A weight whose last axis is one of heads and one of their columns; None if it is none."""
    type_, weight = recorder.types[name], recorder.weights.get(name)
    width = shape[0] * shape[1]
    if weight is None or type_.shape[-1:] != (width,) or len(type_.shape) > 2:
        return None
    whole = *type_.shape[:-1], *shape
    lead = () if type_.space is Space.SHARED else (-1,)
    reshaped = called(torch.Tensor.reshape, (weight, (*lead, *whole)), {})
    if type_.space is Space.SHARED:
        return recorder.weight(reshaped, whole)
    return recorder.new_weight(reshaped, type_.with_shape(*whole))
