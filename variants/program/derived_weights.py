"""Values that are computed of weights alone."""

from __future__ import annotations

from hetune.variants.program.nodes import Let, Program, operands


def derived_weights(program: Program) -> tuple[Let, ...]:
    """Values in weight spaces that depend on the parameters alone."""
    known = {param.name for param in program.params if param.type.space.is_weight}
    found: list[Let] = []
    for let in program.lets:
        if let.type.space.is_weight and known.issuperset(operands(let.op)):
            known.add(let.name)
            found.append(let)
    return tuple(found)
