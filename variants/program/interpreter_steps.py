"""The order in which a program is interpreted, found once for each program."""

from __future__ import annotations

from typing import NamedTuple

from hetune.variants.program.nodes import Let, Program, Type, operands
from hetune.variants.program.outer_sums import outer_products

_MOST = 1024
_KNOWN: dict[tuple[int, frozenset[str] | None], tuple[Program, InterpreterSteps]] = {}
"""By identity, for hashing a program takes longer."""


class InterpreterStep(NamedTuple):
    """A value to compute.

    Attributes:
        let: It.
        product: The outer product that it adds up by type, which is not computed itself.
        reads: What it is computed of.
        ended: What nothing needs afterwards.
    """

    let: Let
    product: Let | None
    reads: tuple[str, ...]
    ended: tuple[str, ...]


class InterpreterSteps(NamedTuple):
    """The values to compute, in order, and all types."""

    steps: tuple[InterpreterStep, ...]
    types: dict[str, Type]


def steps_of(program: Program, wanted: frozenset[str] | None) -> InterpreterSteps:
    """How a program is interpreted.

    Args:
        program: A verified one.
        wanted: What is asked for; everything if None.
    """
    key = id(program), wanted
    kept = _KNOWN.get(key)
    if kept is None:
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        kept = _KNOWN[key] = program, _steps(program, wanted)
    return kept[1]


def _steps(program: Program, wanted: frozenset[str] | None) -> InterpreterSteps:
    products = {} if wanted is None else outer_products(program, wanted)
    inside = {product.name for product in products.values()}
    lets = [let for let in program.lets if let.name not in inside]
    reads = {let.name: operands(products.get(let.name, let).op) for let in lets}
    last = {name: let.name for let in lets for name in reads[let.name]}
    kept = {*last} if wanted is None else wanted
    return InterpreterSteps(
        tuple(
            InterpreterStep(
                let,
                products.get(let.name),
                reads[let.name],
                tuple(
                    name
                    for name in dict.fromkeys(reads[let.name])
                    if last[name] == let.name and name not in kept
                ),
            )
            for let in lets
        ),
        program.types,
    )
