"""Rows of some of the edges, put together with those of loops: edges get others in their place.

``cat([w[mask], loops])`` is what rows of edges are at an index, where ``w`` follows from constants
and parameters row by row: constants are indexed in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.row_sets import RowPart
from hetune.variants.program.nodes import (
    Concat,
    Dot,
    Fold,
    Linear,
    Map,
    Reshape,
    Slice,
    Space,
    operands,
    with_operands,
)

ROW_WISE = Map | Linear | Dot | Reshape | Fold | Concat | Slice


class EdgeParts:
    """Parts of the edges' rows; to be used while the recorder's tape is active.

    Args:
        recorder: The program so far.
    """

    def __init__(self, recorder: ProgramRecorder) -> None:
        self._recorder = recorder
        self._others: dict[str, Tensor] = {}

    def taken(self, name: str, index: Tensor) -> str:
        """Some rows of a value of edges.

        Args:
            name: Of the value.
            index: Their numbers, int64.
        """
        if self._recorder.types[name].group in self._recorder.parts:
            raise NotTraceable("some rows of some of the edges are taken: take them at once")
        return self._recorder.part_of(name, self._recorder.new_part(index))

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
