"""A layer's loop over parts of the edges as one program, in which each part is an edge type.

What the loop computes for each part is the same but for weights and for what follows from the
graph: weights become rows of weights by type, and the sum over parts is that over all edges. What
is computed of nodes for one part moves to the edges, or to pairs of destination and type.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hetune.variants.errors import ProgramError
from hetune.variants.frontend.tracing.expressions import Expression, fixed
from hetune.variants.frontend.tracing.interpreter import words
from hetune.variants.frontend.tracing.loop_params import LoopParams, Unlike
from hetune.variants.frontend.tracing.recorder import EdgeSet, ProgramRecorder, RowTypes
from hetune.variants.frontend.tracing.simplify import with_ends_swapped, with_softmaxes
from hetune.variants.program.infer import infer
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Concat,
    Dot,
    End,
    Fold,
    Let,
    Linear,
    Map,
    Op,
    Param,
    Reduce,
    Reshape,
    Slice,
    Softmax,
    Space,
    Take,
    operands,
    with_operands,
)

_KEEPS_ZERO = words(
    "relu leaky_relu scale abs sqrt square sin tanh gelu silu elu clamp_min clamp_max"
)


@dataclass(frozen=True, slots=True)
class RolledUp:
    """What a loop computes.

    Attributes:
        params: Of the program.
        lets: Its values.
        names: What the results are called now.
        weights: What each weight is.
        constants: What follows from the graph alone.
        src: The source of each edge, int64 [E].
        dst: The destination of each edge, int64 [E].
        kinds: The types of edges and nodes, where weights have a row for each.
    """

    params: tuple[Param, ...]
    lets: list[Let]
    names: dict[str, str]
    weights: dict[str, Expression]
    constants: dict[str, Tensor]
    src: Tensor
    dst: Tensor
    kinds: dict[Space, RowTypes]


def rolled_up(recorder: ProgramRecorder, results: Sequence[str]) -> RolledUp:
    """What a recorder has, of one set of edges or of several.

    Raises:
        NotTraceable: What it computes of the sets is not alike, or no sum over them.
    """
    ends = [_ends(recorder, edges) for edges in recorder.sets]
    lets = list(recorder.lets)
    for edges in recorder.sets:
        if recorder.is_swapped(edges):
            lets = with_ends_swapped(lets, edges.group, recorder.types)
    lets = with_softmaxes(lets)
    if len(ends) == 1:
        types = recorder.types
        roles = {
            "feature": recorder.features,
            "constant": [*recorder.constants],
            "weight": [*recorder.weights],
        }
        params = tuple(Param(n, types[n], role) for role, names in roles.items() for n in names)
        names = {name: name for name in results}
        return RolledUp(
            params, lets, names, recorder.weights, recorder.constants, *ends[0], recorder.kinds
        )
    if Space.EDGE in recorder.kinds:
        raise recorder.sets[1].only
    with recorder.tape:
        src, dst = (torch.cat([both[i] for both in ends]) for i in range(2))
        etype = torch.cat([torch.full_like(both[0], i) for i, both in enumerate(ends)])
    kinds = {**recorder.kinds, Space.EDGE: RowTypes(etype, len(ends))}
    loop = _Loop(recorder, lets, [dst for _, dst in ends])
    try:
        found = {name: loop.of_nodes(name) for name in results}
    except (ProgramError, Unlike):
        raise recorder.sets[1].only from None
    new = [Let(name, loop.types[name], op) for name, op in loop.ops.items()]
    return RolledUp(
        (*loop.given.values(),), new, found, loop.weights, loop.constants, src, dst, kinds
    )


def _ends(recorder: ProgramRecorder, edges: EdgeSet) -> tuple[Tensor, Tensor]:
    src, dst = [*edges.ends, *edges.ends][:2]
    return (dst, src) if recorder.is_swapped(edges) else (src, dst)


_MOST_ALONE = 4
"""Sets of edges of which each may be added up alone: that reads all edges."""


class _Loop(LoopParams):
    """The values of the loop's program so far."""

    def __init__(self, recorder: ProgramRecorder, lets: Sequence[Let], dst: list[Tensor]) -> None:
        super().__init__(recorder, dst)
        self._known_sets: dict[str, frozenset[str]] = {}
        self._old = {let.name: let.op for let in lets}

    # --- what the recorder has ------------------------------------------------------------

    def _sets_of(self, name: str) -> frozenset[str]:
        """The sets of edges that a value depends on."""
        if name not in self._known_sets:
            type_, op = self._old_types[name], self._old.get(name)
            found = {type_.group} if type_.space is Space.EDGE else set[str]()
            for operand in operands(op) if op is not None else ():
                found |= self._sets_of(operand)
            self._known_sets[name] = frozenset(found)
        return self._known_sets[name]

    def _old_value(self, op: Op, hint: str) -> str:
        """A value that the recorder might have."""
        name = f"{hint}_{len(self._old_types)}"
        self._old_types[name], self._old[name] = infer(op, self._old_types), op
        return name

    def _terms(self, name: str) -> list[str]:
        """Values whose sum a value is."""
        op = self._old.get(name)
        if not self._sets_of(name):
            return [name]
        match op:
            case Map("add", (x, y)) if self._old_types[x].shape == self._old_types[y].shape:
                return [*self._terms(x), *self._terms(y)]
            case Map("scale", (x,)) | Reshape(x):
                terms = self._terms(x)
                if len(terms) == 1:
                    return [name]
                wrapped = (with_operands(op, (term,)) for term in terms)
                return [t for w in wrapped for t in self._terms(self._old_value(w, "term"))]
            case Fold(x, 0, "sum" | "mean" as fn):
                parts = self._stacked(x)
                if parts is None:
                    return [name]
                if fn == "mean":
                    scales = (Map("scale", (part,), 1 / len(parts)) for part in parts)
                    parts = [self._old_value(scale, "share") for scale in scales]
                return [term for part in parts for term in self._terms(part)]
        return [name]

    def _stacked(self, name: str) -> list[str] | None:
        """The parts of a value that has them one after the other on its first axis."""
        shape = self._old_types[name].shape
        op = self._old.get(name)
        while isinstance(op, Reshape):
            op = self._old.get(op.x)
        if not isinstance(op, Concat) or len(op.parts) != shape[0]:
            return None
        types = [self._old_types[part] for part in op.parts]
        if any(t.width * len(types) != self._old_types[name].width for t in types):
            return None
        if (
            len(self._old_types[op.parts[0]].shape) > 1
            and self._old_types[op.parts[0]].shape[0] > 1
        ):
            return None
        return [self._old_value(Reshape(part, shape[1:]), "part") for part in op.parts]

    # --- values of nodes ------------------------------------------------------------------

    def of_nodes(self, name: str) -> str:
        """The value that is, for each node, what the recorder's is."""
        op = self._old.get(name)
        if op is None:
            return self._param(name)
        if not self._sets_of(name):
            return self._emit(op, [self.of_nodes(x) for x in operands(op)], name)
        by_set: dict[str, list[str]] = {group: [] for group in self._sets}
        rest: list[str] = []
        terms = self._terms(name)
        for term in terms:
            groups = self._sets_of(term)
            if len(groups) == 1:
                by_set[next(iter(groups))].append(term)
            elif term != name:
                rest.append(self.of_nodes(term))
        counts = {len(found) for found in by_set.values()}
        if len(counts) != 1:
            sums = [self._sum_of(term) for found in by_set.values() for term in found]
            return self._added([*sums, *rest])
        if counts == {0} and not rest:
            if any(isinstance(op, kind) for kind in (Reduce, Softmax)):
                raise Unlike
            return self._emit(op, [self.of_nodes(x) for x in operands(op)], name)
        sums = [self._sum(parts) for parts in zip(*by_set.values(), strict=True)]
        return self._added([*sums, *rest])

    def _added(self, names: list[str]) -> str:
        return functools.reduce(lambda x, y: self.emit(Map("add", (x, y)), "add"), names)

    def _sum_of(self, name: str) -> str:
        """What one set has for its nodes, as a sum over all edges where others count nothing."""
        if len(self._sets) > _MOST_ALONE:
            raise Unlike
        (alone,) = self._sets_of(name)
        before, self._alone = self._alone, alone
        try:
            return self._sum((name,) * len(self._sets))
        finally:
            self._alone = before

    def _sum(self, names: tuple[str, ...]) -> str:
        """The sum over all sets of what each has for its nodes."""
        rows = self._summands(names)
        if rows is None:
            if not all(map(self._vanishes, names)):
                raise Unlike
            rows = self._by_node(names, Space.DST_PAIR, End.DST)
        if self._alone is not None:
            counted = [float(group == self._alone) for group in self._sets]
            weight = self._stack([fixed(torch.tensor(each)) for each in counted], ())
            rows = self.emit(Map("mul", (weight, rows)), "counted")
        return self.emit(Reduce(rows, Space.NODE, "sum", End.DST), "sum")

    def _summands(self, names: tuple[str, ...]) -> str | None:
        """Rows of edges that add up to the values, where those are linear in sums over edges."""
        ops = self._alike(names)
        match ops[0]:
            case Reduce(fn="sum", end=End.DST):
                return self._by_edge(tuple(operands(op)[0] for op in ops))
            case Linear() | Map("scale") | Reshape() | Slice() | Fold(fn="sum"):
                x = self._summands(tuple(operands(op)[0] for op in ops))
                return None if x is None else self._again(ops, x, names[0])
            case Map("mul", (x, y)):
                place = 0 if self._sets_of(x) else 1
                if self._sets_of(y if place == 0 else x):
                    return None
                rows = self._summands(tuple(operands(op)[place] for op in ops))
                if rows is None:
                    return None
                factor = self._operand(
                    tuple(operands(op)[1 - place] for op in ops), Space.EDGE, End.DST
                )
                both = (rows, factor) if place == 0 else (factor, rows)
                return self.emit(with_operands(ops[0], both), "share")
        return None

    def _again(self, ops: list[Op], x: str, hint: str) -> str:
        """An operator of a value and of weights."""
        match ops[0]:
            case Linear():
                weights = tuple(operands(op)[1] for op in ops)
                return self.emit(Linear(x, self._weight(weights)), hint)
            case Map("scale") if len({*ops}) > 1 and len({_const(op) for op in ops}) > 1:
                return self.emit(Map("mul", (x, self._factors(ops))), hint)
        return self.emit(with_operands(ops[0], (x,)), hint)

    def _factors(self, ops: list[Op]) -> str:
        found = [fixed(torch.tensor(_const(op), dtype=torch.float64)) for op in ops]
        return self._stack(found, ())

    def _vanishes(self, name: str) -> bool:
        """Whether a value is 0 where no edges come in."""
        op = self._old.get(name)
        match op:
            case Reduce(fn="sum" | "max" | "min"):
                return True
            case Map("add" | "sub" | "maximum" | "minimum", args):
                return all(map(self._vanishes, args))
            case Map("mul" | "outer", args):
                return any(map(self._vanishes, args))
            case Map("div", (x, _)):
                return self._vanishes(x)
            case Map(fn, (x,)) if fn in _KEEPS_ZERO:
                return not (fn.startswith("clamp") and _const(op) != 0) and self._vanishes(x)
            case Dot(x, y):
                return self._vanishes(x) or self._vanishes(y)
            case Linear(x=x) | Reshape(x=x) | Slice(x=x) | Fold(x=x):
                return self._vanishes(x)
            case Concat(parts):
                return all(map(self._vanishes, parts))
        return False

    # --- values of all sets at once -------------------------------------------------------

    def _alike(self, names: tuple[str, ...]) -> list[Op]:
        """What the values of the sets are made by, which is the same but for operands."""
        ops = [self._old.get(name) for name in names]
        found = [op for op in ops if op is not None]
        if len(found) < len(ops) or len({type(op) for op in found}) > 1:
            raise Unlike
        plain = {_without_operands(op) for op in found}
        if len(plain) > 1 and not all(isinstance(op, Map) and op.fn == "scale" for op in found):
            raise Unlike
        return found

    def _operand(self, names: tuple[str, ...], space: Space, end: End) -> str:
        kind = self._old_types[names[0]]
        if kind.space is Space.SHARED:
            return self._weight(names)
        if kind.space is Space.EDGE:
            return self._by_edge(names)
        return self._by_node(names, space, end)

    def _by_edge(self, names: tuple[str, ...]) -> str:
        """Rows of each set's edges, as rows of all edges."""
        if all(name in self._recorder.constants for name in names):
            return self._constants(names)
        ops = self._alike(names)
        match ops[0]:
            case Take(end=end) if self._old_types[operands(ops[0])[0]].space is Space.NODE:
                if len({_end(op) for op in ops}) > 1:
                    raise Unlike
                return self._by_node(tuple(operands(op)[0] for op in ops), Space.EDGE, end)
            case Softmax():
                scores = self._by_edge(tuple(operands(op)[0] for op in ops))
                return self.emit(Softmax(scores, Space.DST_PAIR), names[0])
        return self._rewritten(ops, Space.EDGE, End.NONE, names[0])

    def _by_node(self, names: tuple[str, ...], space: Space, end: End) -> str:
        """Rows of nodes, of each set's own, as rows of edges or of pairs.

        Args:
            names: A value for each set.
            space: Edges or destination pairs.
            end: Which end of the edges.
        """
        is_alone = self._sets_of(names[0]) == {self._alone}
        if len({*names}) == 1 and names[0] not in self._recorder.constants and not is_alone:
            whole = self.of_nodes(names[0])
            return self.emit(Take(whole, space, end), f"{names[0]}_{end}")
        if all(name in self._recorder.constants for name in names):
            return self._constants_of_nodes(names, space, end)
        ops = self._alike(names)
        if isinstance(ops[0], Reduce):
            if end is not End.DST or any(_end(op) is not End.DST for op in ops):
                raise Unlike
            rows = self._by_edge(tuple(operands(op)[0] for op in ops))
            pairs = self.emit(Reduce(rows, Space.DST_PAIR, ops[0].fn), names[0])
            return pairs if space is Space.DST_PAIR else self.emit(Take(pairs, space), names[0])
        return self._rewritten(ops, space, end, names[0])

    def _rewritten(self, ops: list[Op], space: Space, end: End, hint: str) -> str:
        if not isinstance(ops[0], Map | Linear | Dot | Reshape | Fold | Concat | Slice):
            raise Unlike
        columns = [*zip(*map(operands, ops), strict=True)]
        found = [self._operand(names, space, end) for names in columns]
        if len({_const(op) for op in ops}) > 1:
            return self.emit(Map("mul", (found[0], self._factors(ops))), hint)
        return self._emit(ops[0], found, hint)

    def _emit(self, op: Op, names: list[str], hint: str) -> str:
        if isinstance(op, Take):
            op = replace(op, group=ALL_EDGES)
        return self.emit(with_operands(op, tuple(names)), hint)


def _without_operands(op: Op) -> Op:
    names = tuple("" for _ in operands(op))
    op = with_operands(op, names)
    return replace(op, group=ALL_EDGES) if isinstance(op, Take) else op


def _const(op: Op) -> float | None:
    return op.const if isinstance(op, Map) else None


def _end(op: Op) -> End:
    return op.end if isinstance(op, Take | Reduce) else End.NONE
