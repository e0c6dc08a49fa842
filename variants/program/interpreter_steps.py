"""The order in which a program is interpreted, found once for each program."""

from __future__ import annotations

from typing import NamedTuple

from hetune.variants.program.by_identity import by_identity
from hetune.variants.program.nodes import Let, Program, Space, Type, operands
from hetune.variants.program.outer_sums import outer_products
from hetune.variants.program.row_functions import RowFunction, row_function


class InterpreterStep(NamedTuple):
    """A value to compute.

    Attributes:
        let: It.
        product: The outer product that it adds up by type, which is not computed itself.
        reads: What it is computed of.
        ended: What nothing needs afterwards.
        function: Computes it of its operands' rows; None where that takes more than these.
        is_direct: Whether operands have a row for each of its own, or one for all.
    """

    let: Let
    product: Let | None
    reads: tuple[str, ...]
    ended: tuple[str, ...]
    function: RowFunction | None
    is_direct: bool


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
    known = _known_steps(program)
    if wanted not in known:
        known[wanted] = _steps(program, wanted)
    return known[wanted]


@by_identity
def _known_steps(program: Program) -> dict[frozenset[str] | None, InterpreterSteps]:
    """Those of a program, by what is asked for."""
    return {}


def _steps(program: Program, wanted: frozenset[str] | None) -> InterpreterSteps:
    products = {} if wanted is None else outer_products(program, wanted)
    inside = {product.name for product in products.values()}
    lets = [let for let in program.lets if let.name not in inside]
    reads = {let.name: operands(products.get(let.name, let).op) for let in lets}
    last = {name: let.name for let in lets for name in reads[let.name]}
    kept, types = {*last} if wanted is None else wanted, program.types
    joined = {let.name: (let.type.space, Space.SHARED) for let in lets}
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
                None if let.name in products else row_function(let.op, types),
                all(types[name].space in joined[let.name] for name in reads[let.name]),
            )
            for let in lets
        ),
        types,
    )
