"""The description of any module with message-passing layers, which is traced to programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from hetune.service.core.formats.documents import parse_value
from hetune.service.core.models.description import Metadata, ModelDescription
from hetune.variants.errors import InputError, MalformedError
from hetune.variants.frontend.model_steps.steps import ModelSteps
from hetune.variants.frontend.model_steps.trace_model import trace_model
from hetune.variants.graph.vocabulary import Vocabulary, VocabularyLike
from hetune.variants.kernel.precision import Precision
from hetune.variants.program.nodes import Space
from hetune.variants.program.text import show


def describe_traced(
    module: nn.Module,
    example: Sequence[Any] | None = None,
    vocabulary: VocabularyLike | None = None,
    precision: Precision | None = None,
) -> tuple[ModelDescription, dict[str, Tensor]]:
    """The description and the weights of a module.

    Args:
        module: It is taken as in `eval()`.
        example: Arguments of a call.
        vocabulary: Names of its edge types, and of its node types, in their order.
        precision: What layers may store tables in.

    Raises:
        InputError: It is no sequence of programs; names the layer or line that is none.
    """
    model = trace_model(module, example)
    known = None if vocabulary is None else Vocabulary.of(vocabulary)
    x = _features(model)
    named = {x: "x"}
    layers = []
    weights: dict[str, Tensor] = {}
    for number, step in enumerate(model.steps):
        program = step.program
        layers.append(
            {
                "layer": "program",
                "out_channels": program.type_of(program.results[0]).width,
                "program": show(program),
                "inputs": tuple(named.get(name, name) for name in step.inputs),
                "loops": step.loops,
            }
        )
        weights |= {f"{number}.values.{name}": rows.float() for name, rows in step.weights.items()}
    tables = {named.get(name, name): rows for name, rows in model.tables.items()}
    weights |= {f"tables.{name}": rows for name, rows in tables.items()}
    metadata = None
    if model.node_types is not None and model.edge_types is not None:
        metadata = Metadata(ntypes=model.node_types, etypes=model.edge_types)
    try:
        description = parse_value(
            ModelDescription,
            {
                "in_channels": model.inputs[x].type.width,
                "num_relations": model.num_relations,
                "layers": tuple(layers),
                "metadata": metadata,
                "relations": known and known.relations,
                "node_types": known and known.node_types,
                "precision": precision or "float32",
                "tables": {name: len(rows) for name, rows in tables.items()},
                "result_types": model.result_types,
                "node_widths": model.node_widths,
            },
        )
    except MalformedError as error:
        raise InputError(f"{type(module).__name__} cannot be served: {error}") from None
    return description, weights


def _features(model: ModelSteps) -> str:
    """Which input the service calls x: the model's own x, else its first rows of nodes.

    What callers give comes before tables.
    """
    of_nodes = [name for name, param in model.inputs.items() if param.type.space is Space.NODE]
    of_nodes.sort(key=lambda name: name in model.tables)
    return "x" if "x" in of_nodes else of_nodes[0]
