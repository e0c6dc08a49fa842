"""Cuts Traversals into phases: walks whose inner rows can be shared out among programs.

All loops of a phase can run at the same time: none waits for sums that another one finds, or for
what it stores. What a later phase needs of an earlier one goes through scratch memory. Loops of a
phase that has no sums become walks over their own rows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hetune.variants.kernel.names import Names, declared, used
from hetune.variants.kernel.nodes import (
    Buffer,
    Def,
    ForEach,
    Init,
    Kernel,
    Launch,
    Read,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.passes.aliases import may_share, with_kernels
from hetune.variants.kernel.passes.softmax_forms import expanded, running_maximum
from hetune.variants.kernel.walk import statements
from hetune.variants.program.nodes import End, Space, Type


@dataclass(frozen=True, slots=True)
class Phase:
    """A Traversal's body, of one phase.

    Attributes:
        before: What its loops need: accumulators, and definitions that wait for none of them.
        loops: Over inner rows, without loops inside.
        after: What each row does once its loops are done.
    """

    before: tuple[Stmt, ...]
    loops: tuple[ForEach, ...]
    after: tuple[Stmt, ...]

    @property
    def body(self) -> tuple[Stmt, ...]:
        """The statements in order."""
        return *self.before, *self.loops, *self.after

    @property
    def sums(self) -> tuple[Init, ...]:
        """The accumulators that the loops update."""
        return tuple(stmt for stmt in self.before if isinstance(stmt, Init))


@functools.lru_cache(maxsize=4096)
def phased(launch: Launch) -> Launch:
    """The launch as GPUs run it: softmaxes with a running maximum, and walks cut into phases.

    Traversals with loops in loops stay whole.
    """
    launch = expanded(launch, running_maximum)
    names = Names(name for b in launch.buffers for name in (b.name, b.scratch))
    kernels: list[Kernel] = []
    for kernel in launch.kernels:
        numbers = _numbers(kernel, launch) if isinstance(kernel, Traversal) else None
        if not isinstance(kernel, Traversal) or numbers is None:
            kernels.append(kernel)
            continue
        cut = _Cutting(kernel, numbers, launch, names)
        phases = cut.phases()
        launch = replace(launch, buffers=(*launch.buffers, *cut.buffers.values()))
        kernels += (walk for phase in phases for walk in _walks(kernel, phase, launch))
    return with_kernels(launch, kernels)


def phase_of(kernel: Kernel, launch: Launch) -> Phase | None:
    """The body of a Traversal that is one phase with loops; None for all other kernels."""
    if not isinstance(kernel, Traversal) or not _loops(kernel.body):
        return None
    numbers = _numbers(kernel, launch)
    return _phase(kernel.body) if numbers is not None and not any(numbers) else None


def _loops(body: Iterable[Stmt]) -> tuple[ForEach, ...]:
    return tuple(stmt for stmt in body if isinstance(stmt, ForEach))


def _phase(body: tuple[Stmt, ...]) -> Phase:
    loops = _loops(body)
    needed = used(loops)
    before: list[Stmt] = []
    for stmt in reversed(body):
        if isinstance(stmt, Def | Init) and stmt.name in needed:
            before.insert(0, stmt)
            needed |= used((stmt,))
    after: list[Stmt] = []
    wanted: set[str] = set()
    for stmt in reversed(body):
        if isinstance(stmt, Write) or (
            isinstance(stmt, Def | Init) and stmt.name in wanted and stmt not in before
        ):
            after.insert(0, stmt)
            wanted |= used((stmt,))
    return Phase(tuple(before), loops, tuple(after))


def _walks(walk: Traversal, phase: Phase, launch: Launch) -> list[Traversal]:
    """A phase as a Traversal, or as one for each of its loops if it has nothing else."""
    if phase.after or phase.sums or not phase.loops:
        return [Traversal(walk.rows, phase.body)]
    return [
        Traversal(
            loop.rows,
            (
                *(_at_destination(s, launch) for s in _phase((*phase.before, loop)).before),
                *loop.body,
            ),
        )
        for loop in phase.loops
    ]


def _at_destination(stmt: Stmt, launch: Launch) -> Stmt:
    """A row's definition, as seen from a row below it."""
    match stmt:
        case Def(expr=Read(buffer, End.NONE)):
            if launch.type_of(buffer).space in (Space.NODE, Space.NTYPE):
                return replace(stmt, expr=Read(buffer, End.DST))
    return stmt


