"""Runs a program on plain torch, value by value: the oracle of every pass and backend.

Slow and complete: any float dtype, any device, differentiable. Edges keep the order in which the
graph was given; pairs are ordered by (edge type, node). Nothing here is shared with the indexes
that compiled variants run on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from functools import cached_property

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.infer import join
from hetune.variants.program.interpreter_steps import steps_of
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Count,
    Dot,
    End,
    Linear,
    Merge,
    Op,
    Param,
    Program,
    Reduce,
    Softmax,
    Space,
    Take,
    Type,
)
from hetune.variants.program.outer_sums import sum_of_outer
from hetune.variants.program.text import show_type

Groups = Mapping[str, tuple[int, ...]]
Typed = tuple[Tensor, Type]


def interpret(
    program: Program, values: Mapping[str, Tensor], graph: HeteroGraph, groups: Groups | None = None
) -> Tensor:
    """The result of a verified program that has one.

    Args:
        program: What to compute.
        values: A tensor for each parameter, ``[rows, *row shape]``, all of one float dtype; a
            shared parameter has one row.
        graph: What to compute it on.
        groups: The edge types of each of the program's groups.

    Returns:
        ``[rows, *row shape]`` of the program's result.

    Raises:
        InputError: A parameter or group is missing, or a tensor does not fit.
    """
    return interpret_all(program, values, graph, groups, {program.result})[program.result]


def interpret_results(
    program: Program, values: Mapping[str, Tensor], graph: HeteroGraph, groups: Groups | None = None
) -> tuple[Tensor, ...]:
    """All results of a verified program; rows of edges in the graph's order. See `interpret`."""
    found = interpret_all(program, values, graph, groups, set(program.results))
    return tuple(found[name] for name in program.results)


def interpret_all(
    program: Program,
    values: Mapping[str, Tensor],
    graph: HeteroGraph,
    groups: Groups | None = None,
    wanted: Set[str] | None = None,
) -> dict[str, Tensor]:
    """The wanted parameters and values of a verified program by name; all if None.

    Others are let go when nothing needs them any more. See `interpret`.
    """
    machine = _Machine(program, graph, dict(groups or {}), _check_dtype(program, values))
    known: dict[str, Tensor] = {}
    for param in program.params:
        known[param.name] = machine.checked(param, values[param.name])
    steps, types = steps_of(program, None if wanted is None else frozenset(wanted))
    for let, product, reads, ended, function, is_direct in steps:
        if function is not None:
            rows = [known[name] for name in reads]
            if not is_direct:
                rows = machine.joined(rows, [types[name] for name in reads], let.type)
            known[let.name] = function(*rows)
        elif product is not None and isinstance(let.op, Reduce):
            x, y = ((known[name], types[name]) for name in reads)
            known[let.name] = machine.sum_of_outer(let.op, product.type, x, y)
        else:
            known[let.name] = machine.run(let.op, let.type, known, types)
        for name in ended:
            del known[name]
    return known if wanted is None else {name: known[name] for name in known if name in wanted}


def _check_dtype(program: Program, values: Mapping[str, Tensor]) -> torch.dtype:
    missing = [param.name for param in program.params if param.name not in values]
    if missing:
        raise InputError(f"no tensor for the parameters {', '.join(missing)}: pass one for each")
    dtypes = {values[param.name].dtype for param in program.params}
    if len(dtypes) > 1 or not all(dtype.is_floating_point for dtype in dtypes):
        found = ", ".join(f"{p.name}: {values[p.name].dtype}" for p in program.params)
        raise InputError(f"parameters need one float dtype, found {found}: convert them")
    return dtypes.pop() if dtypes else torch.get_default_dtype()


class _Rows:
    """A group's edges and pairs, each pair once, with the pair of every edge; as they are read."""

    def __init__(self, graph: HeteroGraph, etypes: tuple[int, ...] | None) -> None:
        self._graph, self._etypes = graph, etypes

    @cached_property
    def edges(self) -> Tensor:
        """Which of the graph's."""
        graph = self._graph
        if self._etypes is None:
            return torch.arange(graph.num_edges, device=graph.device)
        wanted = torch.tensor(self._etypes, dtype=torch.int64, device=graph.device)
        return torch.isin(graph.etype.long(), wanted).nonzero().flatten()

    @cached_property
    def src(self) -> Tensor:
        """The source of each."""
        return self._graph.src.long()[self.edges]

    @cached_property
    def dst(self) -> Tensor:
        """The destination of each."""
        return self._graph.dst.long()[self.edges]

    @cached_property
    def etype(self) -> Tensor:
        """The type of each."""
        return self._graph.etype.long()[self.edges]

    @cached_property
    def src_pair(self) -> tuple[Tensor, Tensor]:
        """Sorted keys ``etype * N + src``, and the position of each edge's key."""
        keys = self.etype * self._graph.num_nodes + self.src
        return _unique(keys)

    @cached_property
    def dst_pair(self) -> tuple[Tensor, Tensor]:
        """Sorted keys ``etype * N + dst``, and the position of each edge's key."""
        keys = self.etype * self._graph.num_nodes + self.dst
        return _unique(keys)

    def pairs(self, space: Space) -> tuple[Tensor, Tensor]:
        """Keys and the pair of each edge, in one of the two pair spaces."""
        match space:
            case Space.SRC_PAIR:
                return self.src_pair
            case Space.DST_PAIR:
                return self.dst_pair
        raise AssertionError(f"{space} is no space of pairs")


