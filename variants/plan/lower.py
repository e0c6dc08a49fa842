"""Lowering: from a program with its choices made to kernels over buffers.

Works backwards from the result. A value gets a buffer when a later kernel must find it there;
everything else is computed in the loops that use it. Sums into nodes accumulate in one buffer,
whichever kernels contribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from functools import cached_property

from hetune.variants.kernel.device import Device
from hetune.variants.kernel.nodes import (
    Apply,
    Buffer,
    Def,
    EdgeSoftmax,
    ForEach,
    Gemm,
    Init,
    Kernel,
    Launch,
    Rows,
    ScoreLoop,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.passes.fuse import fused
from hetune.variants.passes.product import multiply_chain
from hetune.variants.passes.rewrite import users
from hetune.variants.plan.body import Body
from hetune.variants.plan.facts import constants, degrees, reordered_features
from hetune.variants.plan.launches import form_launches, with_scratch
from hetune.variants.plan.narrow import narrowed
from hetune.variants.plan.nodes import BufferView, Plan
from hetune.variants.plan.prepared import prepared
from hetune.variants.plan.products import biased_product, product
from hetune.variants.plan.terms import SumTerm, TermKind, terms_of
from hetune.variants.plan.type_sums import summed_terms, type_sum
from hetune.variants.program.derived_weights import derived_weights
from hetune.variants.program.nodes import (
    Let,
    Linear,
    Map,
    Merge,
    Op,
    Program,
    Reduce,
    Reshape,
    Softmax,
    Space,
    Type,
    operands,
)


def lower(
    program: Program,
    device: Device = "cpu",
    *,
    fuse_sums: bool = True,
    separate_products: bool = False,
    one_pass: bool = False,
    narrow: bool = False,
) -> Plan:
    """Turns a verified program into a plan, whose launches are those that run.

    Args:
        program: The program, after its passes.
        device: What it is to run on: a GPU's softmaxes take in the sums that they weight.
        fuse_sums: Whether a sum that feeds a linear map is computed inside the product's
            kernel, tile by tile, or by a traversal of its own (which suits hubs).
        separate_products: Whether products of destination pairs run over the whole graph, relation
            by relation, rather than block by block: each weight is then loaded once, and their
            results are kept (which suits thousands of relations).
        one_pass: Whether softmaxes take in the sums that they weight on CPUs, too.
        narrow: Whether tables that edges read are stored as bfloat16.

    Raises:
        ProgramError: It has a group without a rule, or no kernel computes it yet.
    """
    return Lowering(program, device, fuse_sums, separate_products).plan(one_pass, narrow)


_REDUCTIONS = {"max": "maximum", "min": "minimum"}
"""What kernels call a program's reductions that have another name there."""


