"""Programs in stages: each runs on the graph or on its reverse, where it sums at destinations."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from hetune.variants.errors import ProgramError
from hetune.variants.passes.choices import Placement, SumChoices
from hetune.variants.passes.pipeline import run_passes
from hetune.variants.passes.reverse import is_bipartite, reverse, reversed_op, reversed_type
from hetune.variants.passes.traffic import to_compute, to_store
from hetune.variants.program.infer import infer
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Count,
    End,
    Fold,
    Let,
    Map,
    Param,
    Program,
    Reduce,
    Reshape,
    Softmax,
    Space,
    Take,
    operands,
)


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a program, which is an ordinary program.

    Attributes:
        program: Its parameters are some of the whole's and results of stages before, all under
            their names in the whole. So are its results: rows of nodes, of edges and of types.
        is_reversed: Whether it runs on the reversed graph: what are nodes of a bipartite graph to
            the whole are sources to it, and the other way round.
    """

    program: Program
    is_reversed: bool

    @property
    def is_weights(self) -> bool:
        """Whether it has rows of types alone: what the interpreter does in no time."""
        return all(kind.space.is_weight for kind in self.program.types.values())


class _Kind(Enum):
    """What a stage runs on."""

    GRAPH = 0
    REVERSED = 1
    TYPES = 2


_Steps = tuple[tuple[_Kind, frozenset[str]], ...]
"""What stages run on, and the values that each can compute after those before it."""

_MOST = 12
"""Stages of a program."""


@functools.lru_cache(maxsize=256)
def stages(program: Program) -> tuple[Stage, ...]:
    """The fewest stages that compute a program, in order.

    Rows of nodes, of all edges and of types go from stage to stage; rows of pairs do not: they are
    computed again. What is cheaper to compute again than to store is, too.

    Args:
        program: One without equal values, as passes leave it.

    Raises:
        ProgramError: There are none.
    """
    parting = _Parting(program)
    return min((parting.cut(steps) for steps in parting.fewest()), key=traffic)


def traffic(parts: Iterable[Stage]) -> float:
    """About how many elements stages read and write, in units of a node's: see `to_compute`.

    By the hybrid plan, whose sums gradients of rows and of weights share.
    """
    total = 0.0
    for part in parts:
        program = run_passes(SumChoices(Placement.HYBRID).passes, part.program)
        types = program.types
        total += sum(to_compute(let, types) for let in program.lets)
        total += sum(to_store(types[name]) for name in program.results)
    return total


class _Parting:
    """A program, and where each of its values can be computed."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.types = program.types
        self.lets = {let.name: let for let in program.lets}
        self.bipartite = is_bipartite(program)
        self.reversed_types = {
            name: reversed_type(kind, self.bipartite) for name, kind in self.types.items()
        }
        self.at_run = {param.name for param in program.params if not param.type.space.is_weight}
        for let in program.lets:
            if isinstance(let.op, Count) or not self.at_run.isdisjoint(operands(let.op)):
                self.at_run.add(let.name)
        self._fitting = {
            kind: {let.name for let in program.lets if self._fits(let, kind)} for kind in _Kind
        }
        self._extremes = {let.name: self._extremes_of(let) for let in program.lets}

    def fewest(self) -> list[_Steps]:
        """The stages that there can be, where they are fewest."""
        computable = functools.cache(self._computable)
        wanted = {name for name in self.program.results if name in self.lets}
        ahead: list[tuple[_Steps, frozenset[str]]] = [((), frozenset())]
        for _ in range(_MOST):
            if found := [steps for steps, done in ahead if wanted <= done]:
                return found
            ahead = [
                ((*steps, (kind, made)), done | made)
                for steps, done in ahead
                for kind in _Kind
                if not (made := computable(kind, done)) <= done
            ]
        raise ProgramError(f"program {self.program.name!r} cannot be computed in {_MOST} stages")

    def _computable(self, kind: _Kind, done: frozenset[str]) -> frozenset[str]:
        """The values that a stage can compute after others have computed some."""
        given = {param.name for param in self.program.params}
        given |= {name for name in done if self.crosses(name)}
        made: set[str] = set()
        for let in self.program.lets:
            known = given.issuperset(operands(let.op))
            known = known and done.isdisjoint(self._extremes[let.name])
            if known and let.name in self._fitting[kind]:
                made.add(let.name)
                if not self.is_late(let.name, kind):
                    given.add(let.name)
        return frozenset(made)

    def is_late(self, name: str, kind: _Kind) -> bool:
        """Whether a value is known only when a stage has run: a sum into types."""
        is_type = self.types[name].space.is_weight and name in self.at_run
        return is_type and kind is not _Kind.TYPES

    def crosses(self, name: str) -> bool:
        """Whether a value's rows may go from stage to stage."""
        kind = self.types[name]
        if kind.space.is_weight:
            return name in self.at_run
        return kind.space not in (Space.SRC_PAIR, Space.DST_PAIR) and kind.group == ALL_EDGES

    def _extremes_of(self, let: Let) -> set[str]:
        """The largest or least rows that a value tells apart from others.

        They must be those of the same stage: computed again they might be rounded otherwise.
        """
        found: set[str] = set()
        ahead = [let.op.args[1]] if isinstance(let.op, Map) and let.op.fn == "equal" else []
        while ahead:
            name = ahead.pop()
            op = self.lets[name].op if name in self.lets else None
            if isinstance(op, Reduce | Fold) and op.fn in ("max", "min"):
                found.add(name)
            elif isinstance(op, Take | Reshape) or (isinstance(op, Map) and op.fn == "outer"):
                ahead += operands(op)
        return found

    def _fits(self, let: Let, kind: _Kind) -> bool:
        """Whether stages of a kind can compute a value, given its operands."""
        of_types = all(self.types[arg].space.is_weight for arg in operands(let.op))
        if let.type.space.is_weight:
            at_run = let.name in self.at_run
            return of_types if kind is _Kind.TYPES or not at_run else not of_types
        op, space = let.op, let.type.space
        if kind is _Kind.TYPES or (kind is _Kind.REVERSED and isinstance(op, Softmax)):
            return False
        if kind is _Kind.REVERSED:
            op = reversed_op(op, self.bipartite)
            try:
                space = infer(op, self.reversed_types).space
            except ProgramError:
                return False
        if isinstance(op, Reduce) and (op.space is Space.SRC_PAIR or op.end is End.SRC):
            return False
        return space is not Space.SOURCE

    # --- what each stage computes ---------------------------------------------------------

    def cut(self, steps: _Steps) -> tuple[Stage, ...]:
        """The stages of these steps."""
        first: dict[str, int] = {}
        for place, (_, made) in enumerate(steps):
            for name in made:
                first.setdefault(name, place)
        usable = [
            frozenset(name for name in made if not self.is_late(name, kind)) for kind, made in steps
        ]
        needs = _Needs(self, usable, first)
        parts = [
            self._stage(place, kind, needs.computed[place], needs.given[place])
            for place, (kind, _) in enumerate(steps)
        ]
        return tuple(part for part in parts if part.program.results)

    def _stage(
        self, place: int, kind: _Kind, computed: Collection[str], results: Iterable[str]
    ) -> Stage:
        whole = self.program
        lets = tuple(let for let in whole.lets if let.name in computed)
        read = {name for let in lets for name in operands(let.op)} - {let.name for let in lets}
        crossing = (
            Param(let.name, let.type, "weight" if let.type.space.is_weight else "feature")
            for let in whole.lets
            if let.name in read
        )
        params = tuple(param for param in whole.params if param.name in read)
        used = {value.type.group for value in lets}
        used |= {let.op.group for let in lets if isinstance(let.op, Count)}
        groups = tuple(group for group in whole.groups if group.name in used)
        order = {let.name: i for i, let in enumerate(whole.lets)}
        names = tuple(sorted(results, key=order.__getitem__))
        name = f"{whole.name}_{place}"
        program = Program(name, (*params, *crossing), lets, names, groups)
        is_reversed = kind is _Kind.REVERSED
        return Stage(reverse(program, self.bipartite) if is_reversed else program, is_reversed)


