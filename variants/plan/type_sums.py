"""Sums into the rows of types: of which products of rows they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hetune.variants.kernel.nodes import Direct, Gather, Outer, Rows, SegmentSum
from hetune.variants.passes.product import MultiplyChain, multiply_chain
from hetune.variants.passes.rewrite import rewrite
from hetune.variants.plan.context import Context
from hetune.variants.plan.products import edge_rows, operand
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import End, Map, Op, Program, Reduce, Reshape, Space, Take, Type

_Shape = tuple[int, ...]


def with_one_factor(program: Program) -> Program:
    """The program, in which rows that are summed into types have one factor each, or none.

    Factors of both operands of an outer product go before it, or those of heads into the right one,
    and become one value of the rows.
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
    kind = types[op.x]
    rows, heads, k, x = Rows(kind.space, kind.group), 1, 1, None
    core, scale = _scaled(lowering, op.x, heads)
    right = core
    if isinstance(product := ops.get(core), Map) and product.fn == "outer":
        left, right = product.args
        *leading, k = types[left].shape
        heads = leading[0] if leading else 1
        if scale is None:
            right, scale = _scaled(lowering, right, heads)
        x = _operand(lowering, left)
    y, n = _operand(lowering, right), types[right].width // heads
    factor = edge_rows(lowering, scale) if scale else None
    return Outer(out, x, y, rows, heads, k, n, accumulate, factor)


def _scaled(lowering: Context, name: str, heads: int) -> tuple[str, str | None]:
    """Rows without their factor, and the factor, if a kernel multiplies them with it."""
    types = lowering.types
    chain = _chain(lowering.ops, types, name)
    if len(chain.factors) != 1:
        return name, None
    kind = types[chain.factors[0]]
    fits = len(kind.shape) < 2 and (heads == 1 or kind.shape in ((), (heads,)))
    if kind.space is not types[name].space or not fits:
        return name, None
    return chain.core, chain.factors[0]


def _operand(lowering: Context, name: str) -> Direct | Gather | SegmentSum:
    """As of a product; rows of nodes may have another shape, and edges of a group be all's."""
    taken = lowering.ops.get(_below(lowering.ops, name))
    if isinstance(taken, Take) and lowering.types[taken.x].space is Space.NODE:
        return Gather(lowering.buffer(taken.x), taken.end)
    if isinstance(lowering.ops.get(name), Take):
        return Direct(edge_rows(lowering, name))
    # A GPU's kernel walks no edges.
    return operand(lowering, name) if lowering.device == "cpu" else Direct(lowering.buffer(name))


def _below(ops: Mapping[str, Op], name: str) -> str:
    """A value, or what it is under another row shape."""
    while isinstance(op := ops.get(name), Reshape):
        name = op.x
    return name


def _chain(ops: Mapping[str, Op], types: Mapping[str, Type], name: str) -> MultiplyChain:
    """A value as factors and a core, which may have another row shape."""
    return multiply_chain(ops, types, _below(ops, name))


# --- one factor -------------------------------------------------------------------------


def _with_one_factor(builder: Builder, op: Op, name: str) -> str | None:
    if not isinstance(op, Reduce) or not op.space.is_weight:
        return None
    kind = builder.types[op.x]
    if kind.space.is_weight:
        return None
    chain = multiply_chain(builder.ops, builder.types, op.x)
    product = builder.op(chain.core)
    if isinstance(product, Map) and product.fn == "outer":
        rows = _with_one_factor_of_outer(builder, chain, product)
    else:
        rows = _with_factors(builder, op.x, [])
    return builder.emit(Reduce(rows, op.space, op.fn, op.end), name)


def _with_one_factor_of_outer(builder: Builder, chain: MultiplyChain, outer: Map) -> str:
    left, right = outer.args
    heads = builder.types[left].shape[:-1]
    unfit = [f for f in chain.factors if not _is_scale(builder, f, heads)]
    factors = [f for f in chain.factors if f not in unfit]
    left, found = _without_factors(builder, left, heads)
    right, more = _without_factors(builder, right, heads)
    factors += [*found, *more]
    left = _product(builder, [*unfit, left])
    if _chain(builder.ops, builder.types, right).factors:
        whole = [f for f in factors if not builder.types[f].shape]
        right, factors = (
            _with_factors(builder, right, whole),
            [f for f in factors if f not in whole],
        )
    made = builder.emit(Map("outer", (left, right)), chain.core)
    return _times(builder, factors, made)


def _with_factors(builder: Builder, name: str, factors: list[str]) -> str:
    """A value with all its factors, and others, as one."""
    chain = _chain(builder.ops, builder.types, name)
    rows = _times(builder, [*chain.factors, *factors], chain.core)
    shape = builder.types[name].shape
    same = builder.types[rows].shape == shape
    return rows if same else builder.emit(Reshape(rows, shape), name)


def _without_factors(builder: Builder, name: str, heads: _Shape) -> tuple[str, list[str]]:
    """An operand without its factors, if each of them is a factor of whole rows or heads."""
    chain = _chain(builder.ops, builder.types, name)
    shape = builder.types[name].shape
    same = builder.types[chain.core].shape == shape
    if not all(_is_scale(builder, factor, heads if same else ()) for factor in chain.factors):
        return name, []
    core = chain.core if same else builder.emit(Reshape(chain.core, shape), name)
    return core, [*chain.factors]


def _is_scale(builder: Builder, factor: str, heads: _Shape) -> bool:
    return builder.types[factor].shape in ((), heads)


def _times(builder: Builder, factors: list[str], rows: str) -> str:
    """Rows times one value of their own: the product of the factors."""
    if not factors:
        return rows
    scale = _product(builder, sorted(factors, key=lambda f: len(builder.types[f].shape)))
    own, kind = builder.types[scale], builder.types[rows]
    if kind.space is Space.SHARED:  # a weight that rows are multiplied with
        rows = builder.emit(Take(rows, own.space, End.NONE, own.group), f"{rows}_rows")
    elif own.space is not kind.space:
        scale = builder.emit(Take(scale, kind.space, End.NONE, kind.group), f"{scale}_rows")
    return builder.emit(Map("mul", (scale, rows)), f"{rows}_scaled")


def _product(builder: Builder, names: list[str]) -> str:
    found, *others = names
    for name in others:
        found = builder.emit(Map("mul", (found, name)), f"{name}_scaled")
    return found
