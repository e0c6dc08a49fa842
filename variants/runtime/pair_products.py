"""Distances of rows in products of matrices, and passes over matrices while they are in caches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

_NEAR = 0.02
"""Squared distances below this part of the squared lengths are computed from differences: in
products they would lose digits."""
_IN_CACHE = 1 << 17
"""Numbers that several passes go over."""
_AT_ONCE = 1 << 20
"""Elements of differences that there are at a time."""


def row_blocks(tensors: Iterable[Tensor], shape: Sequence[int]) -> Iterator[slice]:
    """Blocks of rows of matrices [..., B, count] for elementwise passes.

    Args:
        tensors: What is read. Where one needs a gradient, or is not on the CPU, all rows are one
            block, ``slice(None)``.
        shape: Of the matrices.
    """
    whole = any(
        x.device.type != "cpu" or (x.requires_grad and torch.is_grad_enabled()) for x in tensors
    )
    *_, rows, _ = shape
    size = _IN_CACHE * rows // max(torch.Size(shape).numel(), 1)
    if whole or size >= rows:
        yield slice(None)
        return
    step = max(size, 1)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def joined_rows(parts: Iterable[tuple[Tensor, Tensor]], shape: Sequence[int]) -> Tensor:
    """A matrix whose rows are computed some at a time.

    Without gradients each part goes to its place at once: parts that are kept would lie between
    what is let go, and the heap would grow.

    Args:
        parts: Numbers of rows, int64, and these rows. Each number is there once in all.
        shape: Of the matrix.
    """
    kept: list[tuple[Tensor, Tensor]] = []
    out: Tensor | None = None
    for numbers, rows in parts:
        if rows.requires_grad:
            kept.append((numbers, rows))
            continue
        out = rows.new_empty(shape) if out is None else out
        out[numbers] = rows
    if out is not None:
        return out
    order, joined = (torch.cat(tensors) for tensors in zip(*kept, strict=True))
    return joined if (order.diff() > 0).all() else joined[order.argsort()]


def squared_distances(rows: Tensor, keys: Tensor) -> Tensor:
    """Squared Euclidean distances [..., B, count] of [..., B, width] and [..., count, width].

    ``|a|^2 - 2 a.b + |b|^2``, but for near rows, where that has a large relative error, and for
    rows whose squares are infinite or no numbers, where their distance need not be.
    """
    of_rows, of_keys = rows.square().sum(-1).unsqueeze(-1), keys.square().sum(-1).unsqueeze(-2)
    add_product = torch.addmm if rows.dim() == 2 else torch.baddbmm
    found = add_product(of_keys, rows, keys.mT, alpha=-2)
    for block in row_blocks((rows, keys), found.shape) if found.numel() else ():
        part, own = found[..., block, :], of_rows[..., block, :]
        part += own
        least = (part.detach() - of_keys.detach() * _NEAR).amin(-1, keepdim=True)
        if (least - own * _NEAR >= 0).all():  # which no infinity minus another is
            continue
        near = (part - (own + of_keys) * _NEAR >= 0).logical_not_().nonzero()
        for at in torch.split(near, max(1, _AT_ONCE // rows.shape[-1])):
            *chunk, row, key = at.unbind(-1)
            difference = rows[..., block, :][(*chunk, row)] - keys[(*chunk, key)]
            part[(*chunk, row, key)] = difference.square().sum(-1)
    return found


def root(squares: Tensor) -> Tensor:
    """The square root, whose gradient at 0 is 0, as that of a norm."""
    is_positive = squares > 0
    return torch.where(is_positive, squares, 1.0).sqrt() * is_positive
