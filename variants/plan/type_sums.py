"""Sums into the rows of types: of which products of rows they are."""

from __future__ import annotations

from collections.abc import Iterator

from hetune.variants.kernel.nodes import Direct, Gather, Outer, Rows, SegmentSum
from hetune.variants.passes.product import multiply_chain
from hetune.variants.passes.rewrite import rewrite
from hetune.variants.plan.context import Context
from hetune.variants.plan.products import edge_rows, operand
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import End, Map, Op, Program, Reduce, Reshape, Space, Take

_Shape = tuple[int, ...]


def with_one_factor(program: Program) -> Program:
    """The program, in which rows that are summed into types have one factor each, or none.

    Factors of both operands of an outer product go before it, and become one value of the rows.
    """
    types = program.types
    sums = (let.op for let in program.lets if isinstance(let.op, Reduce))
    if not any(op.space.is_weight and not types[op.x].space.is_weight for op in sums):
        return program
    return rewrite(program, _with_one_factor)


def summed_terms(lowering: Context, name: str) -> Iterator[Reduce]:
    """The sums of rows that a value in a weight space adds up."""
    match lowering.ops[name]:
        case Map(fn="add", args=args):
            for arg in args:
                yield from summed_terms(lowering, arg)
        case Reshape(x=x):
            yield from summed_terms(lowering, x)
        case Reduce() as op:
            yield op


def type_sum(lowering: Context, out: str, op: Reduce, *, accumulate: bool) -> Outer:
    """The kernel of a sum into types; the buffers that it reads are filled before."""
    types, ops = lowering.types, lowering.ops
    kind, chain = types[op.x], multiply_chain(ops, types, op.x)
    rows, core, scale, x = Rows(kind.space, kind.group), op.x, None, None
    factors = [types[name] for name in chain.factors]
    heads = [*factors[0].shape] if factors else []
    if len(factors) == 1 and len(heads) < 2 and factors[0].space is kind.space:
        core, scale = chain.core, edge_rows(lowering, chain.factors[0])
    product = ops.get(core)
    if isinstance(product, Map) and product.fn == "outer":
        left, right = product.args
        *heads, k = types[left].shape
        x, y, n = _operand(lowering, left), _operand(lowering, right), types[right].shape[-1]
    else:
        heads = heads if scale else []
        k, y = 1, _operand(lowering, core)
        n = types[core].width // (heads[0] if heads else 1)
    return Outer(out, x, y, rows, heads[0] if heads else 1, k, n, accumulate, scale)


def _operand(lowering: Context, name: str) -> Direct | Gather | SegmentSum:
    """As of a product; rows of nodes may have another shape, and edges of a group be all's."""
    taken = _op_below(lowering, name)
    if isinstance(taken, Take) and lowering.types[taken.x].space is Space.NODE:
        return Gather(lowering.buffer(taken.x), taken.end)
    if isinstance(lowering.ops.get(name), Take):
        return Direct(edge_rows(lowering, name))
    # A GPU's kernel walks no edges.
    return operand(lowering, name) if lowering.device == "cpu" else Direct(lowering.buffer(name))


def _op_below(lowering: Context, name: str) -> Op | None:
    """The operator of a value, or of what it is under another row shape."""
    while isinstance(op := lowering.ops.get(name), Reshape):
        name = op.x
    return op


def _with_one_factor(builder: Builder, op: Op, name: str) -> str | None:
    if not isinstance(op, Reduce) or not op.space.is_weight:
        return None
    kind = builder.types[op.x]
    if kind.space.is_weight:
        return None
    chain = multiply_chain(builder.ops, builder.types, op.x)
    core, factors = chain.core, [*chain.factors]
    product = builder.op(core)
    if isinstance(product, Map) and product.fn == "outer":
        left, right = product.args
        heads = builder.types[left].shape[:-1]
        unfit = [f for f in factors if not _is_scale(builder, f, heads)]
        factors = [f for f in factors if f not in unfit]
        left, found = _without_factors(builder, left, heads)
        right, more = _without_factors(builder, right, heads)
        factors += [*found, *more]
        left = _product(builder, [*unfit, left])
        core = builder.emit(Map("outer", (left, right)), core)
    else:
        heads = builder.types[core].shape[:1]
        unfit = [f for f in factors if not _is_scale(builder, f, heads)]
        factors = [f for f in factors if f not in unfit]
        core = _product(builder, [*unfit, core])
    if factors:
        scale = _product(builder, sorted(factors, key=lambda f: len(builder.types[f].shape)))
        if builder.types[scale].space is not kind.space:
            take = Take(scale, kind.space, End.NONE, kind.group)
            scale = builder.emit(take, f"{scale}_rows")
        core = builder.emit(Map("mul", (scale, core)), f"{core}_scaled")
    return builder.emit(Reduce(core, op.space, op.fn, op.end), name)


def _without_factors(builder: Builder, name: str, heads: _Shape) -> tuple[str, list[str]]:
    """An operand without its factors, if each of them is a factor of whole rows or heads."""
    chain = multiply_chain(builder.ops, builder.types, name)
    if all(_is_scale(builder, factor, heads) for factor in chain.factors):
        return chain.core, [*chain.factors]
    return name, []


def _is_scale(builder: Builder, factor: str, heads: _Shape) -> bool:
    return builder.types[factor].shape in ((), heads)


def _product(builder: Builder, names: list[str]) -> str:
    found, *others = names
    for name in others:
        found = builder.emit(Map("mul", (found, name)), f"{name}_scaled")
    return found
