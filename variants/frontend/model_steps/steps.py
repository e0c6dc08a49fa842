"""A whole model as programs, one after the other: what each takes in, and which edges it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loops import Loops, with_loops
from hetune.variants.program.interpret import interpret_results
from hetune.variants.program.nodes import Param, Program, Type


@dataclass(frozen=True, slots=True, eq=False)
class ModelStep:
    """One program of a model.

    Attributes:
        program: What it computes.
        inputs: What each of the program's features is: the name of an input of the model, or
            ``"2.1"`` for the second result of the model's third step.
        loops: What becomes of the graph's self loops.
        weights: Of the program, ``[types, *row shape]``.
    """

    program: Program
    inputs: tuple[str, ...]
    loops: Loops
    weights: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class ModelSteps:
    """A model.

    Attributes:
        steps: In the order in which they run; the last one's results are the model's.
        num_relations: Edge types of its graphs.
        tables: Inputs that belong to the model, such as embeddings of nodes, by name.
        node_types: Of its graphs, in their order, where it is called with dictionaries.
        edge_types: Likewise; None where edge types are numbered.
        result_types: Node types that it gives rows for, where it is called with dictionaries.
        node_widths: Of the features of each node type, where these differ; the programs take rows
            of the largest width, with zeros behind narrower ones.
    """

    steps: tuple[ModelStep, ...]
    num_relations: int
    tables: Mapping[str, Tensor]
    node_types: tuple[str, ...] | None = None
    edge_types: tuple[tuple[str, str, str], ...] | None = None
    result_types: tuple[str, ...] | None = None
    node_widths: tuple[int, ...] | None = None

    @property
    def inputs(self) -> dict[str, Param]:
        """The model's inputs by name, as the programs take them."""
        return inputs_of([(step.program, step.inputs) for step in self.steps])


def inputs_of(steps: Sequence[tuple[Program, Sequence[str]]]) -> dict[str, Param]:
    """What steps take in that no step gives, by name.

    Args:
        steps: Programs, and what their features and constants are.

    Raises:
        InputError: A step takes in what no earlier one gives, or rows of another type.
    """
    found: dict[str, Param] = {}
    for number, (program, names) in enumerate(steps):
        params = [param for param in program.params if param.role != "weight"]
        if len(params) != len(names):
            raise InputError(
                f"layer {number} has {len(names)} inputs, and its program takes {len(params)}: "
                "give one for each feature and constant"
            )
        for param, name in zip(params, names, strict=True):
            place = place_of(name)
            if place is None:
                known = found.setdefault(name, param).type
            else:
                known = _result_type(steps, number, *place)
            if (known.space, known.width) != (param.type.space, param.type.width):
                raise InputError(
                    f"layer {number} takes {name} as {param.type.space} rows of "
                    f"{param.type.width}, but they are {known.space} rows of {known.width}"
                )
    return found


def _result_type(
    steps: Sequence[tuple[Program, Sequence[str]]], at: int, step: int, result: int
) -> Type:
    results = steps[step][0].results if step < at else ()
    if result >= len(results):
        raise InputError(f"layer {at} takes {step}.{result}, which no layer before it gives")
    return steps[step][0].type_of(results[result])


def place_of(name: str) -> tuple[int, int] | None:
    """Step and result that an input is, by number; None of an input of the model."""
    step, _, result = name.partition(".")
    if not (step.isdecimal() and (result or "0").isdecimal() and len(name) < _LONGEST_PLACE):
        return None
    return int(step), int(result or 0)


_LONGEST_PLACE = 12


def interpret_steps(
    model: ModelSteps, inputs: Mapping[str, Tensor], graph: HeteroGraph
) -> tuple[Tensor, ...]:
    """The model's results by the interpreter, in the dtype of what is given.

    Args:
        model: What to compute.
        inputs: Rows by name, ``[rows, width]``; weights of their dtype.
        graph: What on.
    """
    results: list[tuple[Tensor, ...]] = []
    some = next(iter([*inputs.values(), *model.tables.values()]))
    given = {**model.tables, **inputs}
    for step in model.steps:
        values = {name: weight.to(some.dtype) for name, weight in step.weights.items()}
        params = [param for param in step.program.params if param.role != "weight"]
        for param, name in zip(params, step.inputs, strict=True):
            place = place_of(name)
            rows = given[name] if place is None else results[place[0]][place[1]]
            values[param.name] = rows.to(some.dtype).reshape(-1, *param.type.shape)
        results.append(interpret_results(step.program, values, with_loops(graph, step.loops)))
    return results[-1]
