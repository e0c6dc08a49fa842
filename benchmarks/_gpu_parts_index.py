"""Equal parts of edges: every node's edges cut into parts, and programs that take several each.

The index of the schedule that is tried in `gpu_parts.py`, made by torch's operators where the
edges are. A part has at most so many edges. A node whose edges fit into one is stored by who walks
that part. Others' parts are partial rows, which parts of the next level add up in order.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

SHORT = (1, 2, 4)
"""Lengths of parts whose programs take more of them, where programs go by length."""


@dataclass(frozen=True)
class Segments:
    """Rows of which sums are taken, each of consecutive terms.

    Attributes:
        begin: First term of each, int32 [S].
        length: How many terms, int32 [S].
        row: Row of the result that the sum belongs to, int32 [S].
    """

    begin: Tensor
    length: Tensor
    row: Tensor


@dataclass(frozen=True)
class Parts:
    """Parts of segments, the longest first; int32 [Q] each.

    Attributes:
        begin: First term.
        length: Terms, 0 where the segment has none.
        row: Row of the result.
        slot: Where a part's partial row goes; -1 where the part is its whole segment.
        carries: How many partial rows there are.
        split: The segments that have several parts, of partial rows: the next level.
        classes: Logarithm of the power of two that each length fits into.
        most: No part is longer.
    """

    begin: Tensor
    length: Tensor
    row: Tensor
    slot: Tensor
    carries: int
    split: Segments
    classes: Tensor
    most: int


@dataclass(frozen=True)
class Programs:
    """Which parts each program takes, all of about one length.

    Attributes:
        first: First part of each program, and the end of the last one, int32 [B + 1].
        most: Length of its longest part, int32 [B].
    """

    first: Tensor
    most: Tensor

    @property
    def count(self) -> int:
        """B."""
        return self.most.numel()


def segments_of(pointers: Tensor) -> Segments:
    """A segment for each row of a CSR, int32 [N + 1]."""
    rows = torch.arange(pointers.numel() - 1, dtype=torch.int32, device=pointers.device)
    return Segments(pointers[:-1], pointers.diff(), rows)


def cut(segments: Segments, most: int) -> Parts:
    """Parts of at most so many terms, a power of two."""
    length = segments.length.long()
    pieces = ((length + most - 1) // most).clamp(min=1)
    owner = torch.repeat_interleave(torch.arange(len(pieces), device=length.device), pieces)
    start = pieces.cumsum(0) - pieces
    place = (torch.arange(len(owner), device=length.device) - start[owner]) * most
    begin, lengths = segments.begin[owner] + place, (length[owner] - place).clamp(max=most)
    several = pieces > 1
    is_part = several[owner]
    carried = is_part.cumsum(0)
    slot = torch.where(is_part, carried - 1, -1)
    split = Segments(
        (pieces * several).cumsum(0)[several].int() - pieces[several].int(),
        pieces[several].int(),
        segments.row[several],
    )
    bounds = torch.tensor([1 << i for i in range(most.bit_length())], device=length.device)
    classes = torch.bucketize(lengths, bounds)
    order = torch.argsort(classes, descending=True, stable=True)
    begin, lengths, row = begin[order], lengths[order], segments.row[owner][order]
    carries = int(carried[-1]) if len(carried) else 0
    columns = (column.int() for column in (begin, lengths, row, slot[order]))
    return Parts(*columns, carries, split, classes[order], most)


def programs(parts: Parts, each: int, elements: int = 0) -> Programs:
    """Parts shared out among programs.

    Args:
        parts: The parts.
        each: How many a program takes.
        elements: How many a program takes of parts of one term; of those of two and of four as
            many as have that many terms together. 0: as many as of others.
    """
    counts = torch.bincount(parts.classes, minlength=parts.most.bit_length()).tolist()
    firsts, longest, start = [], [], 0
    for level in reversed(range(len(counts))):
        count, size = counts[level], each
        if elements and 1 << level in SHORT:
            size = elements >> level
        number = -(-count // size)
        lengths = parts.length.new_zeros(number * size)
        lengths[:count] = parts.length[start : start + count]
        if number:
            longest.append(lengths.view(number, size).amax(1))
        steps = torch.arange(number, dtype=torch.int32, device=lengths.device)
        firsts.append(start + size * steps)
        start += count
    end = parts.length.new_full((1,), start)
    return Programs(torch.cat([*firsts, end]).int(), torch.cat([end[:0], *longest]).int())


def levels_of(pointers: Tensor, most: int, next_most: int = 128) -> list[Parts]:
    """Parts of edges, and of partial rows as long as there are any.

    Args:
        pointers: Of a CSR by destination, int32 [N + 1].
        most: Edges of a part.
        next_most: Partial rows of a part.
    """
    levels = [cut(segments_of(pointers), most)]
    while levels[-1].carries:
        levels.append(cut(levels[-1].split, next_most))
    return levels
