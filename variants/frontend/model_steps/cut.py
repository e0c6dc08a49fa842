"""A recorded model cut into programs, each of a layer and of what follows it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from hetune.variants.errors import ProgramError
from hetune.variants.frontend.model_steps.steps import ModelStep
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.simplify import needed
from hetune.variants.graph.loops import Loops
from hetune.variants.program.nodes import Let, Param, Program, Space, operands, with_operands
from hetune.variants.program.verify import verify


@dataclass(frozen=True, slots=True)
class LayerStart:
    """Where a layer's values begin.

    Attributes:
        value: The number of values before.
        name: Of the layer's class.
        loops: What it does to loops.
    """

    value: int
    name: str
    loops: Loops


def cut(
    recorder: ProgramRecorder,
    starts: Sequence[LayerStart],
    results: Sequence[str],
    weights: Mapping[str, Tensor],
) -> tuple[ModelStep, ...]:
    """The programs, in order.

    Args:
        recorder: Has all values.
        starts: Of the layers. What comes before the first one belongs to it.
        results: Names of the model's results.
        weights: By name, ``[types, *row shape]``.

    Raises:
        NotTraceable: A layer reads edges of another, or a program breaks a rule.
    """
    ends = [*(start.value for start in starts[1:]), len(recorder.lets)]
    begins = [0, *ends[:-1]]
    parts = [recorder.lets[first:last] for first, last in zip(begins, ends, strict=True)]
    home = {let.name: number for number, part in enumerate(parts) for let in part}
    read: set[str] = set(results)
    bodies: list[list[Let]] = []
    given: list[tuple[str, ...]] = []
    for number, part in reversed([*enumerate(parts)]):
        is_last = number == len(parts) - 1
        own = tuple(results) if is_last else tuple(let.name for let in part if let.name in read)
        body = needed(part, own)
        read.update(name for let in body for name in operands(let.op))
        bodies.insert(0, body)
        given.insert(0, own)
    places = {
        name: str(number) if place == 0 else f"{number}.{place}"
        for number, own in enumerate(given[:-1])
        for place, name in enumerate(own)
    }
    return tuple(
        _step(recorder, start, body, own, places, home, weights)
        for start, body, own in zip(starts, bodies, given, strict=True)
    )


def _step(
    recorder: ProgramRecorder,
    start: LayerStart,
    body: Sequence[Let],
    results: Sequence[str],
    places: Mapping[str, str],
    home: Mapping[str, int],
    weights: Mapping[str, Tensor],
) -> ModelStep:
    made = {let.name for let in body}
    read = dict.fromkeys(itertools.chain(*(operands(let.op) for let in body), results))
    outer = [name for name in read if name not in made]
    names: dict[str, str] = {}
    params: list[Param] = []
    inputs: list[str] = []
    for name in sorted(outer, key=lambda name: name in weights):  # features first
        type_ = recorder.types[name]
        if name in weights:
            params.append(Param(name, type_))
            continue
        if name in home and type_.space is not Space.NODE:
            raise NotTraceable(f"{start.name} reads rows of edges that another layer has made")
        own = f"rows_{places[name].replace('.', '_')}" if name in home else f"input_{name}"
        names[name] = _unused(own, recorder)
        params.append(Param(names[name], type_, "feature"))
        inputs.append(places.get(name, name))
    lets = tuple(
        replace(let, op=with_operands(let.op, tuple(names.get(n, n) for n in operands(let.op))))
        for let in body
    )
    label = re.sub(r"\W", "_", start.name)
    found = tuple(names.get(name, name) for name in results)
    program = Program(label, tuple(params), lets, found)
    try:
        verify(program)
    except ProgramError as error:
        raise NotTraceable(f"{start.name}: {error}") from None
    used = {param.name: weights[param.name] for param in params if param.role == "weight"}
    return ModelStep(program, tuple(inputs), start.loops, used)


def _unused(name: str, recorder: ProgramRecorder) -> str:
    while name in recorder.types:
        name += "_"
    return name
