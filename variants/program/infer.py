"""The types that operators of the inter-operator IR give, and when they give none."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from hetune.variants.errors import ProgramError
from hetune.variants.program.functions import FOLDS, MAP_ARITY, REDUCTIONS, WITH_CONSTANT
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Concat,
    Count,
    Dot,
    Einsum,
    End,
    Fold,
    Linear,
    Map,
    Merge,
    Op,
    Reduce,
    Reshape,
    Slice,
    Softmax,
    Space,
    Take,
    Type,
    ends_between,
    operands,
)
from hetune.variants.program.text import show_space, show_type


def infer(op: Op, types: Mapping[str, Type]) -> Type:
    """The type of the value that `op` gives, from the types of what it reads.

    Raises:
        ProgramError: The operands do not fit the operator; says why and how to mend it.
    """
    given = tuple(map(types.get, operands(op)))
    if None in given:
        name = operands(op)[given.index(None)]
        raise ProgramError(f"{name!r} is not defined before it is used: define it, or reorder")
    return _inferred(op, given)


@lru_cache(maxsize=1 << 14)
def _inferred(op: Op, given: tuple[Type, ...]) -> Type:
    """`infer` of an operator and its operands' types: passes ask for most of them again."""
    match op:
        case Take():
            return _infer_take(op, *given)
        case Linear():
            return _infer_linear(*given)
        case Map():
            return _infer_map(op, given)
        case Dot():
            return _infer_dot(*given)
        case Reduce():
            return _infer_reduce(op, *given)
        case Softmax():
            return _infer_softmax(op, *given)
        case Count(space, group, end):
            return _infer_count(space, group, end)
        case Einsum():
            return _infer_einsum(op, given)
        case Merge():
            return _infer_merge(given)
        case Reshape():
            return _infer_reshape(op, *given)
        case Fold():
            return _infer_fold(op, *given)
        case Concat():
            return _infer_concat(given)
        case Slice():
            return _infer_slice(op, *given)


def join(types: Sequence[Type]) -> tuple[Space, str]:
    """The rows on which values meet; weights join any rows that know their type.

    Returns:
        Space and group of the result.

    Raises:
        ProgramError: They do not meet.
    """
    rows = {(type_.space, type_.group) for type_ in types if not type_.space.is_weight}
    weights = {type_.space for type_ in types if type_.space.is_weight} - {Space.SHARED}
    if len(rows) > 1:
        named = " and ".join(sorted(show_space(*row) for row in rows))
        raise ProgramError(f"operands live in {named}: take or sum them to one space and group")
    if rows:
        (space, group) = rows.pop()
        if Space.ETYPE in weights and not space.is_edgewise:
            raise ProgramError(
                f"an etype value cannot join {space} rows, which have no edge type: "
                "use it on edges or pairs"
            )
        if Space.NTYPE in weights and space is not Space.NODE:
            raise ProgramError(
                f"an ntype value cannot join {space} rows: use it on nodes, or take it to etype"
            )
        return space, group
    if len(weights) > 1:
        raise ProgramError("operands live in etype and ntype: take the ntype value to etype first")
    return (weights.pop() if weights else Space.SHARED), ALL_EDGES


_MOVEMENTS = (
    "from node to edges or pairs, from pairs to edges, from all edges to a group, from etype to "
    "edges or pairs, from ntype to node or etype, and from shared to all"
)


def _infer_take(op: Take, x: Type) -> Type:
    out = Type(op.space, x.shape, op.group)
    if op.group != ALL_EDGES and not op.space.is_edgewise:
        raise ProgramError(f"{op.space} rows have no group: leave @{op.group} out")
    ends = ends_between(x.space, op.space)
    if not ends:
        raise ProgramError(
            f"rows of {x.space} cannot be taken to {op.space}: take goes {_MOVEMENTS}"
        )
    if x.space.is_edgewise and x.space is not Space.EDGE and x.group != op.group:
        raise ProgramError(
            f"{show_type(x)} has rows for the group {x.group!r} but the edges are of "
            f"{op.group!r}: take edges of the same group"
        )
    if x.space is Space.EDGE and (x.group != ALL_EDGES or op.group == ALL_EDGES):
        raise ProgramError("edges are taken from all edges to a named group: use the value itself")
    _check_end(op.end, ends, f"taking {x.space} to {op.space}")
    return out


