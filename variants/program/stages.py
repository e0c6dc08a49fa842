"""A program as several that each read near nodes only: what they hand on are rows of nodes."""

from __future__ import annotations

from hetune.variants.program.locality import reads_near_nodes
from hetune.variants.program.nodes import (
    Count,
    End,
    Param,
    Program,
    Reduce,
    Softmax,
    Space,
    Take,
    operands,
)


def near_programs(program: Program) -> tuple[Program, ...]:
    """Programs that one after the other compute a program's results; none if there are no such.

    What is summed up or counted at nodes, and read at sources, is a result of an earlier one, and
    under its name a feature of a later one. Other values are computed where they are needed.
    """
    stages = _Stages(program)
    found: list[Program] = []
    results = program.results
    for number in reversed(range(stages.count)):
        made = stages.program(number, results)
        if not reads_near_nodes(made):
            return ()
        found.insert(0, made)
        read = {param.name for each in found for param in each.params}
        handed_on = (let.name for let in program.lets if let.name in read)
        results = tuple(name for name in handed_on if stages.of[name] == number - 1)
    return tuple(found)


class _Stages:
    """Which program of several has to compute what, at the earliest."""

    def __init__(self, program: Program) -> None:
        self._program, self._types = program, program.types
        self._lets = {let.name: let for let in program.lets}
        self.of: dict[str, int] = {param.name: 0 for param in program.params}
        self._far: set[str] = set()
        for let in program.lets:
            stage = max((self.of[name] for name in operands(let.op)), default=0)
            is_far = any(self._is_far(name, stage) for name in operands(let.op))
            if is_far and isinstance(let.op, Take) and let.op.end is End.SRC:
                stage, is_far = stage + 1, False
            if is_far or isinstance(let.op, Reduce | Count | Softmax):
                self._far.add(let.name)
            self.of[let.name] = stage
        self.count = 1 + max(self.of[name] for name in program.results)

    def _is_far(self, name: str, stage: int) -> bool:
        return name in self._far and not self._is_given(name, stage)

    def _is_given(self, name: str, stage: int) -> bool:
        """Whether rows come from an earlier stage."""
        is_earlier = self.of[name] < stage and name in self._far
        return is_earlier and self._types[name].space is Space.NODE

    def program(self, stage: int, results: tuple[str, ...]) -> Program:
        """What computes some results in a stage."""
        used, waiting = set[str](), [*results]
        while waiting:
            name = waiting.pop()
            if name not in used and name in self._lets and not self._is_given(name, stage):
                waiting += operands(self._lets[name].op)
            used.add(name)
        given = tuple(
            Param(let.name, let.type, "feature")
            for let in self._program.lets
            if let.name in used and self._is_given(let.name, stage)
        )
        lets = (let for let in self._program.lets if let.name in used)
        return Program(
            self._program.name,
            (*(param for param in self._program.params if param.name in used), *given),
            tuple(let for let in lets if not self._is_given(let.name, stage)),
            results,
            self._program.groups,
        )
