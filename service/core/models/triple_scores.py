"""Models that score triples of a knowledge graph: one program, over the model's own entities."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from hetune.service.core.formats.documents import parse_value
from hetune.service.core.models.description import ModelDescription, ProgramDocument
from hetune.variants.errors import InputError, MalformedError
from hetune.variants.program.nodes import Program, Space
from hetune.variants.program.text import show
from hetune.variants.runtime.score_model import ScoreModel

_X = "x"
"""What the first table of entities is called, as all models' features are."""


def describe_scores(model: ScoreModel) -> tuple[ModelDescription, dict[str, Tensor]]:
    """The description and the weights of a model that scores triples.

    Raises:
        InputError: It cannot be served.
    """
    params = model.program.params
    entities = [param for param in params if param.type.space is Space.NODE]
    names = {param.name: param.name if i else _X for i, param in enumerate(entities)}
    if _X in [param.name for param in entities[1:]]:
        raise InputError(f"a second table of entities is named {_X}: rename an argument")
    layer = {
        "layer": "program",
        "out_channels": 1,
        "program": show(model.program),
        "inputs": tuple(names.values()),
    }
    weights = {}
    for param in params:
        table = model.tables[param.name].detach().float()
        is_entities = param.name in names
        name = f"tables.{names[param.name]}" if is_entities else f"0.values.{param.name}"
        weights[name] = table.reshape(len(table), param.type.width) if is_entities else table
    given = {
        "in_channels": entities[0].type.width,
        "num_relations": 1 if model.num_relations is None else model.num_relations,
        "layers": (layer,),
        "tables": dict.fromkeys(names.values(), model.num_entities),
    }
    try:
        return parse_value(ModelDescription, given), weights
    except MalformedError as error:
        raise InputError(f"the model cannot be served: {error}") from None


def score_model_of(
    description: ModelDescription, program: Program, weights: Mapping[str, Tensor]
) -> ScoreModel | None:
    """The model that scores triples, on the host; None of a model that does something else.

    Args:
        description: What `describe_scores` gives, or that of another model.
        program: Of its first layer.
        weights: That fit the description.
    """
    layer, *others = description.layers
    if others or not isinstance(layer, ProgramDocument) or layer.loops != "given":
        return None
    if layer.activation != "none" or layer.normalization != "none":
        return None
    names, tables = iter(layer.inputs or (_X,)), {}
    for param in program.params:
        if param.role == "weight":
            tables[param.name] = weights[f"0.values.{param.name}"]
            continue
        name = next(names)
        if name not in description.tables:
            return None
        tables[param.name] = weights[f"tables.{name}"].view(-1, *param.type.shape)
    try:
        return ScoreModel(program, tables)
    except InputError:
        return None
