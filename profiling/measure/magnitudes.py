"""What sums over types add up: rounding errors are in proportion to that, whatever cancels."""

from __future__ import annotations

from dataclasses import replace

from hetune.variants.program.nodes import Let, Map, Program, Reduce, operands
from hetune.variants.program.outer_sums import outer_products


def with_magnitudes(program: Program) -> tuple[Program, dict[str, str]]:
    """A program that also returns sums of absolute terms.

    Returns:
        The program; and by its results that are sums over types, the results with their terms'
        absolute values summed, which follow its own.
    """
    products = outer_products(program, {*program.results})
    lets: list[Let] = []
    sums: dict[str, str] = {}

    def absolute(name: str) -> str:
        found = Let(f"|{name}|", program.type_of(name), Map("abs", (name,)))
        if found not in lets:
            lets.append(found)
        return found.name

    for let in program.lets:
        lets.append(let)
        is_asked_for = let.name in program.results and let.type.space.is_weight
        if not (is_asked_for and isinstance(let.op, Reduce) and let.op.fn == "sum"):
            continue
        terms, product = f"|{let.op.x}|", products.get(let.name)
        if product is None:
            absolute(let.op.x)
        else:  # without a matrix for each row: |x y'| = |x| |y|'
            factors = tuple(absolute(name) for name in operands(product.op))
            lets.append(Let(terms, product.type, Map("outer", factors)))
        sums[let.name] = f"{let.name} of {terms}"
        lets.append(Let(sums[let.name], let.type, replace(let.op, x=terms)))
    results = (*program.results, *sums.values())
    return replace(program, lets=tuple(lets), results=results), sums