class _Machine:
    """Runs operators over one graph."""

    def __init__(
        self,
        program: Program,
        graph: HeteroGraph,
        groups: dict[str, tuple[int, ...]],
        dtype: torch.dtype,
    ) -> None:
        names = [group.name for group in program.groups]
        missing = [name for name in names if name not in groups]
        if missing:
            raise InputError(f"no edge types for the groups {', '.join(missing)}: pass groups=")
        self._graph = graph
        self._dtype = dtype
        self._rows = {name: _Rows(graph, groups[name]) for name in names}
        self._rows[ALL_EDGES] = _Rows(graph, None)

    def checked(self, param: Param, value: Tensor) -> Tensor:
        shape = (self._num_rows(param.type), *param.type.shape)
        if value.shape != shape:
            raise InputError(
                f"parameter {param.name!r} is {show_type(param.type)} and needs the shape "
                f"{list(shape)}, but has {list(value.shape)}"
            )
        if value.device != self._graph.device:
            raise InputError(
                f"parameter {param.name!r} is on {value.device} but the graph is on "
                f"{self._graph.device}: move one of them"
            )
        return value

    def run(
        self, op: Op, out: Type, known: Mapping[str, Tensor], types: Mapping[str, Type]
    ) -> Tensor:
        match op:
            case Take(x, space, end, group):
                index = self._take_index(types[x].space, space, end, group)
                return known[x].index_select(0, index)
            case Linear(x, w):
                return self._linear(known[x], known[w], types[w].space, out)
            case Dot(x, y):
                space, group = join([types[x], types[y]])
                left, right = (
                    self._to_rows(known[name], types[name], Type(space, (), group))
                    for name in (x, y)
                )
                if left.dim() < right.dim():
                    left = left.unsqueeze(1)
                elif right.dim() < left.dim():
                    right = right.unsqueeze(1)
                return (left * right).sum(-1)
            case Reduce(x, space, fn, end):
                index = self._take_index(space, types[x].space, end, types[x].group)
                return _reduce(fn, known[x], index, self._num_rows(out))
            case Softmax(x, over):
                group = types[x].group
                count = self._num_rows(Type(over, (), group))
                index = self._take_index(over, Space.EDGE, End.DST, group)
                return _softmax(known[x], index, count)
            case Count(space, group, end):
                index = self._take_index(space, Space.EDGE, end, group)
                count = self._num_rows(Type(space, (), group))
                return torch.bincount(index, minlength=count).to(self._dtype)
            case Merge(parts):
                return self._merge([(known[part], types[part].group) for part in parts], out)
        raise AssertionError(f"{op} is a function of rows")

    def joined(self, rows: list[Tensor], kinds: list[Type], out: Type) -> list[Tensor]:
        return [self._to_rows(*typed, out) for typed in zip(rows, kinds, strict=True)]

    def sum_of_outer(self, op: Reduce, product: Type, x: Typed, y: Typed) -> Tensor:
        left, right = (self._to_rows(*typed, product) for typed in (x, y))
        index = self._take_index(op.space, product.space, op.end, product.group)
        return sum_of_outer(left, right, index, self._num_rows(Type(op.space)))

    def _num_rows(self, type_: Type) -> int:
        match type_.space:
            case Space.NODE:
                return self._graph.num_targets
            case Space.SOURCE:
                return self._graph.num_sources
            case Space.EDGE:
                return self._rows[type_.group].edges.numel()
            case Space.NTYPE:
                return self._graph.num_ntypes
            case Space.ETYPE:
                return self._graph.num_etypes
            case Space.SHARED:
                return 1
        return self._rows[type_.group].pairs(type_.space)[0].numel()

    def _take_index(self, source: Space, space: Space, end: End, group: str) -> Tensor:
        """For each row of ``space``, the row of ``source`` that it belongs to."""
        rows = self._rows[group]
        match source, space:
            case Space.SHARED, _:
                count = self._num_rows(Type(space, (), group))
                return torch.zeros(count, dtype=torch.int64, device=self._graph.device)
            case Space.NODE, Space.EDGE:
                return rows.src if end is End.SRC else rows.dst
            case Space.SOURCE, Space.EDGE:
                return rows.src
            case ((Space.NODE | Space.SOURCE), _):
                return rows.pairs(space)[0] % max(self._graph.num_nodes, 1)
            case Space.EDGE, _:
                return rows.edges
            case Space.ETYPE, Space.EDGE:
                return rows.etype
            case Space.ETYPE, _:
                return torch.div(
                    rows.pairs(space)[0], max(self._graph.num_nodes, 1), rounding_mode="floor"
                )
            case Space.NTYPE, Space.NODE:
                return self._graph.ntype.long()
            case Space.NTYPE, _:
                graph = self._graph
                ends = graph.etype_src_ntype if end is End.SRC else graph.etype_dst_ntype
                return ends.long()
        return rows.pairs(source)[1]

    def _type_index(self, weight: Space, out: Type) -> Tensor:
        """The row of an ntype or etype value that joins each row of ``out``."""
        return self._take_index(weight, out.space, End.NONE, out.group)

    def _to_rows(self, value: Tensor, type_: Type, out: Type) -> Tensor:
        if type_.space is Space.SHARED or type_.space is out.space:
            return value  # one row broadcasts
        return value[self._type_index(type_.space, out)]

    def _linear(self, x: Tensor, w: Tensor, weight: Space, out: Type) -> Tensor:
        if weight is Space.SHARED:
            return _product(x, w[0])
        index = self._type_index(weight, out)
        order = torch.argsort(index, stable=True)
        counts = torch.bincount(index, minlength=w.shape[0]).tolist()
        parts = [
            _product(part, w[t])
            for t, part in enumerate(torch.split(x[order], counts))
            if counts[t]
        ]
        if not parts:
            return x.new_zeros((x.shape[0], *out.shape))
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(order.numel(), device=order.device)
        return torch.cat(parts)[inverse]

    def _merge(self, parts: list[tuple[Tensor, str]], out: Type) -> Tensor:
        edges = torch.cat([self._rows[group].edges for _, group in parts])
        count = self._num_rows(out)
        if not torch.equal(edges.sort().values, torch.arange(count, device=edges.device)):
            named = ", ".join(group for _, group in parts)
            raise InputError(
                f"the groups {named} are merged but do not hold every edge exactly once: "
                "give groups that part the edge types"
            )
        order = torch.empty_like(edges)
        order[edges] = torch.arange(count, device=edges.device)
        return torch.cat([rows for rows, _ in parts])[order]


