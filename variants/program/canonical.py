"""The canonical form of a program, by which programs are told apart.

Programs that differ in names, in the order of their parameters and values, or in values that no
result needs, have one canonical form.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import replace

from hetune.variants.program.nodes import Let, Param, Program, operands, with_operands
from hetune.variants.program.text import show

_NAME = "layer"


@functools.lru_cache(maxsize=4096)
def canonical(program: Program) -> Program:
    """The same program in its canonical form.

    Parameters and values come in the order in which a walk from the results, operand by operand,
    meets them; what it does not meet is left out. They are called ``x0, x1, ...`` (features),
    ``w0, w1, ...`` (weights) and ``v0, v1, ...`` (values).
    """
    defined: tuple[Param | Let, ...] = (*program.params, *program.lets)
    values = {value.name: value for value in defined}
    names: dict[str, str] = {}
    params: list[Param] = []
    lets: list[Let] = []
    for name in _in_order(program.results, values):
        match values[name]:
            case Param(role=role) as param:
                letter = "x" if role == "feature" else "w"
                number = sum(known.role == role for known in params)
                names[name] = f"{letter}{number}"
                params.append(replace(param, name=names[name]))
            case Let(op=op) as let:
                names[name] = f"v{len(lets)}"
                reads = tuple(names[operand] for operand in operands(op))
                lets.append(replace(let, name=names[name], op=with_operands(op, reads)))
    return replace(
        program,
        name=_NAME,
        params=tuple(params),
        lets=tuple(lets),
        results=tuple(names[result] for result in program.results),
    )


@functools.lru_cache(maxsize=4096)
def digest(program: Program) -> str:
    """SHA-256 of the canonical form's text, 64 hexadecimal digits."""
    return hashlib.sha256(show(canonical(program)).encode()).hexdigest()


def _in_order(results: tuple[str, ...], values: dict[str, Param | Let]) -> list[str]:
    """The names that results need, each after its operands, result by result."""
    found: dict[str, None] = {}
    stack = [*reversed(results)]
    while stack:
        value = values[stack[-1]]
        reads = operands(value.op) if isinstance(value, Let) else ()
        missing = [name for name in reads if name not in found]
        if missing:
            stack += reversed(missing)
        else:
            found.setdefault(stack.pop())
    return list(found)
