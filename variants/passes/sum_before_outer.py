"""Sums into types of products of both ends: one end's rows are added up first."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hetune.variants.passes.product import multiply, multiply_chain
from hetune.variants.passes.rewrite import rewrite
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    ALL_EDGES,
    COMPLEMENTS,
    Count,
    Einsum,
    End,
    Group,
    Map,
    Op,
    Program,
    Reduce,
    Reshape,
    Space,
    Take,
    operands,
    with_operands,
)


@dataclass(frozen=True, slots=True)
class SumBeforeOuter:
    """Turns ``sum_e x[src] (outer) y_e`` into ``sum_pairs x[src] (outer) (sum_e y_e)``.

    The sum is of an edge type, or of all edges; then sources are taken once for each node. So is
    the gradient of a weight (Hector's `EdgeOuterProduct`), with an outer product for each edge,
    computed with one for each (node, edge type) pair. The sums of a pair are those of the rows' own
    gradient.

    Attributes:
        ends: The ends whose rows may be taken once for each pair; the first is tried first.
    """

    ends: tuple[End, ...]

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return rewrite(program, self._rule)

    def _rule(self, builder: Builder, op: Op, hint: str) -> str | None:
        if not isinstance(op, Reduce) or op.space not in (Space.ETYPE, Space.SHARED):
            return None
        found = (_first_at(builder, op, end, hint) for end in self.ends)
        return next((made for made in found if made is not None), None)


@dataclass(frozen=True, slots=True)
class SplitOuter:
    """`SumBeforeOuter` for each edge type on the side where it has fewer pairs.

    One group's sums are the graph's, and the other's those of the reversed graph, on which its rule
    is a usual one.
    """

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return rewrite(program, _split)


_SPLIT = tuple(
    (end, Group(rule.value, rule))
    for end, rule in zip((End.SRC, End.DST), COMPLEMENTS[1], strict=True)
)


def _split(builder: Builder, op: Op, hint: str) -> str | None:
    if not isinstance(op, Reduce) or op.space is not Space.ETYPE:
        return None
    if builder.types[op.x].group != ALL_EDGES or _first_at(builder, op, End.SRC, hint) is None:
        return None
    product, parts = builder.ops[op.x], []
    for end, group in _SPLIT:
        builder.declare(group)
        args = tuple(_of_group(builder, arg, group.name) for arg in operands(product))
        rows = builder.emit(with_operands(product, args), "outer")
        part = _first_at(builder, replace(op, x=rows), end, f"{hint}_{group.name}")
        if part is None:
            return None
        parts.append(part)
    return builder.emit(Map("add", tuple(parts)), hint)


def _of_group(builder: Builder, name: str, group: str) -> str:
    """Edge rows for a group's edge types only: what other stages make is of all edges."""
    op, hint, space = builder.op(name), f"{name}_{group}", builder.types[name].space
    if not space.is_edgewise:
        return name
    match op:
        case Take(x=x) if not builder.types[x].space.is_edgewise or _is_counted(builder, x):
            return builder.emit(replace(op, x=_of_group(builder, x, group), group=group), hint)
        case Count():
            return builder.emit(replace(op, group=group), hint)
        case Map() | Reshape() if space is not Space.EDGE or _is_product(builder, op):
            parts = tuple(_of_group(builder, arg, group) for arg in operands(op))
            return builder.emit(with_operands(op, parts), hint)
    return builder.emit(Take(name, Space.EDGE, group=group), hint)


def _is_product(builder: Builder, op: Op) -> bool:
    """Whether it is rows of nodes times something, that nobody needs of other edges."""
    shapes = {builder.types[arg].shape for arg in operands(op)}
    is_copy = (isinstance(builder.op(arg), Take | Count | None) for arg in operands(op))
    return len(shapes) > 1 or isinstance(op, Reshape) or all(is_copy)


def _is_counted(builder: Builder, name: str) -> bool:
    """Whether a value of pairs is made of counts of their edges."""
    op = builder.op(name)
    of_counts = isinstance(op, Map) and all(_is_counted(builder, arg) for arg in op.args)
    return isinstance(op, Count) or of_counts


def _first_at(builder: Builder, op: Reduce, end: End, hint: str) -> str | None:
    """The sum into types, with the rows of an end once for each pair; None if that cannot be."""
    product = builder.op(op.x)
    if not isinstance(product, Map) or product.fn not in ("outer", "mul"):
        return None
    if (op.fn, builder.types[op.x].space) != ("sum", Space.EDGE):
        return None
    found = (_summed_first(builder, op, product, place, end, hint) for place in (0, 1))
    return next((made for made in found if made is not None), None)


def _summed_first(
    builder: Builder, op: Reduce, product: Map, place: int, end: End, hint: str
) -> str | None:
    """The sum, with one operand taken once for each pair or node; None if that cannot be."""
    name, other = product.args[place], product.args[1 - place]
    flat = builder.op(name)
    chain = multiply_chain(
        builder.ops, builder.types, flat.x if isinstance(flat, Reshape) else name
    )
    take = builder.op(chain.core)
    if not isinstance(take, Take) or take.end is not end:
        return None
    if Space.EDGE not in {builder.types[n].space for n in (other, *chain.factors)}:
        return None
    of_heads = [factor for factor in chain.factors if builder.types[factor].shape]
    if op.space is Space.SHARED and end is End.SRC and take.group == ALL_EDGES:
        space, rows = builder.types[take.x].space, take.x
    else:  # destinations without edges may have gradients that are no numbers: pairs have edges
        space = Space.SRC_PAIR if end is End.SRC else Space.DST_PAIR
        rows = builder.emit(replace(take, space=space), f"{take.x}_{space.value}")
    if isinstance(flat, Reshape) and of_heads:
        return _by_heads(builder, op, product, place, hint, (rows, space, end))
    if of_heads and product.fn == "outer" and len(builder.types[other].shape) == 1:
        return None
    if isinstance(flat, Reshape):
        rows = builder.emit(replace(flat, x=rows), f"{rows}_flat")
    summed = _summed(builder, multiply(builder, other, chain.factors[::-1]), space, end)
    args = (rows, summed) if place == 0 else (summed, rows)
    made = builder.emit(replace(product, args=args), "outer")
    return builder.emit(Reduce(made, op.space), hint)


def _by_heads(
    builder: Builder,
    op: Reduce,
    product: Map,
    place: int,
    hint: str,
    to: tuple[str, Space, End],
) -> str | None:
    """``x (outer) flat(a_h g_h)`` as ``(a_h x) (outer) g_h``, with rows of x for each head."""
    flat, other = builder.op(product.args[place]), product.args[1 - place]
    assert isinstance(flat, Reshape)
    rows, space, end = to
    chain = multiply_chain(builder.ops, builder.types, flat.x)
    shape, kind = builder.types[rows].shape, builder.types[other]
    if len(shape) != 2:
        return None
    heads, width = shape
    if place == 0 or product.fn != "outer" or len(kind.shape) != 1:
        return None
    factor = multiply(builder, chain.factors[0], chain.factors[1:])
    if builder.types[factor].shape != (heads,):
        return None
    weighted = builder.emit(Map("outer", (factor, other)), f"{other}_heads")
    made = builder.emit(Map("outer", (_summed(builder, weighted, space, end), rows)), "outer")
    total = builder.emit(Reduce(made, op.space), "sum")
    turned = builder.emit(Einsum("hkd->khd", (total,)), f"{hint}_heads")
    return builder.emit(Reshape(turned, (*kind.shape, heads * width)), hint)


def _summed(builder: Builder, name: str, space: Space, end: End) -> str:
    """The sums of edge rows that meet in a pair or node; what is theirs comes afterwards."""
    op = builder.op(name)
    if isinstance(op, Reshape):
        return builder.emit(replace(op, x=_summed(builder, op.x, space, end)), "sum")
    if isinstance(op, Map) and op.fn == "mul":
        for factor, rows in (op.args, op.args[::-1]):
            if len(builder.types[factor].shape) > len(builder.types[rows].shape):
                continue
            take = builder.op(factor)
            is_pair = space in (Space.SRC_PAIR, Space.DST_PAIR)
            if is_pair and isinstance(take, Take) and builder.types[take.x].space is space:
                return multiply(builder, _summed(builder, rows, space, end), (take.x,))
    by = end if space in (Space.NODE, Space.SOURCE) else End.NONE
    return builder.emit(Reduce(name, space, end=by), "sum")
