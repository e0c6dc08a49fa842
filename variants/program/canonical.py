"""The canonical form of a program, by which programs are told apart.

Programs that differ in names, in the order of their parameters and values, or in values that no
result needs, have one canonical form.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import replace

from hetune.variants.program.nodes import (
    ALL_EDGES,
    Count,
    Group,
    Let,
    Param,
    Program,
    Take,
    operands,
    with_operands,
)
from hetune.variants.program.text import show

_NAME = "layer"
_LETTERS = {"feature": "x", "constant": "c", "weight": "w"}


@functools.lru_cache(maxsize=4096)
def canonical(program: Program) -> Program:
    """The same program in its canonical form.

    Parameters and values come in the order in which a walk from the results, operand by operand,
    meets them; what it does not meet is left out. They are called ``x0, x1, ...`` (features),
    ``c0, c1, ...`` (constants), ``w0, w1, ...`` (weights) and ``v0, v1, ...`` (values), and groups
    of edge types ``g0, g1, ...`` in the order in which values name them.
    """
    defined: tuple[Param | Let, ...] = (*program.params, *program.lets)
    values = {value.name: value for value in defined}
    names: dict[str, str] = {}
    params: list[Param] = []
    lets: list[Let] = []
    given = {group.name: group for group in program.groups}
    groups: dict[str, Group] = {}

    def renamed(group: str) -> str:
        if group == ALL_EDGES:
            return group
        if group not in groups:
            groups[group] = replace(given[group], name=f"g{len(groups)}")
        return groups[group].name

    for name in _in_order(program.results, values):
        match values[name]:
            case Param(role=role) as param:
                number = sum(known.role == role for known in params)
                names[name] = f"{_LETTERS[role]}{number}"
                type = replace(param.type, group=renamed(param.type.group))
                params.append(Param(names[name], type, role))
            case Let(op=op) as let:
                names[name] = f"v{len(lets)}"
                reads = tuple(names[operand] for operand in operands(op))
                if isinstance(op, Take | Count):
                    op = replace(op, group=renamed(op.group))
                type = replace(let.type, group=renamed(let.type.group))
                lets.append(Let(names[name], type, with_operands(op, reads)))
    results = tuple(names[result] for result in program.results)
    return Program(_NAME, tuple(params), tuple(lets), results, tuple(groups.values()))


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