def _unique(keys: Tensor) -> tuple[Tensor, Tensor]:
    found, inverse = torch.unique(keys, return_inverse=True)
    return found, inverse


def _product(x: Tensor, w: Tensor) -> Tensor:
    """[n, K] with [K, *out], or [n, H, K] with [H, K, D]."""
    if x.dim() == 3:
        return torch.einsum("nhk,hkd->nhd", x, w)
    return (x @ w.reshape(w.shape[0], -1)).reshape(x.shape[0], *w.shape[1:])


def _segment_sum(x: Tensor, index: Tensor, count: int) -> Tensor:
    return x.new_zeros((count, *x.shape[1:])).index_add(0, index, x)


def _reduce(fn: str, x: Tensor, index: Tensor, count: int) -> Tensor:
    if fn == "sum":
        return _segment_sum(x, index, count)
    empty = x.new_full((count, *x.shape[1:]), 1.0 if fn == "prod" else 0.0)
    segments = index.view(-1, *[1] * (x.dim() - 1)).expand_as(x)
    how = {"max": "amax", "min": "amin", "prod": "prod"}[fn]
    return empty.scatter_reduce(0, segments, x, how, include_self=fn == "prod")


def _softmax(score: Tensor, index: Tensor, count: int) -> Tensor:
    segments = index.view(-1, *[1] * (score.dim() - 1)).expand_as(score)
    # The largest score only shifts: leaving it out of the gradient changes nothing.
    top = score.new_full((count, *score.shape[1:]), -math.inf)
    top = top.scatter_reduce(0, segments, score.detach(), "amax")
    weight = (score - top[index]).exp()
    return weight / _segment_sum(weight, index, count)[index]
