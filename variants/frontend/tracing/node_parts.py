"""Some of the nodes' rows, worked on apart and written into a new tensor: weights by node type.

``out[i] = layers[i](x[i])`` for each i of some indices that have every node once is one value of
all nodes, whose weights have a row for each type of nodes: which of the indices a node is in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.alignment import row_shape, rows_of
from hetune.variants.frontend.tracing.edge_parts import EdgeParts
from hetune.variants.frontend.tracing.merged_parts import MergedParts
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.row_sets import RowPart
from hetune.variants.frontend.tracing.symbols import RowValue, Symbol, replaced
from hetune.variants.program.nodes import Space


@dataclass(frozen=True, slots=True)
class _Write:
    """Rows that were written.

    Attributes:
        positions: Where each of them is now, int64.
        name: Of their value.
    """

    positions: Tensor
    name: str


class _Written:
    """A tensor of the tape's that rows were written into.

    Attributes:
        into: The tensor.
        axis: Its axis of rows.
        writes: In order.
        found: What it became, once it was read.
    """

    def __init__(self, into: Tensor, axis: int) -> None:
        self.into, self.axis = into, axis
        self.writes: list[_Write] = []
        self.found: Tensor | None = None


class NodeParts:
    """What is known of parts of the nodes; to be used while the recorder's tape is active.

    Args:
        recorder: The program so far.
        symbol: Makes a tensor of a value that has rows on an axis, and of another tensor's shape.

    Attributes:
        edges: What is known of parts of the edges.
    """

    def __init__(
        self, recorder: ProgramRecorder, symbol: Callable[[RowValue, Tensor], Tensor]
    ) -> None:
        self._recorder, self._symbol = recorder, symbol
        self.edges = EdgeParts(recorder, self.positions)
        self._written: dict[int, _Written] = {}
        self._taken: dict[tuple[object, ...], RowPart] = {}  # ids stay theirs: the tape keeps them
        self._masks: dict[int, Tensor] = {}

    def taken(self, name: str, index: Tensor | slice) -> str:
        """Some rows of a value, or all of them in another order.

        Args:
            name: Of the value, of nodes.
            index: Numbers of rows, int64, or tensors from where to where they go.
        """
        recorder = self._recorder
        if recorder.node_counts:
            raise NotTraceable("some rows of a type of nodes are taken: take all")
        bounds = (index.start, index.stop) if isinstance(index, slice) else (index,)
        key = recorder.types[name].group, *map(id, bounds)
        if key not in self._taken:
            device = next(bound.device for bound in bounds if isinstance(bound, Tensor))
            self._taken[key] = self._part(self._nodes_of(name, device)[index])
        return recorder.part_of(name, self._taken[key])

    def write(self, func: str, into: Tensor, *args: Any) -> Tensor:
        """What a function gives that writes rows of nodes into a tensor that has no symbols.

        Args:
            func: Its name.
            into: The tensor, which follows from the graph alone.
            args: All others.
        """
        dim, index, value = args if func == "index_copy_" else (0, *args)
        found = rows_of(value)
        if func == "__setitem__" and self._recorder.types[found.name].space is Space.EDGE:
            return self._write_edges(into, index, found)
        index = self.positions(index)
        if index is None or self._recorder.types[found.name].space is not Space.NODE:
            raise NotTraceable(f"{func} writes something else than rows of nodes where a mask says")
        if dim % into.dim() != found.axis or into.dim() != value.dim():
            raise NotTraceable(f"{func} writes rows on another axis than theirs")
        if row_shape(tuple(into.shape), found.axis) != row_shape(tuple(value.shape), found.axis):
            raise NotTraceable(f"{func} writes rows of another shape")
        rows = torch.arange(self._recorder.tape.extent(into, found.axis), device=into.device)
        return self._write(into, found.axis, _Write(rows[index], found.name))

    def _write(self, into: Tensor, axis: int, write: _Write) -> Tensor:
        written = self._written.setdefault(id(into), _Written(into, axis))
        if written.axis != axis:
            raise NotTraceable("rows are written on two axes")
        written.writes.append(write)
        written.found, self._recorder.tape.written = None, self.read
        return into

    def _write_edges(self, into: Tensor, index: Any, rows: RowValue) -> Tensor:
        if rows.axis or not isinstance(index, Tensor):
            raise NotTraceable("rows of edges are written elsewhere than on a first axis")
        part = self._recorder.parts.get(self._recorder.types[rows.name].group)
        if part is not None and (positions := self.positions(index)) is part.index:
            return self._write(into, 0, _Write(positions, rows.name))
        if id(into) in self._written:
            raise NotTraceable("rows of edges are written twice: write those of each part")
        written = self._written[id(into)] = _Written(into, 0)
        name = self.edges.written(into, index, rows.name)
        written.found = self._symbol(RowValue(name, 0), into)
        self._recorder.tape.written = self.read
        return into

    def became(self, into: Tensor, found: Tensor) -> Tensor:
        """What a tensor is from now on, into which a function of symbols has written."""
        written = self._written.setdefault(id(into), _Written(into, 0))
        written.found, self._recorder.tape.written = found, self.read
        return found

    def positions(self, index: Any) -> Tensor | slice | None:
        """The rows of nodes that an index takes, none twice; None where it may be another one."""
        tape = self._recorder.tape
        match index:
            case slice(start=start, stop=stop, step=None | 1):
                return index if isinstance(start, Tensor) or isinstance(stop, Tensor) else None
            case Tensor() if isinstance(index, Symbol) or index.dim() != 1:
                return None
            case Tensor(dtype=torch.bool):
                if id(index) not in self._masks:
                    self._masks[id(index)] = index.nonzero().view(-1)
                return self._masks[id(index)]
            case Tensor() if tape.has_positions(index):
                return index
        return None

    def result(self, value: Any) -> Any:
        """What a forward returned, with tensors as what was written into them."""
        if not self._written:
            return value
        if isinstance(value, dict):
            return {name: self.result(part) for name, part in value.items()}
        return replaced(value, self.read)

    def read(self, tensor: Tensor) -> Tensor:
        """What a tensor became if rows were written into it, else itself.

        Raises:
            NotTraceable: Some of its rows were not written, or not of one node each.
        """
        written = self._written.get(id(tensor))
        return tensor if written is None else self._found(written)

    def assemble_complete(self) -> None:
        """Puts together what has all its rows, which says what types nodes have."""
        for written in self._written.values():
            count = sum(len(write.positions) for write in written.writes)
            if count == written.into.shape[written.axis]:
                self._found(written)

    def _found(self, written: _Written) -> Tensor:
        if written.found is None:
            value = RowValue(self._assembled(written), written.axis)
            written.found = self._symbol(value, written.into)
        return written.found

    def _nodes_of(self, name: str, device: torch.device) -> Tensor:
        """The node that each row of a value is of."""
        recorder = self._recorder
        part = recorder.parts.get(recorder.types[name].group)
        if part is not None:
            return part.index
        return torch.arange(recorder.counts[Space.NODE], device=device)

    def _part(self, index: Tensor) -> RowPart:
        recorder = self._recorder
        known = (part for part in recorder.parts.values() if recorder.is_equal(part.index, index))
        return next(known, None) or recorder.new_part(index)

    def _assembled(self, written: _Written) -> str:
        recorder, writes = self._recorder, written.writes
        device, space = written.into.device, recorder.types[writes[0].name].space
        nodes = [self._nodes_of(write.name, device) for write in writes]
        where = [write.positions for write in writes]
        if [*map(len, nodes)] != [*map(len, where)]:
            raise NotTraceable("rows are written in place of more or fewer")
        position, node = torch.cat(where), torch.cat(nodes)
        everywhere = torch.arange(recorder.tape.extent(written.into, written.axis), device=device)
        everyone = everywhere
        if space is Space.NODE:
            everyone = torch.arange(recorder.counts[space], device=device)
        for rows, all_rows in ((position, everywhere), (node, everyone)):
            if not torch.equal(rows.sort()[0], all_rows):
                raise NotTraceable(
                    f"rows are written into a tensor: write those of each {space} once"
                )
        kind = torch.cat([torch.full_like(rows, i) for i, rows in enumerate(where)])
        types = torch.empty_like(node).index_copy(0, node, kind)
        merged = MergedParts(recorder, space, node, types)
        found = merged.value(tuple(write.name for write in writes))
        index = torch.empty_like(position).index_copy(0, position, node)
        if recorder.is_equal(index, everyone):
            return found
        return recorder.part_of(found, self._part(index))
