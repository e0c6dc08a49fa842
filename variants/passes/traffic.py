"""About how many elements operators read and write, whatever the graph: to choose by, not to time.

In units of a node's rows. Graphs have more edges than nodes, and pairs in between.
"""

from __future__ import annotations

from collections.abc import Mapping

from hetune.variants.program.nodes import (
    ALL_EDGES,
    Let,
    Linear,
    Map,
    Reduce,
    Space,
    Take,
    Type,
    operands,
)

_ROWS = {
    Space.EDGE: 4.0,
    Space.SRC_PAIR: 2.0,
    Space.DST_PAIR: 2.0,
    Space.NODE: 1.0,
    Space.SOURCE: 1.0,
}
_OF_GROUP = {Space.EDGE: 0.5, Space.SRC_PAIR: 0.3, Space.DST_PAIR: 0.3}
"""The part of all rows that those of a group are, which has few pairs where it is summed."""
_PRODUCTS = 16
"""Multiplications of a matrix product in the time of one element that is read."""


def to_store(kind: Type) -> float:
    """To write a value and to read it again."""
    return 2 * _rows(kind) * kind.width


def to_compute(let: Let, types: Mapping[str, Type]) -> float:
    """To compute a value from its operands, as a part of a loop that has them."""
    read = [types[name] for name in operands(let.op)]
    rows = max(map(_rows, (let.type, *read)))
    match let.op:
        case Linear(w=w):
            return rows * types[w].width / _PRODUCTS
        case Map(fn="outer"):
            return rows * let.type.width / _PRODUCTS
        case Map():
            return rows * let.type.width / 4
        case Take():
            return rows * let.type.width / 2
        case Reduce() if let.type.space.is_weight:
            return rows  # the operand is not stored
    return rows * max([let.type.width, *(kind.width for kind in read)])


def _rows(kind: Type) -> float:
    part = 1.0 if kind.group == ALL_EDGES else _OF_GROUP[kind.space]
    return part * _ROWS.get(kind.space, 0.0)
