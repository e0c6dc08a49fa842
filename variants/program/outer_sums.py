"""Sums of outer products by type, as the interpreter has them: without a matrix for each row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

import torch
from torch import Tensor

from hetune.variants.program.nodes import Let, Map, Program, Reduce, operands


def outer_products(program: Program, wanted: Set[str]) -> dict[str, Let]:
    """By sums over types: the outer products that nothing else reads.

    Args:
        program: Any.
        wanted: Values that are read by others than the program.
    """
    products = {
        let.name: let for let in program.lets if isinstance(let.op, Map) and let.op.fn == "outer"
    }
    readers = Counter(name for let in program.lets for name in set(operands(let.op)))
    found = {}
    for let in program.lets:
        if isinstance(let.op, Reduce) and let.op.fn == "sum" and let.type.space.is_weight:
            product = products.get(let.op.x)
            if product and readers[product.name] == 1 and product.name not in wanted:
                found[let.name] = product
    return found


def sum_of_outer(x: Tensor, y: Tensor, index: Tensor, count: int) -> Tensor:
    """The sums of rows' outer products, [count, *heads, K, D].

    Args:
        x: [n, *heads, K], or one row for all.
        y: [n, *heads, D], likewise.
        index: Which sum each row adds to, int64 [n].
        count: How many sums there are.
    """
    order = torch.argsort(index, stable=True)
    counts = torch.bincount(index, minlength=count).tolist()
    parts = (
        torch.split(rows.expand(len(index), *rows.shape[1:])[order], counts) for rows in (x, y)
    )
    sums = [torch.einsum("n...k,n...d->...kd", *pair) for pair in zip(*parts, strict=True)]
    return torch.stack(sums) if sums else x.new_zeros(0, *x.shape[1:], y.shape[-1])
