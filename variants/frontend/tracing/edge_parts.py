"""Rows of some of the edges: put together with those of loops, or reduced to nodes and read back.

``cat([w[mask], loops])`` is what rows of edges are at an index, where ``w`` follows from constants
and parameters row by row: constants are indexed in its place. ``scatter(s[mask], dst[mask])`` has
rows for the nodes that edges of a part lead to, which only these edges read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder, is_view
from hetune.variants.frontend.tracing.row_sets import RowPart
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Concat,
    Dot,
    End,
    Fold,
    Linear,
    Map,
    Reduce,
    Reshape,
    Slice,
    Space,
    Take,
    operands,
    with_operands,
)

ROW_WISE = Map | Linear | Dot | Reshape | Fold | Concat | Slice


class EdgeParts:
    """Parts of the edges' rows; to be used while the recorder's tape is active.

    Args:
        recorder: The program so far.
        positions: The numbers of the rows that an index takes: see `NodeParts`.
    """

    def __init__(self, recorder: ProgramRecorder, positions: Callable[[Tensor], Any]) -> None:
        self._recorder, self._positions = recorder, positions
        self._others: dict[str, Tensor] = {}
        self._taken: dict[int, RowPart] = {}  # ids stay theirs: the tape keeps them
        self._nodes: dict[str, tuple[RowPart, End]] = {}

    def taken(self, name: str, index: Tensor) -> str:
        """Some rows of a value of edges.

        Args:
            name: Of the value.
            index: Their numbers, int64.
        """
        if self._recorder.types[name].group in self._recorder.parts:
            raise NotTraceable("some rows of some of the edges are taken: take them at once")
        if id(index) not in self._taken:
            self._taken[id(index)] = self._recorder.new_part(index)
        return self._recorder.part_of(name, self._taken[id(index)])

    def reduced(self, name: str, into: Tensor, index: Tensor, fn: str) -> str:
        """Rows of a part, brought together at an end of its edges.

        Args:
            name: Of the value.
            into: New rows, as many as there may be.
            index: The node of each edge at the end.
            fn: Which function of rows brings them together.
        """
        recorder, part = self._recorder, self._recorder.parts[self._recorder.types[name].group]
        end = self._end(part, index)
        if recorder.nodes_at(part.group, end) is None:
            ids = torch.arange(recorder.tape.extent(into, 0), device=into.device)
            nodes = recorder.new_part(ids)
            recorder.lead(part, end, nodes)
            self._nodes[nodes.group] = part, end
        return recorder.emit(Reduce(name, Space.NODE, fn, end), fn)

    def read_back(self, name: str, index: Tensor) -> str | None:
        """Rows that edges of a part were reduced to, at these edges; None of others.

        Args:
            name: Of the value of nodes.
            index: The node of each edge.
        """
        part, end = self._nodes.get(self._recorder.types[name].group, (None, End.NONE))
        if part is None:
            return None
        if self._end(part, index) is not end:
            raise NotTraceable("what edges of a part were reduced to is read at the other end")
        return self._recorder.emit(Take(name, Space.EDGE, end, part.group), "take")

    def _end(self, part: RowPart, index: Tensor) -> End:
        """Which end of its edges an index is, as far as is known."""
        picked = (
            of
            for own, of, mask in self._recorder.tape.picked
            if is_view(own, index) and self._positions(mask) is part.index
        )
        if (whole := next(picked, None)) is None:
            raise NotTraceable("edges of a part are read by another index than an end of them")
        end, group = self._recorder.end_of(whole)
        if group != ALL_EDGES:
            raise NotTraceable("edges of a part of one of several sets are reduced: reduce all")
        return end

    def written(self, into: Tensor, index: Tensor, name: str) -> str:
        """The rows of a tensor, some of which become those of a part.

        Args:
            into: The tensor, which follows from the graph alone.
            index: Where each row of the part is written.
            name: Of the part.
        """
        recorder = self._recorder
        whole, part = self._of(name)
        count = recorder.count_of(recorder.types[whole])
        none = torch.full((recorder.tape.extent(into, 0),), count, device=into.device)
        made = recorder.new_part(none.index_put((index,), part.index))
        self._others[made.group] = into.reshape(-1, *recorder.types[name].shape)
        return recorder.part_of(whole, made)

    def joined(self, names: Sequence[str]) -> str:
        """Parts of one value, one after the other: its rows of all edges from now on.

        Args:
            names: Of the parts.
        """
        recorder = self._recorder
        found = [self._of(name) for name in names]
        whole, parts = found[0][0], [part for _, part in found]
        if any(other != whole for other, _ in found):
            raise NotTraceable("rows of different values of edges are put one after the other")
        shape, count = recorder.types[whole].shape, recorder.count_of(recorder.types[whole])
        index = torch.cat([part.index for part in parts])
        others = torch.cat(
            [
                self._others.get(part.group, torch.zeros((part.count, *shape), device=index.device))
                for part in parts
            ]
        )
        is_there = (index < count).to(others.dtype)
        is_other = (index == count).to(others.dtype).view(-1, *[1] * len(shape))
        recorder.restart_edges(index)
        rows = self._at(whole, index.remainder(count))
        kept = recorder.emit(Map("mul", (rows, recorder.constant(is_there, Space.EDGE))), "kept")
        added = recorder.constant(others * is_other, Space.EDGE)
        return recorder.emit(Map("add", (kept, added)), "with_loops")

    def _of(self, name: str) -> tuple[str, RowPart]:
        recorder = self._recorder
        whole, part = recorder.whole_of(name), recorder.parts.get(recorder.types[name].group)
        if whole is None or part is None or recorder.types[name].space is not Space.EDGE:
            raise NotTraceable("rows of nodes or edges are put one after the other")
        return whole, part

    def _at(self, name: str, index: Tensor) -> str:
        """Rows of a value at an index, computed of those of its constants."""
        recorder, op = self._recorder, self._recorder.op_of(name)
        if name in recorder.weights:
            return name
        if name in recorder.constants:
            return recorder.constant(recorder.constants[name][index], Space.EDGE)
        if not isinstance(op, ROW_WISE):
            raise NotTraceable("rows of edges that follow from features are indexed: do it first")
        return recorder.emit(
            with_operands(op, tuple(self._at(each, index) for each in operands(op))), name
        )
