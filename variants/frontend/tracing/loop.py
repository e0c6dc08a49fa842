"""The program of a loop, value by value: each part of the edges is an edge type in it."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch

from hetune.variants.frontend.tracing.expressions import fixed
from hetune.variants.frontend.tracing.loop_params import COPY, Names, Unlike, known
from hetune.variants.frontend.tracing.loop_terms import LoopTerms, const_of, end_of
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Concat,
    Dot,
    End,
    Fold,
    Linear,
    Map,
    Op,
    Reduce,
    Reshape,
    Slice,
    Softmax,
    Space,
    Take,
    operands,
    with_operands,
)

_OF_SOURCES = (Space.SOURCE, Space.SRC_PAIR)
_MOST_WAYS = 2
"""Sums over some sets of edges, of which each reads all edges."""
_MOST_ALONE = 4
"""Sets of edges of which each may be added up alone: that reads all edges."""


class TracedLoop(LoopTerms):
    """The values of the loop's program so far. Names are of the recorder's values, unless said."""

    # --- values of nodes ------------------------------------------------------------------

    def by_place(self, results: Sequence[str]) -> tuple[list[Names], dict[str, int]]:
        """Results of one shape put together, one for each type of nodes; and the place of each.

        Where each is of one set of edges, nodes are there once more for every further set that
        leads to them.
        """
        sets = [self._sets_of(name) for name in results]
        kinds = {self._old_types[name].group for name in results}
        if all(len(own) == 1 for own in sets) and len({*sets}) == len(sets) > len(kinds):
            met = Counter[str]()
            for group, (src, dst) in self.ends.items():
                copy = f"{dst}{COPY}{met[dst]}" if met[dst] else dst
                met[dst] += 1
                self.ends[group] = src, copy
                if copy not in self.node_types:
                    self.node_types.append(copy)
        places: dict[str, int] = {}
        vectors: dict[object, list[str | None]] = {}
        counts = Counter[object]()
        for name, own in zip(results, sets, strict=True):
            kind = self._old_types[name].group
            if len(own) == 1:
                kind = self.ends[next(iter(own))][1]
            place = places[name] = self.node_types.index(kind)
            shape = self._old_types[name].shape
            nth = counts[shape, place]
            counts[shape, place] += 1
            vectors.setdefault((shape, nth), [None] * len(self.node_types))[place] = name
        return [tuple(vector) for vector in vectors.values()], places

    def of_types(self, names: Names) -> str:
        """The program's value that is, for the nodes of each type, what the recorder's is."""
        for found in dict.fromkeys((self._completed(names), names)):
            try:
                if found not in self._found:
                    self._found[found] = self._of_types(found)
            except Unlike:
                if found == names:
                    raise
            else:
                return self._found[found]
        raise Unlike

    def _of_types(self, names: Names) -> str:
        some = known(names)
        if all(name not in self._old for name in some):
            return self._param_by_type(names)
        is_typed = bool(self._recorder.node_counts)
        are_sums = any(self._terms(name) != [name] or self._is_reduced(name) for name in some)
        if not any(map(self._sets_of, some)) or (is_typed and not are_sums):
            return self._each(names)
        by_set: dict[str, list[str]] = {group: [] for group in self._sets}
        rest: list[list[str] | None] = [None if name is None else [] for name in names]
        depth = max(map(self._depth, some)) if is_typed else 0
        for name, others in zip(names, rest, strict=True):
            if name is None or others is None:
                continue
            for term in self._terms(name):
                groups = self._sets_of(term)
                if len(groups) == 1 and self._depth(term) >= depth:
                    by_set[next(iter(groups))].append(term)
                elif term != name:
                    others.append(term)
        read = {g for g in self._sets if names[self.node_types.index(self.ends[g][1])] is not None}
        if len(names) == 1 and len({len(by_set[group]) for group in read}) != 1:
            sums = [self._sum_of(term) for found in by_set.values() for term in found]
            return self._added([*sums, *self._rest(rest)])
        terms = [by_set[group] if group in read else None for group in self._sets]
        columns = self._by_form(terms, self._form)
        if sum(len(known(column)) < len(read) for column in columns) > _MOST_WAYS:
            raise Unlike
        if not columns and not any(rest):
            if any(map(self._is_reduced, some)):
                raise Unlike
            return self._each(names)
        sums = [self._sum(column, [group in read for group in self._sets]) for column in columns]
        return self._added([*sums, *self._rest(rest)])

    def _each(self, names: Names) -> str:
        ops = self._alike(names)
        found = [self.of_types(column) for column in _columns(ops)]
        return self._with_constants(ops, found, known(names)[0], Space.NTYPE)

    def _rest(self, terms: Sequence[list[str] | None]) -> list[str]:
        """Terms that are no sums over one set of edges."""
        each = [None if found is None else self._merged(found) for found in terms]
        return [
            self._counted(self.of_types(column), _are_known(column), _are_known(each), Space.NTYPE)
            for column in self._by_form(each, self._made_by)
        ]

    def _counted(
        self,
        rows: str,
        count: Sequence[bool],
        are_read: Sequence[bool],
        space: Space = Space.ETYPE,
    ) -> str:
        """Rows of some types of edges or nodes; zeros for others that are read.

        Args:
            rows: The program's value.
            count: Whether each type's rows do.
            are_read: Whether each type's are.
            space: What there are types of.
        """
        if all(itertools.compress(count, are_read)):
            return rows
        counted = [fixed(torch.tensor(float(does))) for does in count]
        return self.emit(Map("mul", (self._stack(counted, (), space), rows)), "counted")

    def _added(self, names: list[str]) -> str:
        return functools.reduce(lambda x, y: self.emit(Map("add", (x, y)), "add"), names)

    def _sum_of(self, name: str) -> str:
        """What one set has for its nodes, as a sum over all edges where others count nothing."""
        if len(self._sets) > _MOST_ALONE:
            raise Unlike
        (alone,) = self._sets_of(name)
        before, self._alone = self._alone, alone
        try:
            return self._sum((name,) * len(self._sets), [True] * len(self._sets))
        finally:
            self._alone = before

    def _sum(self, names: Names, are_read: Sequence[bool]) -> str:
        """The sum over all sets of what each has for its nodes, if it has something."""
        rows = self._summands(names)
        if rows is None:
            if not all(map(self._vanishes, known(names))):
                raise Unlike
            rows = self._by_node(names, Space.DST_PAIR, End.DST)
        count = _are_known(names)
        if self._alone is not None:
            count = [group == self._alone for group in self._sets]
        rows = self._counted(rows, count, are_read)
        return self.emit(Reduce(rows, Space.NODE, "sum", End.DST), "sum")

    def _summands(self, names: Names) -> str | None:
        """Rows of edges that add up to the values, where those are linear in sums over edges."""
        ops = self._alike(names)
        columns = _columns(ops)
        match first := _some(ops):
            case Reduce(fn="sum", end=End.DST):
                return self._by_edge(columns[0])
            case Linear() | Map("scale") | Reshape() | Slice() | Fold(fn="sum"):
                x = self._summands(columns[0])
                return None if x is None else self._again(ops, x, known(names)[0])
            case Map("mul", (x, y)):
                place = 0 if self._sets_of(x) else 1
                if self._sets_of(y if place == 0 else x):
                    return None
                rows = self._summands(columns[place])
                if rows is None:
                    return None
                factor = self._operand(columns[1 - place], Space.EDGE, End.DST)
                both = (rows, factor) if place == 0 else (factor, rows)
                return self.emit(with_operands(first, both), "share")
        return None

    def _again(self, ops: list[Op | None], x: str, hint: str) -> str:
        """An operator of a value and of weights."""
        if isinstance(_some(ops), Linear):
            return self.emit(Linear(x, self._weight(_columns(ops)[1])), hint)
        return self._with_constants(ops, [x], hint, Space.ETYPE)

    def _with_constants(
        self, ops: list[Op | None], names: list[str], hint: str, space: Space
    ) -> str:
        """An operator whose constants may differ.

        Args:
            ops: The recorder's.
            names: The program's operands.
            hint: Of the name.
            space: What the operators are for.
        """
        if len({const_of(op) for op in ops if op is not None}) > 1:
            each = [1.0 if op is None else const_of(op) for op in ops]
            found = [fixed(torch.tensor(const, dtype=torch.float64)) for const in each]
            return self.emit(Map("mul", (names[0], self._stack(found, (), space))), hint)
        op = _some(ops)
        if isinstance(op, Take):
            op = replace(op, group=ALL_EDGES)
        return self.emit(with_operands(op, tuple(names)), hint)

    # --- values of all sets at once -------------------------------------------------------

    def _operand(self, names: Names, space: Space, end: End) -> str:
        kind = self._old_types[known(names)[0]]
        if kind.space is Space.SHARED:
            return self._weight(names)
        if kind.space is Space.EDGE:
            return self._by_edge(names)
        if kind.space is Space.SRC_PAIR:
            return self._of_sources(names)
        return self._by_node(names, space, end)

    def _by_edge(self, names: Names) -> str:
        """Rows of each set's edges, as rows of all edges."""
        if all(name in self._recorder.constants for name in known(names)):
            return self._constants(names)
        if self._are_masks(names):
            if [self._old_types[name].group for name in known(names)] != self._sets:
                raise Unlike
            return self._masks(names, Space.EDGE)
        ops = self._alike(names)
        columns, hint = _columns(ops), known(names)[0]
        match _some(ops):
            case Take(x=x, end=end) if self._old_types[x].space in _OF_SOURCES:
                return self.emit(Take(self._of_sources(columns[0]), Space.EDGE, end), hint)
            case Take(x=x, end=end) if self._old_types[x].space is Space.NODE:
                if len({end_of(op) for op in ops if op is not None}) > 1:
                    raise Unlike
                return self._by_node(columns[0], Space.EDGE, end)
            case Softmax():
                return self.emit(Softmax(self._by_edge(columns[0]), Space.DST_PAIR), hint)
        return self._rewritten(ops, Space.EDGE, End.NONE, hint)

    def _of_sources(self, names: Names) -> str:
        """Rows of sources, where these are other nodes, or of those with edges of each set."""
        hint = known(names)[0]
        if self._old_types[hint].space is Space.SOURCE:
            if len({*names}) > 1:
                raise Unlike
            return self._param(hint)
        ops = self._alike(names)
        if isinstance(_some(ops), Take):
            sources = self._of_sources(_columns(ops)[0])
            return self.emit(Take(sources, Space.SRC_PAIR, End.SRC), hint)
        return self._rewritten(ops, Space.SRC_PAIR, End.NONE, hint)

    def _by_node(self, names: Names, space: Space, end: End) -> str:
        """Rows of nodes, of each set's own, as rows of edges or of pairs.

        Args:
            names: A value for each set.
            space: Edges or destination pairs.
            end: Which end of the edges.
        """
        some = known(names)
        are_constants = all(name in self._recorder.constants for name in some)
        of_ends = None if are_constants else self._of_ends(names, end)
        if of_ends is not None:
            return self.emit(Take(self.of_types(of_ends), space, end), f"{some[0]}_{end}")
        if are_constants:
            return self._constants_of_nodes(names, space, end)
        ops = self._alike(names)
        if isinstance(_some(ops), Reduce):
            if end is not End.DST or any(op and end_of(op) is not End.DST for op in ops):
                raise Unlike
            reduced = _some(ops)
            assert isinstance(reduced, Reduce)
            rows = self._by_edge(_columns(ops)[0])
            pairs = self.emit(Reduce(rows, Space.DST_PAIR, reduced.fn), some[0])
            return pairs if space is Space.DST_PAIR else self.emit(Take(pairs, space), some[0])
        return self._rewritten(ops, space, end, some[0])

    def _of_ends(self, names: Names, end: End) -> Names | None:
        """A value for each type of nodes at an end, where it is the same for all sets there."""
        sets = [
            None if name is None else self._sets_of(name) == {group}
            for name, group in zip(names, self._sets, strict=True)
        ]
        is_alone = self._sets_of(known(names)[0]) == {self._alone}
        if is_alone or (end is End.DST and False not in sets):
            return None  # what each set adds up for its own nodes
        found: dict[str, str] = {}
        for group, name in zip(self._sets, names, strict=True):
            kind = self.ends[group][0 if end is End.SRC else 1]
            if name is not None and found.setdefault(kind, name) != name:
                return None
        for kind in self.node_types:
            first = found.get(kind.partition(COPY)[0])
            if first is not None and not self._sets_of(first):  # copies have the same rows
                found.setdefault(kind, first)
        return tuple(found.get(kind) for kind in self.node_types)

    def _rewritten(self, ops: list[Op | None], space: Space, end: End, hint: str) -> str:
        if not isinstance(_some(ops), Map | Linear | Dot | Reshape | Fold | Concat | Slice):
            raise Unlike
        found = [self._operand(names, space, end) for names in _columns(ops)]
        return self._with_constants(ops, found, hint, Space.ETYPE)


def _are_known(values: Sequence[object]) -> list[bool]:
    return [value is not None for value in values]


def _some(ops: Sequence[Op | None]) -> Op:
    return next(op for op in ops if op is not None)


def _columns(ops: Sequence[Op | None]) -> list[Names]:
    """The first operand of each operator, the second, and so on."""
    count = len(operands(_some(ops)))
    return [tuple(None if op is None else operands(op)[i] for op in ops) for i in range(count)]
