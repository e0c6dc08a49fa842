"""The program so far while a layer's forward runs on symbols."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from hetune.variants.errors import ProgramError
from hetune.variants.frontend.tracing.counts import TracedSize, same_size
from hetune.variants.frontend.tracing.dropout import MaskNumbers, TracedMask
from hetune.variants.frontend.tracing.expressions import Expression, called
from hetune.variants.frontend.tracing.not_traceable import (
    NotTraceable,
    located,
)
from hetune.variants.frontend.tracing.row_sets import EdgeSet, RowPart, RowTypes
from hetune.variants.frontend.tracing.tape import Tape
from hetune.variants.program.infer import infer
from hetune.variants.program.nodes import (
    ALL_EDGES,
    End,
    Let,
    Op,
    Reduce,
    Reshape,
    Space,
    Take,
    Type,
    operands,
    with_operands,
)
from hetune.variants.program.text import show_op


class ProgramRecorder:
    """Values of a program, what they are made of, and the edges that they belong to.

    Attributes:
        tape: What is computed of the graph alone.
        counts: Rows of nodes, and of edges as soon as some are met.
        types: Of all values by name.
        lets: The values, in order, none twice.
        features: Names of the features.
        masks: What each mask of dropout is, by name.
        weights: What each weight is, by name.
        constants: What follows from the graph alone, rows first.
        sets: The edges, as many sets as are met.
        source_ends: Ends at which edges read sources, where these are other nodes.
        pair_ends: Ends at which edges of a part are reduced: to pairs, which are of destinations.
        kinds: The type of each edge, and of each node, where weights have a row for each type.
        node_counts: Rows of nodes of each type, where types have rows of their own.
        dictionaries: The features of each type's nodes by type, for each dictionary of features.
        keeps_apart: Whether rows that are stacked are several edge types' results.
        parts: Some rows of nodes or edges, by group.
    """

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.node_counts: dict[str, int] = {}
        self.dictionaries: dict[str, dict[str, str]] = {}
        self.keeps_apart = False
        self.parts: dict[str, RowPart] = {}
        self._ends: dict[tuple[str, End], str] = {}
        self.counts: dict[Space, int] = {Space.NODE: tape.rows[0]}
        self.types: dict[str, Type] = {}
        self.lets: list[Let] = []
        self.features: list[str] = []
        self.masks: dict[str, TracedMask] = {}
        self._mask_numbers = MaskNumbers()
        self.weights: dict[str, Expression] = {}
        self.constants: dict[str, Tensor] = {}
        self.sets: list[EdgeSet] = []
        self.source_ends: set[End] = set()
        self.pair_ends: set[End] = set()
        self.kinds: dict[Space, RowTypes] = {}
        self._made: dict[Op, str] = {}
        self._ops: dict[str, Op] = {}
        self._parts_of: dict[tuple[str, str], str] = {}
        self._wholes: dict[str, str] = {}
        self._weight_names: dict[str, str] = {}

    def feature(self, name: str, type_: Type) -> str:
        """A new feature."""
        name = self._new_name(name)
        self.types[name] = type_
        self.features.append(name)
        return name

    def mask(self, of: str, shape: tuple[int, ...], axis: int, share: float) -> str:
        """A new mask of dropout.

        Args:
            of: The value that it is for.
            shape: The value's as a tensor.
            axis: That of its rows.
            share: Of elements that are dropped.
        """
        type_ = self.types[of]
        if type_.space not in (Space.NODE, Space.EDGE):
            raise NotTraceable("dropout of rows of neither nodes nor edges in training mode")
        name = self._new_name("mask")
        self.types[name] = type_
        self.masks[name] = self._mask_numbers.next(shape, axis, share)
        return name

    def weight(self, expression: Expression, shape: tuple[int, ...]) -> str:
        """The shared weight of this value."""
        if any(extent < 1 for extent in shape):
            raise NotTraceable(f"a weight of shape {list(shape)} has no elements")
        found = self._weight_names.get(expression.key)
        if found is None:
            found = self._new_name(expression.hint)
            self._weight_names[expression.key] = found
            self.types[found] = Type(Space.SHARED, shape)
            self.weights[found] = expression
        return found

    def by_type(self, weight: Expression, shape: tuple[int, ...], index: Tensor) -> str:
        """For each edge, or node, the row of a weight that its type chooses.

        Args:
            weight: With a row for each type.
            shape: The weight's.
            index: The type of each edge or node.
        """
        spaces = [space for space in _TYPES if self.counts.get(space) == len(index)]
        if len(spaces) != 1:
            raise NotTraceable(f"a parameter is indexed by {len(index)} numbers: index it by types")
        (space,) = spaces
        part = self._part_in_order(index, shape[0]) if space is Space.NODE else None
        if part is None:
            self.set_types(space, index, shape[0])
        row = tuple(extent for extent in shape[1:] if extent != 1)
        rows = called(torch.Tensor.reshape, (weight, (shape[0], *row)), {})
        name = self.emit(Take(self.new_weight(rows, Type(_TYPES[space], row)), space), "by_type")
        return name if part is None else self.part_of(name, part)

    def _part_in_order(self, index: Tensor, count: int) -> RowPart | None:
        """The order of the nodes that types are in; None for that of the nodes themselves."""
        kinds = self.kinds.get(Space.NODE)
        if kinds is None or kinds.count != count or self.is_equal(kinds.index, index):
            return None
        whole = (part for part in self.parts.values() if len(part.index) == len(index))
        of_parts = ((part, kinds.index.index_select(0, part.index)) for part in whole)
        return next((part for part, own in of_parts if self.is_equal(own, index)), None)

    def set_types(self, space: Space, index: Tensor, count: int) -> None:
        """Says what types edges or nodes have; all that are met are the same.

        Args:
            space: Edges or nodes.
            index: The type of each.
            count: How many types there are.
        """
        kinds = self.kinds.get(space)
        if kinds is None or not kinds.count:
            kinds = self.kinds[space] = RowTypes(index, count)
        is_known = is_view(kinds.index, index) or self.is_equal(kinds.index, index)
        if kinds.count != count or not is_known:
            raise NotTraceable(f"{space}s have types of two kinds: one compiles")

    def new_part(self, index: Tensor) -> RowPart:
        """Some rows of nodes or edges, or all in another order, by their numbers."""
        count = self.tape.extent(index, 0)
        if isinstance(count, TracedSize):
            self.tape.rows.append(count)
        found = RowPart(f"part{len(self.parts)}", index, count)
        self.parts[found.group] = found
        return found

    def part_of(self, x: str, part: RowPart) -> str:
        """The rows of a value that a part has."""
        key = x, part.group
        if key not in self._parts_of:
            name = self._parts_of[key] = self._new_name(f"{x}_{part.group}")
            self.types[name] = replace(self.types[x], group=part.group)
            self._wholes[name] = x
        return self._parts_of[key]

    def new_weight(self, expression: Expression, type_: Type) -> str:
        """The weight of this value and type."""
        key = f"{type_.space} {expression.key}"
        if key not in self._weight_names:
            name = self._weight_names[key] = self._new_name(expression.hint)
            self.types[name], self.weights[name] = type_, expression
        return self._weight_names[key]

    def constant(self, tensor: Tensor, space: Space, group: str = ALL_EDGES) -> str:
        """Rows that follow from the graph alone.

        Args:
            tensor: ``[rows, *row shape]``.
            space: What there is a row for.
            group: Which edges, of edges.
        """
        type_ = Type(space, tuple(tensor.shape[1:]), group)
        for name, known in self.constants.items():
            if self.types[name] == type_ and _is_same(known, tensor):
                return name
        name = self._new_name(f"{space}_constant")
        self.types[name] = type_
        self.constants[name] = tensor
        return name

    def emit(self, op: Op, hint: str) -> str:
        """The name of an operator's value."""
        if isinstance(op, Reshape):
            if self.types[op.x].shape == op.shape:
                return op.x
            source = self.op_of(op.x)
            if isinstance(source, Reshape):
                return self.emit(Reshape(source.x, op.shape), hint)
        if op not in self._made:
            try:
                type_ = infer(op, self.types)
            except ProgramError as error:
                raise NotTraceable(f"{show_op(op)}: {error}") from None
            if isinstance(op, Reduce) and op.space is Space.NODE:
                group = self.nodes_at(self.types[op.x].group, op.end)
                type_ = replace(type_, group=group or ALL_EDGES)
            name = self._new_name(f"part_{hint}" if type_.group in self.parts else hint)
            self.types[name] = type_
            self.lets.append(Let(name, type_, op))
            self._made[op], self._ops[name] = name, op
        return self._made[op]

    def forget(self) -> None:
        """Equal values are made anew from now on, for they may be of other edges."""
        self._made.clear()

    def end_of(self, index: Tensor) -> tuple[End, str]:
        """Which end of which edges an index of nodes is; sources are met first, or swapped later.

        Edges of other calls of one layer, such as those of a relation, are sets of their own.
        """
        for is_same in (is_view, self.is_equal):
            for edges in reversed(self.sets):
                for end, known in zip(_ENDS, edges.ends, strict=False):
                    if is_same(known, index):
                        return end, edges.group
        edges = self.sets[-1] if self.sets else self._new_set(index)
        if len(edges.ends) == len(_ENDS):
            edges = self._new_set(index)
        if len(index) != int.__int__(edges.count):
            raise NotTraceable(f"an index has {len(index)} nodes but the edges are {edges.count}")
        edges.ends.append(index)
        return _ENDS[len(edges.ends) - 1], edges.group

    def declare(self, edges: Sequence[Tensor], ends: tuple[str, str]) -> None:
        """Edges from nodes of one type to those of another, before any are met.

        Args:
            edges: The index of each edge at either end.
            ends: Types of nodes there.
        """
        found = self._new_set(edges[0])
        found.ends.extend(edges)
        self._ends |= {(found.group, end): nodes for end, nodes in zip(_ENDS, ends, strict=True)}

    def lead(self, edges: RowPart, end: End, nodes: RowPart) -> None:
        """Says that edges of a part have nodes of another one at an end."""
        self._ends[edges.group, end] = nodes.group

    def nodes_at(self, group: str, end: End) -> str | None:
        """The type of the nodes at an end of edges, where it is known."""
        return self._ends.get((group, end))

    def check_nodes(self, group: str, end: End, nodes: str) -> None:
        """Checks that an end of edges has nodes of a type."""
        if nodes in self.parts:
            raise NotTraceable("some rows of nodes are read at edges: write them into all first")
        if self._ends.setdefault((group, end), nodes) != nodes:
            raise NotTraceable("rows of nodes of one type are read at edges of another one")

    def scattered_to(self, group: str, end: End, into: Tensor, axis: int) -> int:
        """The number of nodes that edges are reduced to, at an end that is new to them or known."""
        if not self.node_counts:
            return self.counts[Space.NODE]
        if (known := self.nodes_at(group, end)) is None:
            rows = self.tape.extent(into, axis)
            found = [name for name, count in self.node_counts.items() if same_size(count, rows)]
            if len(found) != 1:
                raise NotTraceable("it is not known which type of nodes edges are scattered to")
            known = self._ends[group, end] = found[0]
        return self.node_counts[known]

    def count_edges(self, rows: Tensor, axis: int = 0) -> int:
        """How many edges there are; if none were met so far, as many as these rows."""
        return (self.sets[-1] if self.sets else self._new_set(rows, axis)).count

    def restart_edges(self, rows: Tensor) -> None:
        """Says that there are as many edges as these rows, where no ends were met so far."""
        if any(edges.ends for edges in self.sets):
            raise NotTraceable("loops are added to edges that were read before")
        self.sets.clear()
        self._new_set(rows)

    def count_of(self, type_: Type) -> int:
        """How many rows values of a type have."""
        if type_.group in self.parts:
            return self.parts[type_.group].count
        if type_.space is Space.NODE:
            return self.node_counts.get(type_.group, self.counts[Space.NODE])
        if type_.space is not Space.EDGE:
            return self.counts[type_.space]
        found = (edges.count for edges in self.sets if edges.group == type_.group)
        return next(found, self.counts.get(Space.EDGE, 0))

    def _new_set(self, rows: Tensor, axis: int = 0) -> EdgeSet:
        group = f"set{len(self.sets)}" if self.sets else ALL_EDGES
        found = EdgeSet(group, [], 0, located(NotTraceable(_ONE_SET)))
        found.count = self.counts[Space.EDGE] = self.tape.extent(rows, axis)
        if isinstance(found.count, TracedSize):
            self.tape.rows.append(found.count)
        self.sets.append(found)
        return found

    def op_of(self, name: str) -> Op | None:
        """What gives a value; None of inputs, and of parts."""
        return self._ops.get(name)

    def whole_of(self, part: str) -> str | None:
        """The value that a value has some rows of, if it is made so."""
        return self._wholes.get(part)

    def is_of_nodes(self, name: str) -> bool:
        """Whether a value has a row for each node."""
        return self.types[name].space is Space.NODE

    def with_edges_of(self, group: str, name: str) -> str:
        """What a value of sources with edges is for those with edges of a group."""
        op, type_ = self.op_of(name), self.types[name]
        if type_.space is not Space.SRC_PAIR or type_.group == group or op is None:
            return name
        if isinstance(op, Take):
            return self.emit(replace(op, group=group), name)
        args = tuple(self.with_edges_of(group, arg) for arg in operands(op))
        return self.emit(with_operands(op, args), name)

    def is_swapped(self, edges: EdgeSet) -> bool:
        """Whether the end that rows are reduced at was met first."""
        if self.pair_ends:
            return End.SRC in self.pair_ends
        for let in self.lets:
            if isinstance(let.op, Reduce) and self.types[let.op.x].group == edges.group:
                return let.op.end is End.SRC
        return False

    def is_equal(self, one: Tensor, other: Tensor) -> bool:
        """Whether two tensors of the graph are equal, as they have to be on others: empty ones no.

        One row of an edge_index is only that row of another one.
        """
        with torch._C.DisableTorchFunction():
            are_rows = all(t.untyped_storage().nbytes() == 2 * t.nbytes for t in (one, other))
            if are_rows and bool(one.storage_offset()) != bool(other.storage_offset()):
                return False
            is_equal = len(one) > 0 and torch.equal(one, other)
        if is_equal:
            self.tape.check_same(one, other)
        return is_equal

    def _new_name(self, hint: str) -> str:
        hint = re.sub(r"\W", "_", hint.removeprefix("_")) or "value"
        name, copy = hint, 1
        while name in self.types or name in ("program", "return", "groups"):
            copy += 1
            name = f"{hint}_{copy}"
        return name


_TYPES = {Space.EDGE: Space.ETYPE, Space.NODE: Space.NTYPE}
_ENDS = (End.SRC, End.DST)
_ONE_SET = "parts of the edges are not all treated alike, and added up: one set of edges compiles"


def is_view(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are one in memory."""
    with torch._C.DisableTorchFunction():
        is_one = one.untyped_storage()._cdata == other.untyped_storage()._cdata
        is_there = one.storage_offset() == other.storage_offset()
        return is_one and is_there and one.stride() == other.stride()


def _is_same(one: Tensor, other: Tensor) -> bool:
    with torch._C.DisableTorchFunction():
        return one is other or (
            one.shape == other.shape
            and one.dtype == other.dtype
            and (one.data_ptr() == other.data_ptr() and one.stride() == other.stride())
        )
