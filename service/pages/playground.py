"""The playground: a small graph, a model, and what comes out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from fastapi import APIRouter, Request, Response
from torch import Tensor

from hetune.service.core.graphs.rows import Rows, node_spans
from hetune.service.core.inference.answers import Answer
from hetune.service.core.models.models import Model
from hetune.service.core.service import Service
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.problems import status_of
from hetune.service.pages import examples
from hetune.service.pages.edge_lines import NamedGraph, graph_of_lines
from hetune.service.pages.forms import SubmittedForm, read_form
from hetune.service.pages.render import page
from hetune.service.pages.variant_times import LayerView, layer_views
from hetune.variants.errors import (
    GraphError,
    InputError,
    MalformedError,
    MemoryLimitError,
    NotFoundError,
    TooLargeError,
)

_MINE = (GraphError, InputError, MalformedError, MemoryLimitError, NotFoundError, TooLargeError)
"""Errors that the form's sender can mend, and reads beside it."""
_RUNS = 4
_ROWS, _COLUMNS = 8, 8
_STORED = "model:"
_TYPED, _DRAWN = "typed", "drawn"
_EXAMPLE = """\
# source relation target, one edge a line
author:ann writes paper:graphs
author:ben writes paper:graphs
author:ben writes paper:kernels
author:cat reviews paper:kernels
paper:kernels cites paper:graphs
"""
_DEFAULTS = {
    "source": _TYPED,
    "edges": _EXAMPLE,
    "shape": "aifb",
    "size": "1,000",
    "model": examples.KINDS[0],
    "width": "32",
    "layers": "2",
    "heads": "1",
}


@dataclass(frozen=True, slots=True)
class PlaygroundOutcome:
    """What came out.

    Attributes:
        graph: Id of the graph.
        is_kept: Whether it is kept.
        nodes: Of the graph.
        edges: Likewise.
        relations: Likewise.
        model: Name of the model.
        layers: What was chosen for each layer, and what else there was.
        first: Seconds of each layer's first run, preparation included.
        later: Medians of the runs after it.
        names: Of the first nodes.
        rows: Of the output, as far as they are shown.
        width: Of the whole output.
    """

    graph: str
    is_kept: bool
    nodes: int
    edges: int
    relations: int
    model: str
    layers: tuple[LayerView, ...]
    first: tuple[float, ...]
    later: tuple[float, ...]
    names: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]
    width: int


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/ui/playground", include_in_schema=False)
    service = work.service

    def show(
        request: Request, form: SubmittedForm, status: int = 200, trouble: str = "", **more: object
    ) -> Response:
        return page(
            request,
            "playground",
            status,
            **{"outcome": None, **more},
            fields=_DEFAULTS | form.fields,
            is_kept_asked=form.is_set("keep"),
            trouble=trouble,
            stored=service.models.names(),
            stored_prefix=_STORED,
            examples=examples,
            runs=_RUNS,
        )

    @routes.get("")
    def empty(request: Request) -> Response:
        """A form to try models on graphs."""
        return show(request, SubmittedForm({}))

    @routes.post("")
    async def run(request: Request) -> Response:
        """Runs a model on a graph, and shows what that gave."""
        work.computing.check()
        form = await read_form(request, service.limits, service.limits.json_bytes, work.bodies)
        with work.computing.entered():
            try:
                outcome = await work.compute(lambda: _run(service, form))
            except _MINE as error:
                request.state.failure = type(error).__name__
                return show(request, form, status_of(type(error)), str(error))
        return show(request, form, outcome=outcome)

    return routes


def _run(service: Service, form: SubmittedForm) -> PlaygroundOutcome:
    named = _graph(service, form)
    graph = named.graph
    model = _model(service, form, named)
    features, inputs = examples.draw_inputs(model, graph, service.limits)
    is_kept = form.is_set("keep")
    if is_kept:
        service.graphs.add(graph)
    answers = [
        service.inference.run(model, graph, features, inputs=inputs, explain=not number)
        for number in range(_RUNS)
    ]
    times = [_times(answer) for answer in answers]
    names, out = _in_order(answers[0].out, named)
    return PlaygroundOutcome(
        graph=graph.fingerprint,
        is_kept=is_kept,
        nodes=graph.num_nodes,
        edges=graph.num_edges,
        relations=graph.num_etypes,
        model=model.name,
        layers=layer_views(model, graph, answers[0].report),
        first=times[0],
        later=tuple(map(statistics.median, zip(*times[1:], strict=True))),
        names=tuple(names[:_ROWS]),
        rows=tuple(map(tuple, out[:_ROWS, :_COLUMNS].tolist())),
        width=out.shape[1],
    )


def _in_order(out: Rows, named: NamedGraph) -> tuple[Sequence[str], Tensor]:
    """Names of nodes, and their rows, which may be given by node type."""
    if isinstance(out, Tensor):
        return named.nodes, out
    spans = node_spans(named.graph)
    names = [name for kind in out for name in named.nodes[slice(*spans[kind])]]
    return names, torch.cat([*out.values()])


def _graph(service: Service, form: SubmittedForm) -> NamedGraph:
    if form.one_of("source", (_TYPED, _DRAWN)) == _TYPED:
        return graph_of_lines(form.text("edges"), service.limits)
    graph = examples.draw_graph(
        form.one_of("shape", examples.GRAPHS),
        form.one_of("size", examples.SIZES),
        service.limits,
    )
    return NamedGraph(graph, tuple(map(str, range(graph.num_nodes))))


def _model(service: Service, form: SubmittedForm, named: NamedGraph) -> Model:
    asked = form.text("model")
    if asked.startswith(_STORED):
        return service.models.get(asked.removeprefix(_STORED))
    return examples.draw_model(
        service.models,
        named.graph,
        form.one_of("model", examples.KINDS),
        int(form.one_of("width", examples.WIDTHS)),
        int(form.one_of("layers", examples.LAYERS)),
        int(form.one_of("heads", examples.HEADS)),
        service.limits,
    )


def _times(answer: Answer) -> tuple[float, ...]:
    return tuple(layer.measured_seconds or 0.0 for layer in answer.report.layers)
