"""Models as layers that run on parts of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import Tensor, nn

from hetune.variants.errors import InputError
from hetune.variants.frontend.model_steps.steps import ModelSteps, place_of
from hetune.variants.frontend.model_steps.trace_model import trace_model
from hetune.variants.frontend.program_layer import ProgramLayer
from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph
from hetune.variants.partition.layers import (
    LayerInput,
    PartitionedLayer,
    RowFunction,
    partitioned,
)
from hetune.variants.program.nodes import Program, Space
from hetune.variants.program.stages import near_programs
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.compiled_model import CompiledModel

PartitionedModel: TypeAlias = (
    CompiledModel | CompiledLayer | Sequence[CompiledLayer | RowFunction | PartitionedLayer]
)
"""A compiled model or layer; or layers in order, with functions of rows between them."""


def partitioned_layers(
    model: PartitionedModel,
    types: HeteroGraph | None = None,
    width: int = 0,
) -> tuple[PartitionedLayer, ...]:
    """The layers of a model, each with the functions that follow it.

    Args:
        model: What is to run.
        types: A graph with the types of the one that it is to run on, for models that are called
            with dictionaries.
        width: Of rows of features.

    Raises:
        InputError: One is not compiled, or reads more than the edges into its nodes.
    """
    if isinstance(model, CompiledModel):
        whole = model

        def compiled(_: int, program: Program, weights: Mapping[str, Tensor]) -> CompiledLayer:
            plain = {name: rows.float() for name, rows in weights.items()}
            return whole.compile_part(ProgramLayer(program, plain).eval())

        steps = _steps(model.module, types, width)
        return wired_layers(type(model.module).__name__, steps, compiled)
    if isinstance(model, nn.Module):
        model = [model]
    found: list[PartitionedLayer] = []
    for each in model:
        if isinstance(each, PartitionedLayer):
            found.append(each)
            continue
        if not isinstance(each, CompiledLayer):
            if not found or not callable(each):
                raise InputError(
                    f"{type(each).__name__} is no compiled layer: give what hetune.compile made of "
                    "layers, in order, with functions of rows between them"
                )
            last = found.pop()
            found.append(replace(last, functions=(*last.functions, each)))
            continue
        found.append(partitioned(each, (LayerInput(len(found) - 1),), "given"))
    if not found:
        raise InputError("there is no layer: give compiled ones")
    return tuple(found)


def _steps(module: nn.Module, types: HeteroGraph | None, width: int) -> ModelSteps:
    """A model taken apart, which may be called with dictionaries of a graph's types."""
    try:
        return trace_model(module)
    except InputError as error:
        if types is None or not types.is_canonical:
            raise
        try:
            return trace_model(module, _dictionaries(types, width))
        except InputError as other:
            raise InputError(f"{error}; nor, called with dictionaries, {other}") from None


def _dictionaries(
    types: HeteroGraph, width: int
) -> tuple[dict[str, Tensor], dict[CanonicalEtype, Tensor]]:
    """Arguments of a call: a node of each type, and no edges."""
    ntypes, etypes = types.metadata()
    return (
        {ntype: torch.zeros(1, width) for ntype in ntypes},
        {etype: torch.zeros(2, 0, dtype=torch.int64) for etype in etypes},
    )


def wired_layers(
    name: str,
    steps: ModelSteps,
    compiled: Callable[[int, Program, Mapping[str, Tensor]], CompiledLayer],
    finish: Mapping[int, RowFunction] | None = None,
) -> tuple[PartitionedLayer, ...]:
    """A model's steps, each as often as it has to read its nodes' edges.

    Args:
        name: Of the model, in errors.
        steps: Its steps.
        compiled: Compiles a program of a step, by the step's number, with its weights.
        finish: What becomes of the rows of a step's only result, by the step's number.

    Raises:
        InputError: It takes more than rows of nodes, or reads more than its nodes' edges.
    """
    found: list[PartitionedLayer] = []
    places: dict[str, LayerInput] = {
        name: LayerInput(-1, table=rows.flatten(1)) for name, rows in steps.tables.items()
    }
    features = [each for each in steps.inputs if each not in places]
    if len(features) != 1 or steps.inputs[features[0]].type.space is not Space.NODE:
        raise InputError(f"{name} does not run in parts: it takes {features}, not rows of nodes")
    places[features[0]] = LayerInput(-1)
    for number, step in enumerate(steps.steps):
        programs = near_programs(step.program)
        if not programs:
            raise InputError(f"{name} does not run in parts: layer {number} reads all nodes")
        given = [param.name for param in step.program.params if param.role != "weight"]
        own = {each: places[_place(of)] for each, of in zip(given, step.inputs, strict=True)}
        for program in programs:
            names = [param.name for param in program.params if param.role == "weight"]
            layer = compiled(number, program, {each: step.weights[each] for each in names})
            read = tuple(own[param.name] for param in program.params if param.role != "weight")
            first = 0
            for result in program.results:
                own[result] = LayerInput(len(found), first)
                first += program.type_of(result).width
            found.append(partitioned(layer, read, step.loops))
        if finish is not None and number in finish:
            if len(programs[-1].results) > 1:
                raise InputError(
                    f"{name} does not run in parts: layer {number} has several results"
                )
            found[-1] = replace(found[-1], functions=(finish[number],))
        for place, result in enumerate(step.program.results):
            places[f"{number}.{place}"] = own[result]
    return tuple(found)


def _place(name: str) -> str:
    place = place_of(name)
    return name if place is None else f"{place[0]}.{place[1]}"
