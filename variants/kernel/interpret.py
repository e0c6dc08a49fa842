"""Runs launches on plain tensors: the oracle of the other backends, and the fallback.

Each statement runs over the whole domain at once, kernel after kernel; `verify` has made sure
that a launch's blocks do not see each other, so block order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.functions import apply, inner
from hetune.variants.kernel.interpret_rows import IndexOf, RowTensors
from hetune.variants.kernel.nodes import (
    REDUCTIONS,
    Apply,
    Def,
    Direct,
    EdgeSoftmax,
    Expr,
    Factor,
    FoldAxis,
    ForEach,
    Gather,
    Gemm,
    Init,
    Inner,
    Launch,
    Outer,
    Read,
    Rows,
    SegmentSum,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.program.apply import fold
from hetune.variants.program.nodes import End, Space, Type


def interpret(
    launch: Launch,
    values: Mapping[str, torch.Tensor],
    index_of: IndexOf,
    graph: HeteroGraph,
) -> None:
    """Run a verified launch.

    Args:
        launch: The launch; `verify` accepts it.
        values: A contiguous tensor for each buffer, [rows, *shape] or [rows, width] (a row shape
            of () also [rows]), all of one floating dtype on one device, but for buffers of
            bfloat16. Written in place.
        index_of: The index of each group that the launch names.
        graph: The graph that the indexes belong to.

    Raises:
        InputError: A tensor is missing, or its shape or dtype does not fit.
    """
    machine = _Machine(launch, values, index_of, graph)
    for kernel in launch.kernels:
        match kernel:
            case Gemm():
                machine.gemm(kernel)
            case Outer():
                machine.outer(kernel)
            case Traversal(rows, body):
                _Loop(machine, rows, None).run(body)


class _Machine(RowTensors):
    """The typed products of a launch."""

    def gemm(self, gemm: Gemm) -> None:
        rows = gemm.rows
        x = self._operand(gemm.factor)
        product = self._product(gemm, x)
        if gemm.scale is not None:
            product *= self._factors(gemm.scale, rows)
        if gemm.bias is not None:
            product += self.read(gemm.bias, rows).view(product.shape)
        if gemm.tail:
            self._tail(gemm, product)
            return
        product = product.reshape(len(x), *self.types[gemm.out].shape)
        if gemm.only is not End.NONE:
            self._write_only(gemm, product)
            return
        if gemm.scatter:
            node = self.node(rows, End.DST)
            assert node is not None
            self.tensors[gemm.out].index_add_(0, node, product)
        else:
            self.write(gemm.out, rows, product, gemm.accumulate)

    def _write_only(self, gemm: Gemm, product: torch.Tensor) -> None:
        """Write the rows of nodes that have an edge at one end, and fill the others if asked to."""
        has_edge = self._has_edge(gemm.only)
        out = self.tensors[gemm.out].view(product.shape)
        if gemm.fill:
            out[~has_edge] = self._filling(gemm, product)[~has_edge].to(out.dtype)
        if gemm.accumulate:
            out[has_edge] += product[has_edge]
        else:
            out[has_edge] = product[has_edge].to(out.dtype)

    def _tail(self, gemm: Gemm, product: torch.Tensor) -> None:
        """Run what becomes of the rows, those that are filled among them."""
        if gemm.only is not End.NONE:
            idle = ~self._has_edge(gemm.only)
            product[idle] = self._filling(gemm, product)[idle]
        loop = _Loop(self, gemm.rows, None)
        loop.run(gemm.tail, {gemm.out: product.reshape(len(product), gemm.heads * gemm.n)})

    def _has_edge(self, end: End) -> torch.Tensor:
        """Whether each node has an edge at that end."""
        index = self.index_of("")
        found = torch.zeros(self.graph.num_targets, dtype=torch.bool, device=self.device)
        found[(index.src if end is End.SRC else index.dst).long()] = True
        return found

    def _filling(self, gemm: Gemm, product: torch.Tensor) -> torch.Tensor:
        """What a zero operand gives."""
        filling = torch.zeros_like(product)
        if gemm.bias is not None:
            filling += self.read(gemm.bias, gemm.rows).view(product.shape)
        return filling

    def _factors(self, name: str, rows: Rows) -> torch.Tensor:
        """Factors of row shape () or (heads,) as [rows, 1 or heads, 1]."""
        return self.read(name, rows).view(self.count(rows), self.types[name].width, 1)

    def outer(self, outer: Outer) -> None:
        """Rows of one type at a time: a matrix per row would take gigabytes."""
        *left, y = map(self._operand, outer.factors)
        x = left[0] if left else torch.ones_like(y[..., : outer.k])
        if outer.scale is not None:
            factors = self._factors(outer.scale, outer.rows)
            parts = factors.shape[1]
            y = (y.view(len(y), parts, outer.heads * outer.n // parts) * factors).view(y.shape)
        out = self.tensors[outer.out].view(-1, outer.heads, outer.k, outer.n)
        if not outer.accumulate:
            out.zero_()
        places = self.places(self.types[outer.out], outer.rows, End.NONE)
        assert places is not None
        for type, chosen in _by_type(places, len(out)):
            out[type] += torch.einsum("mhk,mhn->hkn", x[chosen], y[chosen])

    def _operand(self, factor: Factor) -> torch.Tensor:
        """The rows [rows, heads, k]."""
        match factor.x:
            case Direct(buffer, fn, const):
                found = self.read(buffer, factor.rows)
                found = apply(fn, [found], const) if fn else found
            case Gather(buffer, end):
                found = self.read(buffer, factor.rows, end)
            case SegmentSum(buffer, end, weight):
                edges = Rows(Space.EDGE, factor.rows.group)
                summand = self.read(buffer, edges, end)
                summand = summand.view(len(summand), self.types[buffer].width // factor.k, factor.k)
                if weight is not None:
                    summand = summand * self._factors(weight, edges)
                found = summand.new_zeros(self.count(factor.rows), *summand.shape[1:])
                found.index_add_(0, self.pair(factor.rows.group, Space.DST_PAIR), summand)
        return found.view(self.count(factor.rows), factor.heads, factor.k)

    def _product(self, gemm: Gemm, x: torch.Tensor) -> torch.Tensor:
        """Rows of one type at a time: a weight per row would take gigabytes."""
        weights = self.tensors[gemm.w]
        weights = weights.view(len(weights), gemm.heads, gemm.k, gemm.n)
        if self.types[gemm.w].space is Space.SHARED:
            return torch.einsum("mhk,hkn->mhn", x, weights[0])
        places = self.places(self.types[gemm.w], gemm.rows, End.NONE)
        assert places is not None
        product = x.new_empty(len(x), gemm.heads, gemm.n)
        for type, chosen in _by_type(places, len(weights)):
            product[chosen] = torch.einsum("mhk,hkn->mhn", x[chosen], weights[type])
        return product


def _by_type(types: torch.Tensor, count: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Each of so many types that has rows, and which."""
    counts = torch.bincount(types, minlength=count).tolist()
    chunks = torch.split(types.argsort(stable=True), counts)
    return ((type, chosen) for type, chosen in enumerate(chunks) if len(chosen))


