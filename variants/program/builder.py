"""Building programs value by value: equal operators have one name, and what nothing needs goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hetune.variants.errors import ProgramError
from hetune.variants.program.infer import infer
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Count,
    Group,
    Let,
    Op,
    Param,
    Program,
    Type,
    operands,
    with_operands,
)


class Builder:
    """Collects values, giving equal operators one name (common subexpressions, for free)."""

    def __init__(self, params: Iterable[Param], groups: Iterable[Group] = ()) -> None:
        self.params = tuple(params)
        self._groups: dict[str, Group] = {}
        for group in groups:
            self.declare(group)
        self.types: dict[str, Type] = {param.name: param.type for param in self.params}
        self.ops: dict[str, Op] = {}
        self._names: dict[Op, str] = {}

    def declare(self, group: Group) -> None:
        """Makes a group known that values may be of.

        Raises:
            ProgramError: There is another one of its name.
        """
        if self._groups.setdefault(group.name, group) != group:
            raise ProgramError(f"there are two groups {group.name!r}: rename one")

    def op(self, name: str) -> Op | None:
        """The operator that defines a value; None for a parameter."""
        return self.ops.get(name)

    def emit(self, op: Op, hint: str) -> str:
        """The value of ``op``: an existing name, or a new one made from ``hint``."""
        if op in self._names:
            return self._names[op]
        name, count = hint, 1
        while name in self.types:
            count += 1
            name = f"{hint}_{count}"
        self.types[name] = infer(op, self.types)
        self._names[op] = name
        self.ops[name] = op
        return name

    def rebuilt(self, program: Program, value: Callable[[Op, str], str]) -> Program:
        """A program, value by value.

        Args:
            program: Whose values these are; its parameters keep their names.
            value: Given an operator over values that were made already, and its old name: the name
                of what replaces it.
        """
        names = {param.name: param.name for param in program.params}
        for let in program.lets:
            op = with_operands(let.op, tuple(names[name] for name in operands(let.op)))
            names[let.name] = value(op, let.name)
        return self.finish(program, tuple(names[name] for name in program.results))

    def finish(self, program: Program, results: tuple[str, ...]) -> Program:
        """The program that computes ``results``; values that nothing needs are left out."""
        live = set(results)
        for name in reversed(self.ops):
            if name in live:
                live.update(operands(self.ops[name]))
        lets = tuple(
            Let(name, self.types[name], op) for name, op in self.ops.items() if name in live
        )
        used = {let.type.group for let in lets}
        used |= {let.op.group for let in lets if isinstance(let.op, Count)}
        groups = tuple(self._groups[name] for name in sorted(used - {ALL_EDGES}))
        return Program(program.name, self.params, lets, results, groups)
