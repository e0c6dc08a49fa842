"""Sums of outer products into types, type by type: no row of products is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

import torch
from torch import Tensor

from hetune.variants.program.nodes import Let, Map, Program, Reduce, operands


def outer_sums(program: Program, wanted: Set[str]) -> dict[str, Let]:
    """The outer products that only a sum into types reads, by the name of that sum.

    Args:
        program: A verified one.
        wanted: Values that are asked for.
    """
    readers = Counter(name for let in program.lets for name in operands(let.op))
    outers = {
        let.name: let
        for let in program.lets
        if isinstance(let.op, Map) and let.op.fn == "outer" and let.name not in wanted
    }
    return {
        let.name: outers[let.op.x]
        for let in program.lets
        if isinstance(let.op, Reduce)
        and (let.op.fn, let.op.space.is_weight) == ("sum", True)
        and let.op.x in outers
        and readers[let.op.x] == 1
    }


def outer_sum(x: Tensor, y: Tensor, types: Tensor, count: int) -> Tensor:
    """``sum of outer(x[i], y[i])`` over the rows i of each type.

    Args:
        x: [rows, ..., K]; one row may stand for all.
        y: [rows, ..., D], likewise.
        types: Of each row, int64 [rows].
        count: How many types there are.

    Returns:
        [count, ..., K, D].
    """
    order = torch.argsort(types, stable=True)
    sizes = torch.bincount(types, minlength=count).tolist()
    ordered = (each.expand(len(types), *each.shape[1:])[order] for each in (x, y))
    rows = (torch.split(each, sizes) for each in ordered)
    sums = [torch.einsum("r...k,r...d->...kd", *pair) for pair in zip(*rows, strict=True)]
    return torch.stack(sums) if sums else x.new_zeros(0, *x.shape[1:], y.shape[-1])
