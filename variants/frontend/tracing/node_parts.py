"""Some of the nodes' rows, worked on apart and written into a new tensor: weights by node type.

``out[i] = layers[i](x[i])`` for each i of some indices that have every node once is one value of
all nodes, whose weights have a row for each type of nodes: which of the indices a node is in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.alignment import row_shape, rows_of
from hetune.variants.frontend.tracing.edge_parts import ROW_WISE, EdgeParts
from hetune.variants.frontend.tracing.expressions import called
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.row_sets import RowPart
from hetune.variants.frontend.tracing.symbols import RowValue, Symbol, replaced
from hetune.variants.program.nodes import Space, Type, operands, with_operands, without_operands


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
        self._recorder, self._symbol, self.edges = recorder, symbol, EdgeParts(recorder)
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
        written = self._written.setdefault(id(into), _Written(into, found.axis))
        if written.axis != found.axis:
            raise NotTraceable("rows are written on two axes")
        everywhere = torch.arange(self._rows(written), device=into.device)
        written.writes.append(_Write(everywhere[index], found.name))
        written.found, self._recorder.tape.written = None, self.read
        return into

    def _write_edges(self, into: Tensor, index: Any, rows: RowValue) -> Tensor:
        if rows.axis or not isinstance(index, Tensor) or id(into) in self._written:
            raise NotTraceable("rows of edges are written elsewhere than once on a first axis")
        written = self._written[id(into)] = _Written(into, 0)
        name = self.edges.written(into, index, rows.name)
        written.found = self._symbol(RowValue(name, 0), into)
        self._recorder.tape.written = self.read
        return into

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

    def _rows(self, written: _Written) -> int:
        return self._recorder.tape.extent(written.into, written.axis)

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
        device = written.into.device
        nodes = [self._nodes_of(write.name, device) for write in writes]
        where = [write.positions for write in writes]
        if [*map(len, nodes)] != [*map(len, where)]:
            raise NotTraceable("rows are written in place of more or fewer")
        position, node = torch.cat(where), torch.cat(nodes)
        everywhere = torch.arange(self._rows(written), device=device)
        everyone = torch.arange(recorder.counts[Space.NODE], device=device)
        for rows, all_rows in ((position, everywhere), (node, everyone)):
            if not torch.equal(rows.sort()[0], all_rows):
                raise NotTraceable("rows are written into a tensor: write those of every node once")
        kind = torch.cat([torch.full_like(rows, i) for i, rows in enumerate(where)])
        types = torch.empty_like(node).index_copy(0, node, kind)
        found = _Merging(recorder, node, types).value(tuple(write.name for write in writes))
        index = torch.empty_like(position).index_copy(0, position, node)
        if recorder.is_equal(index, everyone):
            return found
        return recorder.part_of(found, self._part(index))


class _Merging:
    """Values of parts of the nodes as one of all nodes.

    Args:
        recorder: Has them.
        nodes: The nodes of all parts, one part after the other.
        types: Which part each node is in.
    """

    def __init__(self, recorder: ProgramRecorder, nodes: Tensor, types: Tensor) -> None:
        self._recorder, self._nodes, self._types = recorder, nodes, types
        self._found: dict[tuple[str, ...], str] = {}

    def value(self, names: tuple[str, ...]) -> str:
        """The value of all nodes that has the rows of one for each part."""
        if names not in self._found:
            self._found[names] = self._value(names)
        return self._found[names]

    def _value(self, names: tuple[str, ...]) -> str:
        recorder = self._recorder
        kinds = [recorder.types[name] for name in names]
        if len({*names}) == 1 and kinds[0].group not in recorder.parts:
            return names[0]
        if all(name in recorder.weights for name in names):
            return self._weight(names)
        if all(name in recorder.constants for name in names) and all(
            kind.group in recorder.parts for kind in kinds
        ):
            rows = torch.cat([recorder.constants[name] for name in names])
            whole = torch.empty_like(rows).index_copy(0, self._nodes, rows)
            return recorder.constant(whole, Space.NODE)
        wholes = [whole for whole in map(recorder.whole_of, names) if whole is not None]
        if len(wholes) == len(names):
            return self.value(tuple(wholes))
        ops = [recorder.op_of(name) for name in names]
        known = [op for op in ops if isinstance(op, ROW_WISE)]
        if len(known) < len(ops) or len({without_operands(op) for op in known}) > 1:
            raise NotTraceable("parts of the nodes are not all treated alike")
        columns = zip(*map(operands, known), strict=True)
        merged = tuple(self.value(column) for column in columns)
        hint = re.sub(r"_\d+$", "", names[0].removeprefix("part_"))
        return recorder.emit(with_operands(known[0], merged), hint)

    def _weight(self, names: Sequence[str]) -> str:
        recorder = self._recorder
        shapes = {recorder.types[name].shape for name in names}
        if len(shapes) > 1:
            raise NotTraceable("parts of the nodes have weights of different shapes")
        recorder.set_types(Space.NODE, self._types, len(names))
        whole = called(torch.stack, ([recorder.weights[name] for name in names],), {})
        return recorder.new_weight(whole, Type(Space.NTYPE, shapes.pop()))
