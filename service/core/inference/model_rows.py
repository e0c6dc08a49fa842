"""Rows that a model takes in, and which of its results are outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from hetune.service.core.graphs.rows import features_of
from hetune.service.core.models.models import Model
from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.nodes import Space, Type

_SHOWN = 64


def inputs_of(
    model: Model,
    graph: HeteroGraph,
    features: Tensor | Mapping[str, Tensor] | None,
    others: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """All rows that a model takes in, by name, float32 [rows, width].

    Args:
        model: What is to run.
        graph: What on.
        features: Of x; None where the model has them.
        others: Of its other inputs.

    Raises:
        InputError: Features or others are missing, nobody reads some, or they do not fit.
    """
    given = dict(others)
    for name in given:
        if name == "x" or name not in model.wiring.inputs:
            named = ", ".join(model.wiring.inputs)
            raise InputError(
                f"the model has no input {name[:_SHOWN]!r} beside its features: it takes {named}"
            )
    if features is not None:
        described = model.description
        widths = described.widths_by_type
        given["x"] = features_of(features, graph, described.in_channels, widths)
    for name, table in model.tables.items():
        if name in given:
            raise InputError(f"the model has rows of its own as {name}: leave them out")
        if len(table) != graph.num_nodes:
            raise InputError(
                f"the graph has {graph.num_nodes} nodes but the model has rows for {len(table)}: "
                "take the graph that it was made for"
            )
        given[name] = table
    if "x" not in given:
        raise InputError(
            "features are missing: give rows as x, of all nodes or by node type, or as features "
            "the name of those that are kept with the graph"
        )
    return {
        name: _checked(name, type_, given, graph) for name, type_ in model.wiring.inputs.items()
    }


def _checked(name: str, type_: Type, given: Mapping[str, Tensor], graph: HeteroGraph) -> Tensor:
    if name not in given:
        raise InputError(f"the model's input {name} is missing: give a row for each {type_.space}")
    rows = given[name]
    count = graph.num_nodes if type_.space is Space.NODE else graph.num_edges
    if rows.dtype != torch.float32:
        raise InputError(f"the input {name} is {rows.dtype}: give torch.float32")
    if rows.shape == (count, type_.width):
        return rows
    if rows.numel() != count * type_.width or rows.shape[:1] != (count,):
        raise InputError(
            f"the input {name} has the shape {list(rows.shape)}: give {[count, type_.width]}, a "
            f"row for each {type_.space}"
        )
    return rows.reshape(count, type_.width)


class OutputPlaces:
    """How a model's outputs are numbered.

    Args:
        model: The model.

    Attributes:
        model: The model.
        joined: Number of what jumping connections join; none has it where there are none.
    """

    def __init__(self, model: Model) -> None:
        self.model, self._layers = model, len(model.modules)
        self._names = model.wiring.outputs
        self._after = model.description.num_outputs
        self.joined = self._layers if self._after > self._layers else -1

    def number(self, name: str) -> int:
        """Of the output that a layer's result is."""
        place = self._names.index(name)
        return place if place < self._layers else place - self._layers + self._after

    def wanted(self, outputs: Sequence[int] | None) -> frozenset[int]:
        """The outputs that are asked for; the model's if None are named.

        Raises:
            InputError: There is no such output, or an empty list of them.
        """
        if outputs is None:
            if self.joined >= 0:
                return frozenset({self.joined})
            return frozenset(map(self.number, self.model.wiring.gives[-1]))
        count = self._after + len(self._names) - self._layers
        for number in outputs:
            if not 0 <= number < count:
                raise InputError(f"there is no output {number}: number them from 0 to {count - 1}")
        if not outputs:
            raise InputError("outputs is empty: name at least one layer, or leave it out")
        return frozenset(outputs)

    def needed(self, wanted: frozenset[int]) -> frozenset[int]:
        """What layers have to give for outputs."""
        return frozenset(range(self._layers)) if self.joined in wanted else wanted

    def width(self, number: int) -> int:
        """Of an output's rows."""
        if number == self.joined:
            return self.model.description.out_channels
        return self._type(number).width

    def is_of_edges(self, number: int) -> bool:
        """Whether an output has rows of edges."""
        return number != self.joined and self._type(number).space is Space.EDGE

    def _type(self, number: int) -> Type:
        place = number if number < self._layers else number - self._after + self._layers
        return self.model.wiring.types[self._names[place]]
