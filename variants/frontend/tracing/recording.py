"""What a layer computes of its edges alone, as functions of torch to call again for other edges."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

_MOST = 4
"""Recordings of one layer that are kept."""
NOTHING = object()
AtOnce = Callable[[int, Mapping[str, Any]], dict[str, Tensor] | None]
_PLACES = re.compile(r"torch\.float(32|64)|device\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of something that depends on the graph."""

    index: int

    def __repr__(self) -> str:
        return f"%{self.index}"


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a function.

    Attributes:
        func: The function.
        args: Its arguments, slots among them.
        kwargs: Likewise.
        out: Slot of its result, or of each of its results.
        expected: What it has to give; `NOTHING`: that is all the same.
        writes: Whether it writes to its arguments.
    """

    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    out: int | tuple[int, ...] | None = None
    expected: object = NOTHING
    writes: bool = False

    @property
    def slots(self) -> set[int]:
        """Slots of its arguments."""
        return slots_in((self.args, tuple(self.kwargs.values())))

    @property
    def outs(self) -> tuple[int, ...]:
        """Slots of its results."""
        if isinstance(self.out, tuple):
            return self.out
        return () if self.out is None else (self.out,)

    @property
    def key(self) -> Hashable:
        """Equal for calls that do the same with floats of any precision, on any device."""
        text = f"{self.args!r} {self.kwargs!r} {self.expected!r}"
        return self.func, _PLACES.sub("_", text), self.out


class Recording:
    """The steps from a call's arguments to what its program needs of them.

    Args:
        steps: In order; those that outputs need.
        inputs: The arguments' devices by name; their slots are 1 and the following, and slot 0 has
            the number of nodes; that of sources, if any, follows.
        outputs: Slots by name.
        graph: Numbers of nodes, edges and sources, if any, of the graph that it was recorded on.
        at_once: Gives the outputs for a number of nodes and arguments in one step, or None; left
            out if the first run tells that they are others.

    Attributes:
        key: Equal for recordings that do the same.
        kind: Equal for those that do it on the same devices.
        graph: As given.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        inputs: Mapping[str, torch.device],
        outputs: Mapping[str, int],
        graph: tuple[int, ...],
        at_once: AtOnce | None = None,
    ) -> None:
        self.key: Hashable = (*inputs, *(step.key for step in steps), *outputs.items())
        self.kind: Hashable = self.key, *inputs.values()
        self.graph, self._inputs, self._outputs = graph, inputs, outputs
        self._at_once, self._is_compared = at_once, False
        self._calls = [_Call(step) for step in steps]
        slots = (slot for step in steps for slot in (*step.slots, *step.outs))
        self._size = 1 + max(len(inputs) + len(graph) - 2, *outputs.values(), *slots)

    def run(
        self, num_nodes: int, num_sources: int | None, values: Mapping[str, Any]
    ) -> dict[str, Tensor] | None:
        """The outputs for other arguments; None where Python would have decided otherwise."""
        at_once = self._at_once  # other threads may leave it out
        if at_once is None:
            return self._stepwise(num_nodes, num_sources, values)
        found = at_once(num_nodes, values)
        if self._is_compared and found is not None:
            return found
        steps = self._stepwise(num_nodes, num_sources, values)
        if found is not None and steps is not None:
            self._is_compared = all(
                torch.equal(found[name].to(rows.dtype), rows) for name, rows in steps.items()
            )
            self._at_once = at_once if self._is_compared else None
        return steps

    def _stepwise(
        self, num_nodes: int, num_sources: int | None, values: Mapping[str, Any]
    ) -> dict[str, Tensor] | None:
        slots: list[Any] = [None] * self._size
        slots[0] = num_nodes
        if num_sources is not None:
            slots[len(self._inputs) + 1] = num_sources
        for place, (name, device) in enumerate(self._inputs.items(), 1):
            slots[place] = values[name]
            if slots[place].device != device:
                return None
        try:
            with torch.no_grad():
                fits = all(call(slots) for call in self._calls)
            if not fits:
                return None
        except Exception:  # whatever is wrong with these edges, a trace says it
            return None
        return {name: slots[slot] for name, slot in self._outputs.items()}