@dataclass(slots=True)
class _State:
    """What the statements of a phase have done so far."""

    sums: set[str] = field(default_factory=set)
    """Values that depend on what its loops have summed."""
    reads: set[str] = field(default_factory=set)
    stores: set[tuple[str, str]] = field(default_factory=set)
    """Buffers that its loops read, and that it stores, with the group of a loop; "" for all."""


def _numbers(walk: Traversal, launch: Launch) -> list[int] | None:
    """The phase of each statement; None if they cannot be cut so."""
    if any(_loops(loop.body) for loop in _loops(walk.body)):
        return None
    running = {s.below for s in statements(walk.body) if isinstance(s, Init)}
    found: list[int] = []
    summed: dict[str, int] = {}
    state = _State()
    for stmt in walk.body:
        number = found[-1] if found else 0
        match stmt:
            case ForEach(body=body):
                sums = {s.name for s in body if isinstance(s, Update)} - declared(body)
                values = used(s for s in body if not isinstance(s, Update))
                values |= {s.value for s in body if isinstance(s, Update)}
                reads = {
                    s.expr.buffer for s in body if isinstance(s, Def) and isinstance(s.expr, Read)
                }
                stores = {
                    (s.buffer, "" if s.accumulate else stmt.rows.group)
                    for s in body
                    if isinstance(s, Write)
                }
                touched = [(r, s) for r in reads for s, _ in state.stores]
                touched += [(s, r) for s, _ in stores for r in state.reads]
                # What loops over different groups store is of different edges.
                touched += [
                    (s, o) for s, g in stores for o, h in state.stores if g == h or not (g and h)
                ]
                waits = values & state.sums - (sums & running)
                if waits or any(may_share(*pair, launch) for pair in touched):
                    number, state = number + 1, _State()
                if any(summed.setdefault(name, number) != number for name in sums):
                    return None
                state.sums |= sums
                state.reads |= reads
                state.stores |= stores
            case Def(name) if used((stmt,)) & state.sums:
                state.sums.add(name)
            case Write(buffer):
                state.stores.add((buffer, ""))
        found.append(number)
    places = enumerate(walk.body)
    return [summed.get(s.name, found[i]) if isinstance(s, Init) else found[i] for i, s in places]


class _Cutting:
    """Cuts one Traversal."""

    def __init__(self, walk: Traversal, numbers: list[int], launch: Launch, names: Names) -> None:
        self._walk, self._launch, self._names = walk, launch, names
        self._parts: list[list[Stmt]] = [[] for _ in range(max(numbers, default=0) + 1)]
        self._home: dict[str, tuple[int, Def | Init]] = {}
        for number, stmt in zip(numbers, walk.body, strict=True):
            self._parts[number].append(stmt)
            if isinstance(stmt, Def | Init):
                self._home[stmt.name] = number, stmt
        stored = (s.buffer for s in statements(walk.body) if isinstance(s, Write))
        self._stored = frozenset(stored)
        self.buffers: dict[str, Buffer] = {}
        """Scratch of values that a later phase needs, by the value's name."""

    def phases(self) -> list[Phase]:
        """The phases, in order."""
        given = [self._given(number) for number in range(len(self._parts))]
        for name, buffer in self.buffers.items():
            self._parts[self._home[name][0]].append(Write(buffer.name, name))
        return [_phase((*g, *part)) for g, part in zip(given, self._parts, strict=True)]

    def _given(self, number: int) -> list[Def]:
        """Definitions of what a phase needs of earlier ones."""
        found: dict[str, Def] = {}

        def give(name: str) -> None:
            home, stmt = self._home.get(name, (number, None))
            if home >= number or stmt is None or name in found:
                return
            if isinstance(stmt, Def) and self._repeats(stmt):
                for operand in used((stmt,)):
                    give(operand)
                found[name] = stmt
            else:
                found[name] = Def(name, stmt.shape, Read(self._scratch(stmt).name))

        for name in sorted(used(self._parts[number])):
            give(name)
        return list(found.values())

    def _repeats(self, stmt: Def) -> bool:
        """Whether a definition gives the same value in any phase."""
        if isinstance(stmt.expr, Read):
            source = stmt.expr.buffer
            return not any(may_share(source, name, self._launch) for name in self._stored)
        homes = (self._home[name][1] for name in used((stmt,)))
        return all(isinstance(home, Def) and self._repeats(home) for home in homes)

    def _scratch(self, stmt: Def | Init) -> Buffer:
        if stmt.name not in self.buffers:
            name, rows = self._names.fresh(stmt.name), self._walk.rows
            kind = Type(rows.space, stmt.shape, rows.group)
            self.buffers[stmt.name] = Buffer(name, kind, name)
        return self.buffers[stmt.name]
