"""Any module with message-passing layers as a sequence of programs, checked on random graphs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.errors import InputError
from hetune.variants.frontend.dictionaries import are_dictionaries
from hetune.variants.frontend.model_steps.arguments import CallForm, ModelCall, form_of
from hetune.variants.frontend.model_steps.cut import cut
from hetune.variants.frontend.model_steps.of_dictionaries import trace_dictionaries
from hetune.variants.frontend.model_steps.record import ModelRecorder
from hetune.variants.frontend.model_steps.steps import ModelSteps, interpret_steps
from hetune.variants.frontend.pyg_lazy import is_uninitialized
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.validate import number_of_nodes
from hetune.variants.frontend.wrapper import unwrapped
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.limitation import limitation

_GRAPHS = 3
_TOLERANCE = 1e-5
"""Largest error relative to the largest element: some weights are mixed in float32."""


def trace_model(module: nn.Module, example: Sequence[Any] | None = None) -> ModelSteps:
    """A model as programs: a step for each of its layers, with what follows the layer.

    Args:
        module: It is taken as in `eval()`, and not changed.
        example: Arguments of a call, in the order of its forward: features float32, an
            ``edge_index`` [2, E] and, of several edge types, an ``edge_type`` [E]. By default those
            are drawn, as wide as the first layer with a width takes them. Or dictionaries of
            features by type of nodes, and of an ``edge_index`` by type of edges.

    Raises:
        InputError: It is no sequence of programs: names the layer or line that is none.
    """
    plain = copy.deepcopy(unwrapped(module)).float().eval()
    name = type(plain).__name__
    try:
        if is_uninitialized(plain):
            raise NotTraceable("lazy parameters are not initialized yet: call it once")
        if any(getattr(part, "cached", False) for part in plain.modules()):
            raise NotTraceable("cached=True keeps to its first graph: set it to False")
        if example is not None and are_dictionaries(example):
            return trace_dictionaries(plain, example)
        return _traced(plain, form_of(plain, example))
    except NotTraceable as error:
        raise InputError(f"{name} cannot be taken apart into layers: {error}") from None


def _traced(plain: nn.Module, form: CallForm) -> ModelSteps:
    exact = copy.deepcopy(plain).double()
    random = torch.Generator().manual_seed(0)
    count: int | None = None
    try:
        found = _steps(plain, exact, form, form.drawn(random, number_of_nodes(plain, 0)))
    except _OtherRows as error:  # the model has rows for so many nodes
        count = error.rows
        found = _steps(plain, exact, form, form.drawn(random, count))
    for i in range(_GRAPHS):
        _compare(exact, found, form.drawn(random, count or number_of_nodes(plain, i)), form)
    return found


class _OtherRows(Exception):  # noqa: N818  # never leaves this file
    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows


def _steps(plain: nn.Module, exact: nn.Module, form: CallForm, drawn: ModelCall) -> ModelSteps:
    recorded = ModelRecorder(plain, exact, drawn)
    try:
        recorded.run()
    except NotTraceable:
        if recorded.table_rows is None:
            raise
        raise _OtherRows(recorded.table_rows) from None
    steps = cut(recorded.recorder, recorded.starts, recorded.results, recorded.weights)
    for number, step in enumerate(steps):
        if (reason := limitation(step.program)) is not None:
            raise NotTraceable(f"layer {number}, a {step.program.name}: {reason}")
    tables = {name: rows.float() for name, rows in recorded.tables.items()}
    return ModelSteps(steps, form.num_relations, tables)


def _compare(exact: nn.Module, found: ModelSteps, drawn: ModelCall, form: CallForm) -> None:
    types = None if form.edge_type is None else drawn.values[form.edge_type]
    src, dst = drawn.edge_index
    graph = HeteroGraph(src, dst, types, num_nodes=drawn.num_nodes, num_etypes=form.num_relations)
    with torch.no_grad():
        expected = exact(**drawn.values)
        inputs = {
            name: value
            for name, value in drawn.values.items()
            if isinstance(value, Tensor) and value.is_floating_point()
        }
        rows = interpret_steps(found, inputs, graph)
    wanted = expected if isinstance(expected, list | tuple) else (expected,)
    for one, other in zip(rows, wanted, strict=True):
        scale = other.abs().max().clamp(min=1e-30)
        error = ((one.flatten(1) - other.flatten(1)).abs().max() / scale).item()
        if not error <= _TOLERANCE:
            raise NotTraceable(f"its programs give other numbers: they differ by {error:.0e}")