def needed(steps: Sequence[Step], outputs: Iterable[int]) -> list[Step]:
    """The steps that slots depend on, in order, and all that write or check."""
    wanted, kept = set(outputs), []
    for step in reversed(steps):
        if step.writes or step.expected is not NOTHING or not wanted.isdisjoint(step.outs):
            wanted |= step.slots
            kept.append(step)
    return kept[::-1]


class Recordings:
    """The recordings of a layer. One is replayed as soon as two graphs gave it.

    Args:
        first: One of another graph than those that follow.
    """

    def __init__(self, first: Recording) -> None:
        self._known = [first]
        self._confirmed: list[Recording] = []

    def add(self, recording: Recording) -> bool:
        """Takes another graph's, and says whether two graphs have given it."""
        for known in self._known:
            pairs = zip(known.graph, recording.graph, strict=True)
            if known.key == recording.key and all(one != other for one, other in pairs):
                if all(each.kind != recording.kind for each in self._confirmed):
                    self._confirmed.append(recording)
                return True
        if len(self._known) < _MOST:
            self._known.append(recording)
        return False

    def run(
        self, num_nodes: int, num_sources: int | None, values: Mapping[str, Any]
    ) -> dict[str, Tensor] | None:
        """The outputs of one that fits these arguments; None where none does."""
        for recording in self._confirmed:
            if (outputs := recording.run(num_nodes, num_sources, values)) is not None:
                return outputs
        return None


class _Call:
    """A step, prepared to be called often."""

    __slots__ = ("_args", "_expected", "_func", "_given", "_kwargs", "_named", "_out")

    def __init__(self, step: Step) -> None:
        self._func, self._args, self._kwargs = step.func, list(step.args), dict(step.kwargs)
        self._out, self._expected = step.out, step.expected
        self._given = [(i, get) for i, arg in enumerate(step.args) if (get := _getter(arg))]
        self._named = [(name, get) for name, arg in step.kwargs.items() if (get := _getter(arg))]

    def __call__(self, slots: list[Any]) -> bool:
        """Whether it gives what is expected, as everything does where nothing is."""
        args, kwargs = [*self._args], self._kwargs
        for i, get in self._given:
            args[i] = get(slots)
        if self._named:
            kwargs = {**kwargs, **{name: get(slots) for name, get in self._named}}
        found = self._func(*args, **kwargs)
        if self._expected is not NOTHING:
            return bool(found == self._expected)
        if isinstance(self._out, tuple):
            for slot, part in zip(self._out, found, strict=True):
                slots[slot] = part
        elif self._out is not None:
            slots[self._out] = found
        return True


def _getter(value: Any) -> Callable[[list[Any]], Any] | None:
    """Puts what slots hold in place of them; None where there are none."""
    if isinstance(value, Slot):
        return itemgetter(value.index)
    if slots_in(value):
        return lambda slots: filled(value, slots)
    return None


def slots_in(value: Any) -> set[int]:
    """The slots in an argument."""
    if isinstance(value, Slot):
        return {value.index}
    if isinstance(value, slice):
        return slots_in((value.start, value.stop, value.step))
    if isinstance(value, list | tuple):
        return {slot for part in value for slot in slots_in(part)}
    return set()


def filled(value: Any, slots: Sequence[Any]) -> Any:
    """An argument with what slots hold in place of them."""
    if isinstance(value, Slot):
        return slots[value.index]
    if isinstance(value, slice):
        return slice(*(filled(part, slots) for part in (value.start, value.stop, value.step)))
    if isinstance(value, list | tuple):
        return type(value)(filled(part, slots) for part in value)
    return value
