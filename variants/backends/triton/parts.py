"""Parts: rows' edges cut into pieces of about one length, and the programs that take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.variants.backends.places import segment_array
from hetune.variants.backends.triton.arguments import Cut, PartsTable
from hetune.variants.graph.index import GraphIndex

_IndexOf = Callable[[str], GraphIndex]


@dataclass(frozen=True, slots=True)
class RowParts:
    """Parts by level, the longest of each level first; int32.

    A row whose inner rows fit into one part is whole. Those of other rows yield partial rows, which
    parts of the next level add up in order, level by level, until one part has a row's last ones.

    Attributes:
        row: Row that each part belongs to, [Q].
        slot: Where its partial row goes; -1 for the last part of a row, [Q].
        begin: First inner row of each part, for each loop [Q]; partial rows, on levels after the
            first.
        end: Where they end, for each loop [Q].
        classes: Logarithm of the power of two that a part's longest loop fits into, int64 [Q].
        levels: Parts of each level.
    """

    row: Tensor
    slot: Tensor
    begin: tuple[Tensor, ...]
    end: tuple[Tensor, ...]
    classes: Tensor
    levels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartPrograms:
    """Which parts each program takes, all of one level and about one length; int32.

    Attributes:
        first: Its first part, and behind the last program where parts end, [B + 1].
        most: Length of its longest part, for each loop [B].
        starts: First program and number of programs of each level.
    """

    first: Tensor
    most: tuple[Tensor, ...]
    starts: tuple[tuple[int, int], ...]


def parts_of(cut: Cut, index_of: _IndexOf) -> RowParts:
    """The parts of a graph's rows, built once, by torch's operators on the indexes' device.

    Args:
        cut: What is cut, and into pieces of how many inner rows.
        index_of: The index of a group.
    """
    pointers = _pointers(cut, index_of)
    return _owner(cut, index_of).step(f"parts({cut})", lambda: _parts(pointers, cut))


def programs_of(table: PartsTable, index_of: _IndexOf) -> PartPrograms:
    """The programs that take a graph's parts, built once.

    Args:
        table: Which parts, and how many of them a program takes.
        index_of: The index of a group.
    """
    parts = parts_of(table.cut, index_of)
    index = _owner(table.cut, index_of)
    return index.step(f"programs({table})", lambda: _programs(parts, table))


def carried(cut: Cut, index_of: _IndexOf) -> int:
    """How many partial rows there are, of all levels."""
    index = _owner(cut, index_of)
    return index.step(f"carried({cut})", lambda: _carried(_pointers(cut, index_of), cut.most))


def _owner(cut: Cut, index_of: _IndexOf) -> GraphIndex:
    """Where what is built is kept: on a graph, one group of a name goes with those of others."""
    return index_of(cut.loops[0].group)


def _carried(pointers: Sequence[Tensor], most: int) -> int:
    found = 0
    lengths = torch.stack([pointer.long().diff() for pointer in pointers], 1)
    while (lengths := lengths[lengths.sum(1) > most]).numel():
        lengths = ((lengths + most - 1) // most).sum(1, keepdim=True)
        found += int(lengths.sum())
    return found


class _Named:
    """Collects the arrays that are asked for."""

    def __init__(self, index_of: _IndexOf) -> None:
        self._index_of = index_of
        self.found: list[Tensor] = []

    def index(self, group: str, name: str) -> str:
        self.found.append(getattr(self._index_of(group), name))
        return name

    def node_types(self) -> str:
        raise AssertionError("rows are no segments of node types")


def _pointers(cut: Cut, index_of: _IndexOf) -> list[Tensor]:
    """The first inner row of each row, for each loop."""
    named = _Named(index_of)
    for loop in cut.loops:
        segment_array(named, cut.rows, loop)
    return named.found


def _parts(pointers: Sequence[Tensor], cut: Cut) -> RowParts:
    bounds, most = torch.stack([pointer.long() for pointer in pointers], 1), cut.most
    begin, end = bounds[:-1], bounds[1:]
    row = torch.arange(len(begin), device=begin.device)
    if not cut.idle:
        row = (begin < end).any(1).nonzero().flatten()
        begin, end = begin[row], end[row]
    levels: list[tuple[Tensor, ...]] = []
    carries = 0
    while row.numel() or not levels:
        level, row, begin, end = _level(row, begin, end, most, carries)
        carries += int((level[1] >= 0).sum())
        levels.append(_by_length(level, most))
        begin, end = (_padded(bound, len(pointers)) for bound in (begin, end))
    row, slot, begin, end, classes = (torch.cat(column) for column in zip(*levels, strict=True))
    counts = tuple(len(level[0]) for level in levels)
    begins, ends = (tuple(column.int() for column in bound.unbind(1)) for bound in (begin, end))
    return RowParts(row.int(), slot.int(), begins, ends, classes, counts)


def _level(
    row: Tensor, begin: Tensor, end: Tensor, most: int, slot: int
) -> tuple[tuple[Tensor, ...], Tensor, Tensor, Tensor]:
    """Parts of segments: row, slot, begin and end; and the next level's rows, begin and end.

    Args:
        row: Row of each segment, [S].
        begin: Where it begins, by loop, [S, L].
        end: Where it ends.
        most: Of a part.
        slot: The first one that is free.
    """
    loops, device = begin.shape[1], row.device
    length = end - begin
    is_split = length.sum(1) > most
    whole, split = (~is_split).nonzero().flatten(), is_split.nonzero().flatten()
    pieces = (length[split] + most - 1) // most
    each = pieces.flatten()
    owner = torch.repeat_interleave(torch.arange(len(each), device=device), each)
    piece = torch.arange(len(owner), device=device) - (each.cumsum(0) - each)[owner]
    first = begin[split].flatten()[owner] + piece * most
    last = torch.minimum(first + most, end[split].flatten()[owner])
    own = (owner % loops)[:, None] == torch.arange(loops, device=device)
    slots = slot + torch.arange(len(owner), device=device)
    level = (
        torch.cat((row[whole], row[split][owner // loops])),
        torch.cat((torch.full_like(whole, -1), slots)),
        torch.cat((begin[whole], first[:, None] * own)),
        torch.cat((end[whole], last[:, None] * own)),
    )
    count = pieces.sum(1, keepdim=True)
    after = slot + count.cumsum(0)
    return level, row[split], after - count, after


def _by_length(level: tuple[Tensor, ...], most: int) -> tuple[Tensor, ...]:
    """The parts of a level with their classes, the longest first."""
    _, _, begin, end = level
    powers = torch.tensor([1 << i for i in range(most.bit_length())], device=begin.device)
    classes = torch.bucketize((end - begin).amax(1), powers)
    order = torch.argsort(classes, descending=True, stable=True)
    return (*(column[order] for column in level), classes[order])


def _padded(bounds: Tensor, loops: int) -> Tensor:
    """Partial rows are walked in place of the first loop."""
    return torch.nn.functional.pad(bounds, (0, loops - 1))


def _programs(parts: RowParts, table: PartsTable) -> PartPrograms:
    lengths = torch.stack(parts.end) - torch.stack(parts.begin)
    firsts: list[Tensor] = []
    longest: list[Tensor] = []
    starts: list[tuple[int, int]] = []
    start = program = 0
    for level in parts.levels:
        counts = torch.bincount(parts.classes[start : start + level]).tolist()
        begun = program
        for power, count in reversed(tuple(enumerate(counts))):
            size = table.parts_of_length(1 << power)
            number = -(-count // size)
            rows = lengths.new_zeros(len(lengths), number * size)
            rows[:, :count] = lengths[:, start : start + count]
            if number:
                longest.append(rows.view(len(lengths), number, size).amax(2))
            firsts.append(start + size * torch.arange(number, device=lengths.device))
            start, program = start + count, program + number
        starts.append((begun, program - begun))
    firsts.append(torch.full((1,), start, device=lengths.device))
    most = torch.cat([lengths[:, :0], *longest], 1)
    return PartPrograms(torch.cat(firsts).int(), tuple(map(torch.clone, most)), tuple(starts))
