"""A model that is called with dictionaries of nodes and edges as one program on a typed graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from hetune.variants.frontend.dictionaries import OnDictionaries, TypedArguments
from hetune.variants.frontend.model_steps.steps import ModelStep, ModelSteps
from hetune.variants.frontend.tracing.layer import Traced
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.symbols import RowValue
from hetune.variants.frontend.tracing.tail import key_of, leaves, rows
from hetune.variants.frontend.tracing.validate import parameters_of, validated, weights_of
from hetune.variants.program.limitation import limitation


def trace_dictionaries(model: nn.Module, example: Sequence[Any]) -> ModelSteps:
    """The program of a model, confirmed on random graphs.

    Args:
        model: Float32, in `eval()`.
        example: Arguments of a call: a dictionary of features by type of nodes, and one of an
            edge_index by type of edges.

    Raises:
        NotTraceable: It is no such program; says why, and what is.
    """
    module = OnDictionaries(model)
    call = module.read(tuple(example), {})
    assert isinstance(call, TypedArguments)
    traced, _ = validated(module, call)
    name = type(model).__name__
    if (reason := limitation(traced.program)) is not None:
        raise NotTraceable(f"{name}: {reason}")
    if traced.constants:
        raise NotTraceable(
            "it multiplies or adds numbers that follow from the graph: leave loops out"
        )
    if traced.num_etypes != len(call.edge_types) or traced.node_types != tuple(call.counts):
        raise NotTraceable("it adds up only some types of edges: give the example those alone")
    features = [param.name for param in traced.program.params if param.role == "feature"]
    if len(features) != 1:
        raise NotTraceable(f"it has {len(features)} dictionaries of features: one is served")
    widths = tuple(call.values[name].shape[1] for name in traced.rows[features[0]])
    weights = weights_of(traced, parameters_of(module.double()))
    step = ModelStep(traced.program, ("x",), "given", weights)
    edge_types = tuple(call.edge_types.values())
    typed = call.node_types, edge_types, _result_types(traced, call.node_types)
    return ModelSteps(
        (step,), len(edge_types), {}, *typed, node_widths=widths if len({*widths}) > 1 else None
    )


def _result_types(traced: Traced, node_types: Sequence[str]) -> tuple[str, ...]:
    """The types that the model gives rows for, if it gives those of one result."""
    output = traced.output
    (result, *others) = traced.program.results
    width = traced.program.type_of(result).width
    is_served = isinstance(output, dict) and not others
    for kind, value in output.items() if is_served else ():
        (leaf, *more) = [*leaves(value)] or [""]
        is_whole = not more and traced.joined.get(leaf) == (result,)
        wanted = key_of(rows(RowValue(leaf, 0), (1, width)))
        is_served &= (
            is_whole
            and key_of(value) == wanted
            and (kind,) == tuple(node_types[i] for i in traced.places[leaf])
        )
    if not is_served:
        raise NotTraceable("a dictionary of rows by type of nodes is served: return that")
    return tuple(output)