def _infer_reduce(op: Reduce, x: Type) -> Type:
    if op.fn not in REDUCTIONS:
        raise ProgramError(f"no reduction is called {op.fn!r}: take one of {', '.join(REDUCTIONS)}")
    ends = ends_between(op.space, x.space)
    if not ends:
        raise ProgramError(
            f"rows of {x.space} cannot be reduced to {op.space}: reductions go where take comes "
            f"from, and take goes {_MOVEMENTS}"
        )
    if op.space is Space.EDGE and x.space is Space.EDGE and x.group == ALL_EDGES:
        raise ProgramError(
            "edges are reduced from a named group to all edges: use the value itself"
        )
    _check_end(op.end, ends, f"reducing {x.space} to {op.space}")
    is_pair = op.space.is_edgewise and op.space is not Space.EDGE
    return Type(op.space, x.shape, x.group if is_pair else ALL_EDGES)


def _infer_softmax(op: Softmax, x: Type) -> Type:
    if x.space is not Space.EDGE:
        raise ProgramError(f"scores are {show_type(x)}: softmax needs edge rows")
    if op.over not in (Space.NODE, Space.DST_PAIR):
        raise ProgramError(f"no softmax over {op.over}: take node or dst_pair")
    return x


def _infer_reshape(op: Reshape, x: Type) -> Type:
    check_shape(op.shape, "the result")
    if math.prod(op.shape) != x.width:
        raise ProgramError(
            f"{list(x.shape)} has {x.width} elements but {list(op.shape)} has "
            f"{math.prod(op.shape)}: keep the width"
        )
    return x.with_shape(*op.shape)


def _infer_count(space: Space, group: str, end: End) -> Type:
    match space, end:
        case Space.NODE, End.SRC | End.DST:
            return Type(Space.NODE)
        case (Space.DST_PAIR, End.DST) | (Space.SRC_PAIR, End.SRC):
            return Type(space, (), group)
    raise ProgramError(
        f"{space} has no edges to count at the end {end.name}: count per node or dst_pair, or by "
        "SRC per node or src_pair"
    )


def _check_end(end: End, ends: tuple[End, ...], what: str) -> None:
    if end not in ends:
        wanted = " or ".join(end.name for end in ends)
        raise ProgramError(f"{what} by the end {end.name} is not possible: take {wanted}")


def _infer_linear(x: Type, w: Type) -> Type:
    if not w.space.is_weight:
        raise ProgramError(f"{show_type(w)} is no weight: take one from ntype, etype or shared")
    if x.space.is_weight:
        raise ProgramError(f"{show_type(x)} is a weight: multiply weights with einsum")
    space, group = join([x, w])
    match x.shape, w.shape:
        case (k,), (k_w, *out) if k == k_w:
            return Type(space, tuple(out), group)
        case (h, k), (h_w, k_w, d) if (h, k) == (h_w, k_w):
            return Type(space, (h, d), group)
    raise ProgramError(
        f"row shapes {list(x.shape)} and {list(w.shape)} do not multiply: give [K] and [K,...], "
        "or per head [H,K] and [H,K,D]"
    )


def _infer_map(op: Map, args: Sequence[Type]) -> Type:
    if op.fn not in MAP_ARITY:
        raise ProgramError(f"no function is called {op.fn!r}: take one of {', '.join(MAP_ARITY)}")
    if len(op.args) != MAP_ARITY[op.fn]:
        raise ProgramError(
            f"{op.fn} takes {MAP_ARITY[op.fn]} operands, not {len(op.args)}: name that many"
        )
    if op.fn in WITH_CONSTANT:
        if op.const is None or not math.isfinite(op.const):
            raise ProgramError(f"{op.fn} has the constant {op.const}: give it a finite number")
    elif op.const is not None:
        raise ProgramError(f"{op.fn} takes no constant: leave {op.const} out")
    space, group = join(args)
    if op.fn == "outer":
        match args[0].shape, args[1].shape:
            case (k,), (d,):
                return Type(space, (k, d), group)
            case (h, k), (h_y, d) if h == h_y:
                return Type(space, (h, k, d), group)
        raise ProgramError(
            "outer takes row shapes [K] and [D], or per head [H,K] and [H,D]: reshape the operands"
        )
    longest = max((arg.shape for arg in args), key=len)
    for arg in args:
        if longest[: len(arg.shape)] != arg.shape:
            raise ProgramError(
                f"row shape {list(arg.shape)} is no prefix of {list(longest)}: make the leading "
                "axes equal"
            )
    return Type(space, longest, group)


