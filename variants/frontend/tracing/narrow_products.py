"""Narrow products of products as inner products, for which weights may be multiplied first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import torch

from hetune.variants.frontend.tracing.expressions import called
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.simplify import needed
from hetune.variants.program.nodes import Dot, Let, Linear, operands

_LEAST_COLUMNS = 4
"""Of a product, for each inner product that is made of it."""
_MOST_SCORES = 8
"""Inner products of a row that is read by others, too: attention has one for each head."""


def with_inner_products(
    recorder: ProgramRecorder, lets: list[Let], results: Iterable[str]
) -> list[Let]:
    """Values where narrow products of products are inner products with columns of the weight.

    A product that others read, too, is computed anyway: more than a few columns of another one are
    computed faster of it, as a matrix product.

    Args:
        recorder: Has their types, and the weights.
        lets: The values.
        results: Which of them are returned.
    """
    products = {let.name for let in lets if isinstance(let.op, Linear)}
    read = Counter(name for let in needed(lets, results) for name in operands(let.op))
    read.update(results)

    def inner_product(let: Let) -> Let:
        if not isinstance(let.op, Linear) or let.op.x not in products:
            return let
        x, w = let.op.x, let.op.w
        row, shape = recorder.types[x].shape, recorder.types[w].shape
        if w not in recorder.weights or len(row) != 1 or len(shape) != 2:
            return let
        inner, outer = shape
        if outer * _LEAST_COLUMNS > inner or (read[x] > 1 and outer > _MOST_SCORES):
            return let
        columns = called(torch.Tensor.transpose, (recorder.weights[w], 0, 1), {})
        return replace(let, op=Dot(x, recorder.weight(columns, (outer, inner))))

    return [inner_product(let) for let in lets]