class _Needs:
    """What each stage computes, and which of it others or the caller need.

    Args:
        parting: The program.
        made: What each stage can compute and use.
        first: The first stage that can compute each value.
    """

    def __init__(
        self, parting: _Parting, made: list[frozenset[str]], first: dict[str, int]
    ) -> None:
        self._parting, self._made, self._first = parting, made, first
        # Values that stages compute anyway cost nothing to those after them.
        self._anyway: list[Collection[str]] = [()] * len(made)
        self._costs: dict[tuple[str, int], float] = {}
        self._anyway, _ = self._expanded(lambda name, place: name in made[place])
        self.computed, self.given = self._expanded(self._is_computed)

    def _expanded(
        self, computes: Callable[[str, int], bool]
    ) -> tuple[list[Collection[str]], list[dict[str, None]]]:
        """What stages compute and what they give, by whether one computes what another could."""
        parting = self._parting
        computed: list[Collection[str]] = [() for _ in self._made]
        given: list[dict[str, None]] = [{} for _ in self._made]
        for name in parting.program.results:
            if name in parting.lets:
                given[self._first[name]][name] = None
        for place in reversed(range(len(self._made))):
            ahead, found = list(given[place]), set(given[place])
            while ahead:
                for arg in operands(parting.lets[ahead.pop()].op):
                    if arg in found or arg not in parting.lets:
                        continue
                    if computes(arg, place):
                        found.add(arg)
                        ahead.append(arg)
                    else:
                        given[self._first[arg]][arg] = None
            computed[place] = found
        return computed, given

    def _is_computed(self, name: str, place: int) -> bool:
        """Whether a stage computes a value, and does not have it from the first that could."""
        if isinstance(self._parting.lets[name].op, Reshape) and name in self._made[place]:
            return True  # its operand may cross as well, and others may need that
        return self._again(name, place) < self._crossed(name, place)

    def _cost(self, name: str, place: int) -> float:
        """To compute a value in a stage or to have it from another, whichever is less."""
        if name not in self._parting.lets:
            return 0.0
        key = name, place
        if key not in self._costs:
            self._costs[key] = min(self._again(name, place), self._crossed(name, place))
        return self._costs[key]

    def _again(self, name: str, place: int) -> float:
        if name not in self._made[place]:
            return math.inf
        let = self._parting.lets[name]
        return to_compute(let, self._parting.types) + sum(
            self._cost(arg, place) for arg in set(operands(let.op))
        )

    def _crossed(self, name: str, place: int) -> float:
        first = self._first[name]
        if first >= place or not self._parting.crosses(name):
            return math.inf
        return self._cost_there(name, first) + to_store(self._parting.types[name])

    def _cost_there(self, name: str, place: int) -> float:
        """What it adds to a stage to compute a value there for another."""
        if name not in self._parting.lets or name in self._anyway[place]:
            return 0.0
        let = self._parting.lets[name]
        if self._first[name] < place and name not in self._made[place]:
            return self._cost(name, place)
        return to_compute(let, self._parting.types) + sum(
            self._cost_there(arg, place) for arg in set(operands(let.op))
        )