def _infer_dot(x: Type, y: Type) -> Type:
    space, group = join([x, y])
    longer, shorter = (x.shape, y.shape) if len(x.shape) >= len(y.shape) else (y.shape, x.shape)
    if not shorter or len(longer) - len(shorter) > 1 or longer[-len(shorter) :] != shorter:
        raise ProgramError(
            f"row shapes {list(x.shape)} and {list(y.shape)} have no inner product: give equal "
            "shapes, or leave the leading axis of one out"
        )
    return Type(space, longer[:-1], group)


def _infer_fold(op: Fold, x: Type) -> Type:
    if op.fn not in FOLDS:
        raise ProgramError(f"no fold is called {op.fn!r}: take one of {', '.join(FOLDS)}")
    if not 0 <= op.axis < len(x.shape):
        raise ProgramError(
            f"the row shape {list(x.shape)} has no axis {op.axis}: count its axes from 0"
        )
    return x.with_shape(*x.shape[: op.axis], *x.shape[op.axis + 1 :])


def _infer_concat(parts: Sequence[Type]) -> Type:
    if len(parts) < 2:
        raise ProgramError("there is nothing to put side by side: give two parts or more")
    space, group = join(parts)
    *leading, _ = parts[0].shape or (0,)
    for part in parts:
        if not part.shape or [*part.shape[:-1]] != leading:
            raise ProgramError(
                f"row shapes {list(parts[0].shape)} and {list(part.shape)} do not go side by "
                "side: make all axes equal but the last"
            )
    return Type(space, (*leading, sum(part.shape[-1] for part in parts)), group)


def _infer_slice(op: Slice, x: Type) -> Type:
    if not x.shape or not 0 <= op.start < op.stop <= x.shape[-1]:
        raise ProgramError(
            f"the row shape {list(x.shape)} has no elements {op.start} to {op.stop} on its last "
            "axis: stay within it, and take one at least"
        )
    return x.with_shape(*x.shape[:-1], op.stop - op.start)


def _infer_merge(parts: Sequence[Type]) -> Type:
    groups = [part.group for part in parts]
    for part in parts:
        if part.space is not Space.EDGE or part.group == ALL_EDGES:
            raise ProgramError(f"{show_type(part)} is no group of edges: merge rows of edge@group")
        if part.shape != parts[0].shape:
            raise ProgramError(
                f"row shapes {list(parts[0].shape)} and {list(part.shape)} differ: make them equal"
            )
    if not parts or len(set(groups)) < len(groups):
        raise ProgramError("merge needs one part for each of some groups: name each group once")
    return Type(Space.EDGE, parts[0].shape)


def _infer_einsum(op: Einsum, args: Sequence[Type]) -> Type:
    for arg in args:
        if not arg.space.is_weight:
            raise ProgramError(
                f"{show_type(arg)} is no weight: einsum multiplies weights only, use linear"
            )
    match = re.fullmatch(r"([A-Za-z]*(?:,[A-Za-z]*)*)->([A-Za-z]*)", op.spec)
    if not args or match is None or len(match[1].split(",")) != len(args):
        raise ProgramError(
            f"{op.spec!r} does not name {len(args)} operands and a result: write it like "
            "'khd,hd->hk'"
        )
    extents: dict[str, int] = {}
    for axes, arg in zip(match[1].split(","), args, strict=True):
        if len(axes) != len(arg.shape) or len(set(axes)) != len(axes):
            raise ProgramError(
                f"{axes!r} does not name the axes of the row shape {list(arg.shape)}: give one "
                "letter per axis"
            )
        for axis, extent in zip(axes, arg.shape, strict=True):
            if extents.setdefault(axis, extent) != extent:
                raise ProgramError(
                    f"axis {axis!r} has {extents[axis]} elements in one operand and {extent} in "
                    "another: make them equal"
                )
    if len(set(match[2])) != len(match[2]) or not set(match[2]) <= set(extents):
        raise ProgramError(
            f"the result {match[2]!r} repeats an axis or has one that no operand has: correct it"
        )
    space, group = join(args)
    return Type(space, tuple(extents[axis] for axis in match[2]), group)


def check_shape(shape: tuple[int, ...], where: str) -> None:
    """Refuse extents below 1.

    Raises:
        ProgramError: Starts with ``where``.
    """
    if any(extent < 1 for extent in shape):
        raise ProgramError(f"{where} has the row shape {list(shape)}: extents are at least 1")