@dataclass(slots=True)
class _Value:
    """A row value of one loop; of an accumulator also the reduction."""

    tensor: torch.Tensor
    reduce: str = ""


_COMBINES = {
    "sum": "add", "prod": "mul", "maximum": "maximum", "minimum": "minimum", "max": "maximum",
}  # fmt: skip
_SCATTERS = {"prod": "prod", "maximum": "amax", "minimum": "amin", "max": "amax"}


class _Loop:
    """One loop of a nest, over its whole domain: all edges of the group, not one node's."""

    def __init__(self, machine: _Machine, rows: Rows, outer: _Loop | None) -> None:
        self._machine, self._rows, self._outer = machine, rows, outer
        self._values: dict[str, _Value] = {}

    def run(
        self, body: tuple[Stmt, ...], given: Mapping[str, torch.Tensor] = MappingProxyType({})
    ) -> None:
        """Run statements, with values that there are already."""
        self._values |= {name: _Value(tensor) for name, tensor in given.items()}
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: Stmt) -> None:
        match statement:
            case Def(name, shape, expr):
                value = self._evaluate(expr)
                self._values[name] = _Value(value.reshape(len(value), *shape))
            case Init():
                self._init(statement)
            case Update(name, value):
                owner = self._owner(name)
                places = self._places_in(owner)
                owner._add(name, places, self._value(value))
            case Write(buffer, value, accumulate):
                self._machine.write(buffer, self._rows, self._value(value), accumulate)
            case ForEach(rows, body):
                _Loop(self._machine, rows, self).run(body)
            case EdgeSoftmax():
                self._softmax(statement)

    def _init(self, init: Init) -> None:
        dtype = self._machine.dtype
        size = (self._machine.count(self._rows), *init.shape)
        tensor = torch.full(size, REDUCTIONS[init.reduce], dtype=dtype, device=self._machine.device)
        self._values[init.name] = _Value(tensor, init.reduce)

    def _softmax(self, softmax: EdgeSoftmax) -> None:
        machine = self._machine
        every = Rows(Space.EDGE)
        size = (machine.count(every), *softmax.shape)
        shares = torch.empty(size, dtype=machine.dtype, device=machine.device)
        edges = _Loop(machine, softmax.rows, self)
        row = edges._places_in(self)
        assert row is not None
        for part in softmax.scores:
            loop = _Loop(machine, part.rows, self)
            loop.run(part.body)
            shares[loop._positions()] = loop._value(part.value)
        scores = shares[edges._positions()]
        index = row.view(-1, *(1 for _ in softmax.shape)).expand_as(scores)
        top = scores.new_full((machine.count(self._rows), *softmax.shape), -torch.inf)
        power = torch.exp(scores - top.scatter_reduce(0, index, scores, "amax")[row])
        total = torch.zeros_like(top).index_add(0, row, power)
        shares[edges._positions()] = share = power / total[row]
        if softmax.buffer:
            machine.write(softmax.buffer, softmax.rows, share, accumulate=False)
        for each in softmax.sums:
            self._weigh(each, softmax.name, shares)

    def _weigh(self, each: ForEach, name: str, shares: torch.Tensor) -> None:
        """Run a loop of sums, in whose edges a share is given."""
        loop = _Loop(self._machine, each.rows, self)
        if each.rows.space is Space.EDGE:
            loop.run(each.body, {name: shares[loop._positions()]})
            return
        for statement in each.body:
            if isinstance(statement, ForEach):
                loop._weigh(statement, name, shares)
            else:
                loop._statement(statement)

    def _positions(self) -> torch.Tensor | slice:
        """Where each of the loop's edges is among all."""
        places = self._machine.places(Type(Space.EDGE, ()), self._rows, End.NONE)
        return slice(None) if places is None else places

    def _owner(self, name: str) -> _Loop:
        loop = self
        while name not in loop._values:
            assert loop._outer is not None, f"{name!r} is undefined: the launch is not verified"
            loop = loop._outer
        return loop

    def _places_in(self, outer: _Loop) -> torch.Tensor | None:
        """The row of an enclosing loop that each row of this loop lies in."""
        if outer is self:
            return None
        if outer._rows.space is Space.NODE:
            return self._machine.node(self._rows, End.DST)
        return self._machine.pair(self._rows.group, outer._rows.space)

    def _value(self, name: str) -> torch.Tensor:
        owner = self._owner(name)
        places = self._places_in(owner)
        tensor = owner._values[name].tensor
        return tensor if places is None else tensor[places]

    def _add(self, name: str, places: torch.Tensor | None, value: torch.Tensor) -> None:
        """Out of place: other names may hold the tensor."""
        held = self._values[name]
        if places is None:
            held.tensor = apply(_COMBINES[held.reduce], [held.tensor, value], None)
        elif held.reduce == "sum":
            held.tensor = held.tensor.index_add(0, places, value)
        else:
            index = places.view(-1, *(1 for _ in value.shape[1:])).expand_as(value)
            held.tensor = held.tensor.scatter_reduce(0, index, value, _SCATTERS[held.reduce])

    def _evaluate(self, expr: Expr) -> torch.Tensor:
        match expr:
            case Read(buffer, end):
                return self._machine.read(buffer, self._rows, end)
            case Apply(fn, args, const):
                return apply(fn, [self._value(arg) for arg in args], const)
            case Inner(x, y):
                return inner(self._value(x), self._value(y))
            case FoldAxis(x, axis, fn):
                return fold(fn, self._value(x), axis + 1)
