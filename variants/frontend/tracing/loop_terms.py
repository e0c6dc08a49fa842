"""What a loop gave: which parts of the edges a value depends on, and what it is a sum of."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.expressions import Expression, called
from hetune.variants.frontend.tracing.interpreter import words
from hetune.variants.frontend.tracing.loop_params import LoopParams, Names, Unlike, known
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.row_sets import EdgeSet
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
    Reduce,
    Reshape,
    Slice,
    Softmax,
    Space,
    Take,
    Type,
    operands,
    with_operands,
    without_operands,
)

_KEEPS_ZERO = words(
    "relu leaky_relu scale abs sqrt square sin tanh gelu silu elu clamp_min clamp_max"
)


class LoopTerms(LoopParams):
    """The recorder's values.

    Args:
        recorder: What the loop gave.
        lets: Its values.
        sets: The sets of edges.
        dst: The destinations of each set's edges.
        types: The types of nodes, where these have rows of their own.
        ends: Those at either end of each set.

    Attributes:
        ends: As given.
    """

    def __init__(
        self,
        recorder: ProgramRecorder,
        lets: Sequence[Let],
        sets: Sequence[EdgeSet],
        dst: list[Tensor],
        types: Sequence[str] = (ALL_EDGES,),
        ends: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        super().__init__(recorder, sets, dst, types)
        self.ends = dict(ends or dict.fromkeys(self._sets, (ALL_EDGES, ALL_EDGES)))
        self._known_sets: dict[str, frozenset[str]] = {}
        self._depths: dict[str, int] = {}
        self._found: dict[Names, str] = {}
        self._old = {let.name: let.op for let in lets}

    def _sets_of(self, name: str) -> frozenset[str]:
        """The sets of edges that a value depends on; of types' rows, those that it adds up last."""
        if name not in self._known_sets:
            type_, op = self._old_types[name], self._old.get(name)
            found = {type_.group} if type_.space is Space.EDGE else set[str]()
            if op is not None and not (found and self._recorder.node_counts):
                found.update(*(self._sets_of(operand) for operand in operands(op)))
            self._known_sets[name] = frozenset(found)
        return self._known_sets[name]

    def _old_value(self, op: Op, hint: str) -> str:
        """A value that the recorder might have."""
        if isinstance(op, Reshape) and self._old_types[op.x].shape == op.shape:
            return op.x
        name = f"{hint}_{len(self._old_types)}"
        self._old_types[name], self._old[name] = infer(op, self._old_types), op
        return name

    def side_by_side(self, name: str) -> tuple[str, ...]:
        """The values that a value has side by side, if it has; else itself."""
        op = self._old.get(name)
        while isinstance(op, Reshape):
            op = self._old.get(op.x)
        if not isinstance(op, Concat) or any(len(self._old_types[p].shape) != 1 for p in op.parts):
            return (name,)
        return op.parts

    def _is_reduced(self, name: str) -> bool:
        return isinstance(self._old.get(name), Reduce | Softmax)

    def _depth(self, name: str) -> int:
        """How many sums over edges follow each other up to a value."""
        if name not in self._depths:
            op = self._old.get(name)
            inner = max((self._depth(x) for x in operands(op)), default=0) if op else 0
            self._depths[name] = inner + isinstance(op, Reduce)
        return self._depths[name]

    def _completed(self, names: Names) -> Names:
        """With what the layer that some types' values are of has for the others.

        So that one program's value has them all, whoever reads which.
        """
        first = known(names)[0]
        op, depth = self._old.get(first), self._depth(first)
        if op is None or None not in names:
            return names
        wanted = _without_operands(op), self._old_types[first].shape, depth
        found: list[str | None] = []
        for kind, name in zip(self.node_types, names, strict=True):
            alike = [
                other
                for other, its in self._old.items()
                if self._old_types[other].space is Space.NODE
                and self._old_types[other].group == kind
                and its is not None
                and wanted
                == (_without_operands(its), self._old_types[other].shape, self._depth(other))
            ]
            found.append(alike[0] if name is None and len(alike) == 1 else name)
        return tuple(found)

    def _by_form(
        self, terms: Sequence[list[str] | None], form: Callable[[str], object]
    ) -> list[Names]:
        """Values that are made alike, one for each set of edges or type of nodes in each column.

        Args:
            terms: Values of each set or type; None where nobody reads them.
            form: Equal for values that may be made alike.
        """
        counts = {len(found) for found in terms if found is not None}
        if len(counts) == 1:
            columns: list[Names] = [
                tuple(None if found is None else found[i] for found in terms)
                for i in range(counts.pop())
            ]
            if all(len({form(name) for name in known(column)}) == 1 for column in columns):
                return columns
        by_form: dict[object, list[list[str]]] = {}
        for place, found in enumerate(terms):
            for term in found or ():
                by_form.setdefault(form(term), [[] for _ in terms])[place].append(term)
        return [
            tuple(found[i] if i < len(found) else None for found in alike)
            for alike in by_form.values()
            for i in range(max(map(len, alike)))
        ]

    def _form(self, name: str) -> object:
        """Equal for values that are computed of edges in the same way, where they are added up."""
        name = self._unscaled(name)
        op, kind, made = self._old.get(name), self._old_types[name], self._made_by(name)
        is_of_nodes = kind.space is not Space.EDGE and not self._depth(name)
        if op is None or isinstance(op, Take) or is_of_nodes:
            return made
        inner = (
            x
            for x in operands(op)
            if self._old_types[x].space is Space.EDGE or self._depth(x) == self._depth(name)
        )
        return made, *map(self._form, inner)

    def _made_by(self, name: str) -> object:
        """The operator of a value, whatever its operands."""
        name = self._unscaled(name)
        op = self._old.get(name)
        return self._old_types[name].space if op is None else _without_operands(op)

    def _unscaled(self, name: str) -> str:
        """What a value is some number times of."""
        while (op := self._old.get(name)) is not None and _is_scale(op):
            (name,) = operands(op)
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

    def _merged(self, terms: Sequence[str]) -> list[str]:
        """Terms of a sum, in which products of the same rows are one, as weights are."""
        alike: dict[object, list[tuple[str, str | None, Expression, Type]]] = {}
        for term in terms:
            rows, weight, type_ = self._product(term)
            key: object = term if weight is None else (rows, type_)
            alike.setdefault(key, [])
            if weight is not None:
                alike[key].append((term, rows, weight, type_))
        found = []
        for key, products in alike.items():
            if len(products) < 2:
                found.append(products[0][0] if products else str(key))
                continue
            _, rows, _, type_ = products[0]
            whole = functools.reduce(_plus, (weight for _, _, weight, _ in products))
            name = self._old_weight(whole, type_)
            found.append(name if rows is None else self._old_value(Linear(rows, name), "product"))
        return found

    def _product(self, term: str) -> tuple[str | None, Expression | None, Type]:
        """The rows that a term multiplies by a weight, and the weight; a weight alone has none."""
        op, type_ = self._old.get(term), self._old_types[term]
        match op:
            case None:
                return None, self._recorder.weights.get(term), type_
            case Map("scale", (x,), float(const)):
                rows, weight, type_ = self._product(x)
                if weight is not None:
                    weight = called(operator.mul, (weight, const), {})
                return rows, weight, type_
            case Linear(x, w) if w in self._recorder.weights:
                return x, self._recorder.weights[w], self._old_types[w]
        return None, None, type_

    def _old_weight(self, weight: Expression, type_: Type) -> str:
        """A weight that the recorder might have."""
        name = re.sub(r"\W", "_", f"{weight.hint}_sum_{len(self._old_types)}")
        self._old_types[name], self._recorder.weights[name] = type_, weight
        return name

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
                return not (fn.startswith("clamp") and const_of(op) != 0) and self._vanishes(x)
            case Dot(x, y):
                return self._vanishes(x) or self._vanishes(y)
            case Linear(x=x) | Reshape(x=x) | Slice(x=x) | Fold(x=x):
                return self._vanishes(x)
            case Concat(parts):
                return all(map(self._vanishes, parts))
        return False

    def _alike(self, names: Names) -> list[Op | None]:
        """What the values of the sets are made by, which is the same but for operands."""
        ops = [None if name is None else self._old.get(name) for name in names]
        found = [op for op in ops if op is not None]
        if len(found) < len(known(names)):
            raise Unlike
        if any(map(_is_scale, found)):
            pairs = zip(names, ops, strict=True)
            return [
                op if name is None or _is_scale(op) else Map("scale", (name,), 1.0)
                for name, op in pairs
            ]
        if len({_without_operands(op) for op in found}) > 1:
            raise Unlike
        return ops


def _plus(one: Expression, other: Expression) -> Expression:
    return called(torch.add, (one, other), {})


def _is_scale(op: Op | None) -> bool:
    return isinstance(op, Map) and op.fn == "scale"


def _without_operands(op: Op) -> Op:
    op = without_operands(op)
    return replace(op, group=ALL_EDGES) if isinstance(op, Take) else op


def const_of(op: Op) -> float | None:
    """The constant of a function that has one."""
    return op.const if isinstance(op, Map) else None


def end_of(op: Op) -> End:
    """The end of the edges that rows are taken from, or reduced to."""
    return op.end if isinstance(op, Take | Reduce) else End.NONE
