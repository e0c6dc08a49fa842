"""The program so far while a layer's forward runs on symbols."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.variants.errors import ProgramError
from hetune.variants.frontend.tracing.counts import Count
from hetune.variants.frontend.tracing.expressions import Expression, called
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.tape import Tape
from hetune.variants.program.infer import infer
from hetune.variants.program.nodes import End, Let, Op, Reduce, Reshape, Space, Take, Type
from hetune.variants.program.text import show_op


@dataclass(frozen=True, slots=True)
class RowTypes:
    """Of edges or of nodes.

    Attributes:
        index: The type of each, integers.
        count: How many types there are; 0 if no weight tells.
    """

    index: Tensor
    count: int


class ProgramRecorder:
    """Values of a program, what they are made of, and the edges that they belong to.

    Attributes:
        tape: What is computed of the graph alone.
        counts: Rows of nodes, and of edges as soon as some are met.
        types: Of all values by name.
        lets: The values, in order, none twice.
        features: Names of the features.
        weights: What each weight is, by name.
        constants: What follows from the graph alone, rows first.
        ends: The index of each edge at either end, in the order in which they were met.
        kinds: The type of each edge, and of each node, where weights have a row for each type.
    """

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.counts: dict[Space, int] = {Space.NODE: tape.rows[0]}
        self.types: dict[str, Type] = {}
        self.lets: list[Let] = []
        self.features: list[str] = []
        self.weights: dict[str, Expression] = {}
        self.constants: dict[str, Tensor] = {}
        self.ends: list[Tensor] = []
        self.kinds: dict[Space, RowTypes] = {}
        self._made: dict[Op, str] = {}
        self._ops: dict[str, Op] = {}
        self._weight_names: dict[str, str] = {}

    def feature(self, name: str, type_: Type) -> str:
        """A new feature."""
        name = self._new_name(name)
        self.types[name] = type_
        self.features.append(name)
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
        kinds = self.kinds.get(spaces[0])
        if kinds is None or not kinds.count:
            kinds = self.kinds[spaces[0]] = RowTypes(index, shape[0])
        if kinds.count != shape[0] or not self._is_same_index(kinds.index, index):
            raise NotTraceable(f"{spaces[0]}s have types of two kinds: one compiles")
        row = tuple(extent for extent in shape[1:] if extent != 1)
        rows = called(torch.Tensor.reshape, (weight, (shape[0], *row)), {})
        key = f"by type {rows.key}"
        if key not in self._weight_names:
            name = self._weight_names[key] = self._new_name(weight.hint)
            self.types[name] = Type(_TYPES[spaces[0]], row)
            self.weights[name] = rows
        return self.emit(Take(self._weight_names[key], spaces[0]), "by_type")

    def constant(self, tensor: Tensor, space: Space) -> str:
        """Rows that follow from the graph alone.

        Args:
            tensor: ``[rows, *row shape]``.
            space: What there is a row for.
        """
        for name, known in self.constants.items():
            if self.types[name].space is space and _is_same(known, tensor):
                return name
        name = self._new_name(f"{space}_constant")
        self.types[name] = Type(space, tuple(tensor.shape[1:]))
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
            name = self._new_name(hint)
            self.types[name] = type_
            self.lets.append(Let(name, type_, op))
            self._made[op], self._ops[name] = name, op
        return self._made[op]

    def forget(self) -> None:
        """Equal values are made anew from now on, for they may be of other edges."""
        self._made.clear()

    def end_of(self, index: Tensor) -> End:
        """Which end of the edges an index of nodes is; sources are met first, or swapped later."""
        edges = self.count_edges(index)
        if len(index) != edges:
            raise NotTraceable(
                f"an index has {len(index)} nodes but the edges so far are {edges}: one set of "
                "edges compiles"
            )
        for i, known in enumerate(self.ends):
            if self._is_same_index(known, index):
                return _ENDS[i]
        if len(self.ends) == len(_ENDS):
            raise NotTraceable("an index is neither end of the edges: one set of edges compiles")
        self.ends.append(index)
        return _ENDS[len(self.ends) - 1]

    def count_edges(self, rows: Tensor) -> int:
        """How many edges there are; if none were met so far, as many as these rows."""
        if Space.EDGE not in self.counts:
            self.counts[Space.EDGE] = found = self.tape.extent(rows, 0)
            if isinstance(found, Count):
                self.tape.rows.append(found)
        return self.counts[Space.EDGE]

    def op_of(self, name: str) -> Op | None:
        """What gives a value; None of inputs."""
        return self._ops.get(name)

    def is_of_nodes(self, name: str) -> bool:
        """Whether a value has a row for each node, and is not all known from the graph alone."""
        return self.types[name].space is Space.NODE and name not in self.constants

    def is_swapped(self) -> bool:
        """Whether the end that rows are reduced at was met first."""
        reduced = [let.op.end for let in self.lets if isinstance(let.op, Reduce)]
        return bool(reduced) and reduced[0] is End.SRC

    def _is_same_index(self, one: Tensor, other: Tensor) -> bool:
        with torch._C.DisableTorchFunction():
            if one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr():
                is_there = one.storage_offset() == other.storage_offset()
                return is_there and one.stride() == other.stride()
            is_equal = torch.equal(one, other)
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


def _is_same(one: Tensor, other: Tensor) -> bool:
    with torch._C.DisableTorchFunction():
        return one is other or (
            one.shape == other.shape
            and one.dtype == other.dtype
            and (one.data_ptr() == other.data_ptr() and one.stride() == other.stride())
        )
