"""Product first: a linear map that makes rows narrower comes before sums over edges."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hetune.variants.passes.product import multiply, multiply_chain
from hetune.variants.passes.rewrite import rewrite
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    Linear,
    Map,
    Op,
    Program,
    Reduce,
    Space,
    Take,
    with_operands,
)


@dataclass(frozen=True, slots=True)
class ProductFirst:
    """Turns ``(A x) @ W`` into ``A (x @ W)``, and ``A u + A v`` into ``A (u + v)``.

    ``A`` stands for any number of sums over edges with a number for each edge, each node or all.
    The program stays as it is where that would not make rows of sums narrower in all, or products
    larger. ``sum_k A^k x W_k`` becomes Horner's form ``x W_0 + A (x W_1 + A (...))``. What is
    better follows from widths alone: SENSEi prunes its trees so.
    """

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        moved = rewrite(rewrite(program, _product_first), _sums_together)
        before, after = edge_elements(program), edge_elements(moved)
        if after >= before or _multiplications(moved) > _multiplications(program):
            return program
        return moved


def edge_elements(program: Program) -> int:
    """Elements of all rows that are summed for each edge."""
    types = program.types
    reduced = (types[let.op.x] for let in program.lets if isinstance(let.op, Reduce))
    return sum(kind.width for kind in reduced if kind.space is Space.EDGE)


def _multiplications(program: Program) -> int:
    """Of all linear maps, for each row."""
    types = program.types
    products = (let.op for let in program.lets if isinstance(let.op, Linear))
    return sum(types[op.w].width for op in products)


def _product_first(builder: Builder, op: Op, hint: str) -> str | None:
    """A product of sums as sums of a product, where all of them start from one value."""
    if not isinstance(op, Linear) or builder.types[op.w].space is not Space.SHARED:
        return None
    rows = builder.types[op.x]
    if len(rows.shape) != 1 or builder.types[op.w].width >= rows.width**2:
        return None
    order = _linear_order(builder, op.x)
    if len(order) == 1 or sum(not parts for parts in order.values()) != 1:
        return None
    made: dict[str, str] = {}
    for name, parts in order.items():
        inner = builder.op(name)
        if not parts:
            made[name] = builder.emit(replace(op, x=name), hint)
        elif isinstance(inner, Reduce):
            made[name] = _sum_of(builder, inner, made[parts[0]], hint)
        elif isinstance(inner, Map):
            args = tuple(made[arg] if arg in parts else arg for arg in inner.args)
            made[name] = builder.emit(with_operands(inner, args), hint)
    return made[op.x]


def _linear_order(builder: Builder, name: str) -> dict[str, tuple[str, ...]]:
    """A value and those that it is a linear function of, each after its own parts."""
    found: dict[str, tuple[str, ...]] = {}
    stack = [name]
    while stack:
        parts = _linear_parts(builder, stack[-1])
        missing = [part for part in parts if part not in found]
        if missing:
            stack += reversed(missing)
        else:
            found[stack.pop()] = parts
    return found


def _linear_parts(builder: Builder, name: str) -> tuple[str, ...]:
    """The rows of nodes that a value is a linear function of; none if it is none."""
    kind = builder.types[name]
    match builder.op(name):
        case Reduce() as op if (sent := _sent(builder, op)) is not None:
            return (sent.x,)
        case Map("add" | "sub", args) if all(builder.types[a] == kind for a in args):
            return args
        case Map("scale", args):
            return args
        case Map("mul", (x, y)) if kind.shape:
            rows = [a for a in (x, y) if builder.types[a].shape]
            return tuple(rows) if len(rows) == 1 and builder.types[rows[0]] == kind else ()
        case Map("div", (x, y)) if kind == builder.types[x] and not builder.types[y].shape:
            return (x,)
    return ()


def _sent(builder: Builder, op: Reduce) -> Take | None:
    """The rows of nodes of which a sum into nodes has some, each times numbers of its edge."""
    if op.fn != "sum" or (op.space, builder.types[op.x].space) != (Space.NODE, Space.EDGE):
        return None
    chain = multiply_chain(builder.ops, builder.types, op.x)
    take = builder.op(chain.core)
    if not isinstance(take, Take) or builder.types[take.x].space is not Space.NODE:
        return None
    return None if any(builder.types[f].shape for f in chain.factors) else take


def _sum_of(builder: Builder, op: Reduce, rows: str, hint: str) -> str:
    """What a sum is of other rows."""
    take, chain = _sent(builder, op), multiply_chain(builder.ops, builder.types, op.x)
    assert take is not None
    sent = builder.emit(replace(take, x=rows), f"{rows}_sent")
    weighted = multiply(builder, sent, chain.factors[::-1])
    return builder.emit(replace(op, x=weighted), hint)


def _sums_together(builder: Builder, op: Op, hint: str) -> str | None:
    match op:
        case Map("add", (x, y)) if builder.types[x] == builder.types[y]:
            return _added(builder, x, y, hint)
    return None


def _added(builder: Builder, x: str, y: str, hint: str) -> str:
    """The sum of two values, with sums over edges that they have in common added up before."""
    merged = _merged(builder, x, y, hint)
    return builder.emit(Map("add", (x, y)), hint) if merged is None else merged


def _merged(builder: Builder, x: str, y: str, hint: str) -> str | None:
    one, other = builder.op(x), builder.op(y)
    if isinstance(one, Reduce) and isinstance(other, Reduce):
        return _same_sum(builder, one, other, hint)
    if isinstance(one, Map) and one.fn == "add" and isinstance(other, Reduce):
        for term, rest in (one.args, one.args[::-1]):
            if builder.types[term] == builder.types[rest] == builder.types[y]:
                found = _merged(builder, term, y, hint)
                if found is not None:
                    return builder.emit(Map("add", (rest, found)), hint)
    return None


def _same_sum(builder: Builder, one: Reduce, other: Reduce, hint: str) -> str | None:
    """``A u + A v`` as ``A (u + v)``."""
    u, v = _sent(builder, one), _sent(builder, other)
    if (
        u is None
        or v is None
        or replace(u, x=v.x) != v
        or (one.end, one.fn) != (other.end, other.fn)
    ):
        return None
    factors = [multiply_chain(builder.ops, builder.types, op.x).factors for op in (one, other)]
    if sorted(factors[0]) != sorted(factors[1]):
        return None
    return _sum_of(builder, one, _added(builder, u.x, v.x, f"{hint}_rows"), hint)