class Lowering:
    """One run of `lower`; `Body` asks it for the buffers that loop bodies read."""

    def __init__(
        self,
        program: Program,
        device: Device = "cpu",
        fuse_sums: bool = True,
        separate_products: bool = False,
    ) -> None:
        self.program = program = prepared(program)
        # Kernels read rows of sources as those of nodes at the end of their edges.
        self.types: Mapping[str, Type] = {
            name: replace(kind, space=Space.NODE) if kind.space is Space.SOURCE else kind
            for name, kind in program.types.items()
        }
        self.ops: Mapping[str, Op] = {let.name: let.op for let in program.lets}
        self.users: Mapping[str, tuple[Let, ...]] = users(program)
        self.device, self.fuse_sums = device, fuse_sums
        self.scatters = not separate_products
        self._kernels: list[Kernel] = []
        self._buffers: dict[str, Type] = {}
        self._views: dict[str, str] = {}
        self._weights = derived_weights(program)
        self._constants = constants(program)
        self._degrees = degrees(program)
        for name in (p.name for p in program.params):
            self._buffers[name] = self.types[name]
        for let in (*self._weights, *self._constants):
            self._buffers[let.name] = let.type
        self.given: Set[str] = frozenset(self._buffers)

    @cached_property
    def _formed(self) -> tuple[tuple[Launch, ...], tuple[str, ...]]:
        """Launches before their kernels are fused, of everything that the results need."""
        results: list[str] = []
        for name in sorted(self.program.results, key=lambda n: self.types[n].space is Space.EDGE):
            self.buffer(name)  # edges last: sums store those that they add up
        for name in self.program.results:
            base = self._base(self.buffer(name))
            results.append(self._copy(name) if base in {*self.given, *results} else base)
        launches = form_launches(
            tuple(self._kernels), self._buffers, self._views, separate_products=not self.scatters
        )
        return with_scratch(launches, self._views, self.given | set(results)), tuple(results)

    def plan(self, one_pass: bool = False, narrow: bool = False) -> Plan:
        """The plan, with softmaxes in one pass and tables in bfloat16 as of `lower`."""
        launches, results = self._formed
        if narrow and not any(param.type.space is Space.SOURCE for param in self.program.params):
            launches = narrowed(launches, self._views, self.given, frozenset(results))
        launches = tuple(fused(launch, self.device, one_pass) for launch in launches)
        buffers = {buffer.name: buffer for launch in launches for buffer in launch.buffers}
        scratch = {buffer.scratch for buffer in buffers.values()}
        used = {self._views.get(name, name) for name in buffers} | set(buffers)
        copies = {name: each.type for name, each in buffers.items() if name not in self._buffers}
        elements = {self._views.get(name, name): each.element for name, each in buffers.items()}
        reordered = {param.name for param in reordered_features(self.program)}
        inputs = set(used)
        for let in reversed(self._constants):
            inputs.update(operands(let.op) if let.name in inputs else ())
        return Plan(
            self.program,
            self._weights,
            tuple(let for let in self._constants if let.name in inputs),
            launches,
            tuple(
                Buffer(name, kind, element=elements[name])
                for name, kind in (self._buffers | copies).items()
                if name in used - scratch - (self.given - reordered) and name not in self._views
            ),
            results,
            tuple(
                BufferView(name, base)
                for name, base in self._views.items()
                if name in used and base not in scratch
            ),
        )

    def _copy(self, name: str) -> str:
        """A buffer of its own for a result that is there already."""
        copy, kind = f"{name}_copy", self._buffer_type(name)
        while copy in self._buffers:
            copy += "_"
        if kind.space.is_weight:
            self._type_sums(copy, name)
            return copy
        body = Body(self, Rows(kind.space))
        body.add(Write(copy, body.value(name)))
        self._buffers[copy] = kind
        self._kernels.append(Traversal(body.rows, tuple(body.statements)))
        return copy

    def _base(self, name: str) -> str:
        return self._views.get(name, name)

    def only_user(self, name: str) -> bool:
        """Whether exactly one value reads ``name``, and the program does not return it."""
        return len(self.users[name]) == 1 and name not in self.program.results

    def accumulates(self, name: str) -> bool:
        """Whether a node value is a sum that kernels add up in a buffer of its own."""
        if name not in self.ops or self.types[name].space is not Space.NODE:
            return False
        return any(term.accumulates for term in terms_of(self, name))

    def buffer(self, name: str) -> str:
        """The buffer that holds a value; emits the kernels that fill it, once."""
        if name in self._buffers:
            return name
        match self.ops[name]:
            case Reshape(x=x, shape=shape):
                return self.view(self.buffer(x), shape)
            case _ if self.types[name].space.is_weight:
                self._type_sums(name, name)
            case Linear() as op:
                self._gemm(name, product(self, name, name, op))
            case Softmax() as op:
                self._softmax(name, op)
            case Merge(parts=parts):
                loops = tuple(self._store_edges(name, part) for part in parts)
                self._buffers[name] = self.types[name]
                self._kernels.append(Traversal(Rows(Space.NODE), loops))
            case Reduce(space=Space.DST_PAIR) as op:
                self._reduce_pairs(name, op)
            case Reduce(fn=fn) as op if fn != "sum":
                self._reduce_nodes(name, op)
            case Map(fn="add", args=(rows, bias)) if linear := biased_product(self, rows, bias):
                self._gemm(name, product(self, name, rows, linear, bias=bias))
            case _:
                self._node_terms(name)
        return name

    def _buffer_type(self, name: str) -> Type:
        kind = self.types[name]
        # Edge buffers hold all edges, whichever group writes them.
        return Type(kind.space, kind.shape) if kind.space is Space.EDGE else kind

    def view(self, name: str, shape: tuple[int, ...]) -> str:
        """A name for a buffer under another row shape of the same width."""
        kind = self._buffers[name]
        base = self._views.get(name, name)
        if self._buffers[base].shape == shape:
            return base
        view = f"{base}_as_{'x'.join(map(str, shape))}"
        self._buffers[view] = kind.with_shape(*shape)
        self._views[view] = base
        return view

    # --- sums into nodes ----------------------------------------------------------------

    def _node_terms(self, name: str) -> None:
        """Fills a buffer with a sum of terms: products first, then what accumulates."""
        terms = terms_of(self, name)
        if not any(term.accumulates for term in terms):
            self._map(name)
            return
        ordered = sorted(terms, key=lambda term: term.kind.value)
        extras = [term.name for term in terms if term.kind is TermKind.VALUE]
        products = [term for term in ordered if term.kind is TermKind.PRODUCT]
        bias = self._bias(products, extras)
        written = False
        for term in ordered:
            match term.kind:
                case TermKind.PRODUCT:
                    op = self.ops[term.name]
                    assert isinstance(op, Linear)
                    gemm = product(self, name, term.name, op, bias=bias, accumulate=written)
                    self._gemm(name, gemm)
                    bias = None
                case TermKind.EDGES:
                    self._sum_edges(name, term, extras, accumulate=written)
                case TermKind.PAIRS:
                    if not written:
                        self._store_sum(name, extras)
                        extras = []
                    self._scatter(name, term)
                case TermKind.VALUE:
                    continue
            written = True
        if extras:
            self._store_sum(name, extras, accumulate=True)

    def _bias(self, products: list[SumTerm], extras: list[str]) -> str | None:
        """A weight among the terms that the first product can start from."""
        if not products:
            return None
        op = self.ops[products[0].name]
        assert isinstance(op, Linear)
        for name in extras:
            kind = self.types[name]
            if kind.space is Space.SHARED or kind.space is self.types[op.w].space is Space.NTYPE:
                extras.remove(name)
                return name
        return None

    def _store_sum(self, name: str, terms: list[str], *, accumulate: bool = False) -> None:
        body = Body(self, Rows(Space.NODE))
        if terms:
            total = body.total(terms, self.types[name].shape)
        else:
            total = "zero"
            body.add(Init(total, self.types[name].shape, "sum"))
        body.add(Write(name, total, accumulate))
        self._traverse(name, body)

    def _sum_edges(self, name: str, term: SumTerm, extras: list[str], *, accumulate: bool) -> None:
        body = Body(self, Rows(Space.NODE))
        shape = self.types[term.rows].shape
        total = f"{name}_sum"
        body.add(Init(total, shape, "sum"))
        edges = body.inner(Rows(self.types[term.rows].space, self.types[term.rows].group))
        value = edges.value(term.rows)
        is_result = term.rows in self.program.results and isinstance(self.ops.get(term.rows), Map)
        if is_result and edges.rows.space is Space.EDGE and term.rows not in self._buffers:
            self._buffers[term.rows] = self._buffer_type(term.rows)
            edges.add(Write(term.rows, value))
        edges.add(Update(total, value))
        body.loop(edges)
        fitting = [extra for extra in extras if self.types[extra].shape == shape]
        if fitting:
            total = body.total(fitting, shape, start=total)
            extras[:] = [extra for extra in extras if extra not in fitting]
        self._buffers.setdefault(name, self.types[name])
        body.add(Write(self.view(name, shape), total, accumulate))
        self._traverse(name, body)

    def _reduce_pairs(self, name: str, op: Reduce) -> None:
        body = Body(self, Rows(Space.DST_PAIR, self.types[name].group))
        body.add(Write(name, self._reduced(body, name, op)))
        self._traverse(name, body)

    def _reduce_nodes(self, name: str, op: Reduce) -> None:
        body = Body(self, Rows(Space.NODE))
        total = self._reduced(body, name, op)
        if op.fn != "prod":
            degree = body.value(self._degrees[self.types[op.x].group])
            total = body.define(name, self.types[name].shape, Apply("mask", (degree, total)))
        body.add(Write(name, total))
        self._traverse(name, body)

    def _reduced(self, body: Body, name: str, op: Reduce) -> str:
        """A local name for what a row's edges or pairs come to; each has one, or all is lost."""
        total, kind = f"{name}_{op.fn}", self.types[op.x]
        body.add(Init(total, kind.shape, _REDUCTIONS.get(op.fn, op.fn)))
        inner = body.inner(Rows(kind.space, kind.group))
        inner.add(Update(total, inner.value(op.x)))
        body.loop(inner)
        return total

    def _type_sums(self, out: str, name: str) -> None:
        for term in summed_terms(self, name):
            sums = type_sum(self, out, term, accumulate=out in self._buffers)
            self._buffers[out] = self.types[name]
            self._kernels.append(sums)

    # --- products -----------------------------------------------------------------------

    def _scatter(self, name: str, term: SumTerm) -> None:
        chain = multiply_chain(self.ops, self.types, term.rows)
        op = self.ops[chain.core]
        assert isinstance(op, Linear)
        scale = self.buffer(chain.factors[0]) if chain.factors else None
        self._gemm(name, product(self, name, chain.core, op, scale=scale, scatter=True))

    def _gemm(self, out: str, gemm: Gemm) -> None:
        self._buffers.setdefault(out, self._buffer_type(out))
        self._kernels.append(gemm)

    # --- loops --------------------------------------------------------------------------

    def _map(self, name: str) -> None:
        kind = self.types[name]
        body = Body(self, Rows(kind.space, kind.group))
        body.add(Write(name, body.value(name, inline=True)))
        self._traverse(name, body)

    def _store_edges(self, name: str, part: str) -> Stmt:
        edges = Body(self, Rows(Space.EDGE, self.types[part].group))
        edges.add(Write(name, edges.value(part)))
        return ForEach(edges.rows, tuple(edges.statements))

    def _softmax(self, name: str, op: Softmax) -> None:
        group, rows = self.types[name].group, Rows(Space.NODE)
        parts: tuple[str, ...] = (op.x,)
        merge = self.ops.get(op.x)
        if op.over is Space.DST_PAIR:
            rows = Rows(op.over, group)  # whose edges are of one group: none of a merge's parts
        elif isinstance(merge, Merge) and self.only_user(op.x):
            parts = merge.parts
        scores = tuple(self._scores(part) for part in parts)
        edges, shape = Rows(Space.EDGE, group), self.types[name].shape
        self._buffers[name] = self._buffer_type(name)
        softmax = EdgeSoftmax(name, shape, edges, scores, buffer=name)
        self._kernels.append(Traversal(rows, (softmax,)))

    def _scores(self, part: str) -> ScoreLoop:
        edges = Body(self, Rows(Space.EDGE, self.types[part].group))
        value = edges.value(part)
        definitions = tuple(s for s in edges.statements if isinstance(s, Def))
        return ScoreLoop(edges.rows, definitions, value)

    def _traverse(self, name: str, body: Body) -> None:
        self._buffers.setdefault(name, self._buffer_type(name))
        self._kernels.append(Traversal(body.rows, tuple(body.statements)))
