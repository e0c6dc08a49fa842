"""Which variant each layer of a model would run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch

from hetune.costmodel.selection.champion import ChampionFollower
from hetune.costmodel.selection.explanation import Explanation
from hetune.costmodel.selection.selector import LEARNED, Selector
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.graphs.graphs import GraphStore
from hetune.service.core.inference.answers import LayerReport, RunReport, explained
from hetune.service.core.inference.metrics import Metrics
from hetune.service.core.inference.steps import step
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.graph_check import check_fits
from hetune.service.core.models.models import Model, ModelStore
from hetune.variants.errors import InputError, MemoryLimitError
from hetune.variants.frontend.nn import RelationalLayer
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.threads import kernel_threads, using_threads
from hetune.variants.kernel.precision import Precision
from hetune.variants.runtime.choice import Choice, Decision

T = TypeVar("T")
ALONE_SECONDS = 0.2e-3
"""What one thread should take less for is not shared: waking others up, which serve requests
meanwhile, or rest, takes about as long as they would save."""
ONCE = 1.0
"""Runs that a graph which is not kept is prepared for."""


class VariantSelection:
    """Chooses without running.

    Args:
        graphs: Where graphs are looked up by id.
        models: Where models are looked up.
        follower: Tells what chooses now; asked once for all layers of a request.
        engine: What would run layers: choices are for it.
        limits: `run_bytes` bounds every choice.
        metrics: Where choices are counted and timed.
    """

    def __init__(
        self,
        graphs: GraphStore,
        models: ModelStore,
        follower: ChampionFollower,
        engine: Engine,
        limits: ServiceLimits,
        metrics: Metrics,
    ) -> None:
        self._graphs, self._models, self._engine = graphs, models, engine
        self._follower, self._limits, self._metrics = follower, limits, metrics

    def select(
        self,
        model: str | Model,
        graph: HeteroGraph | str,
        *,
        version: int | None = None,
        memory_limit: int | None = None,
        explain: bool = False,
    ) -> RunReport:
        """What would be chosen, and why.

        Args:
            model: A model, or the name of one that is kept.
            graph: A graph, or the id of one that is kept.
            version: Of a model that is named; the latest if None.
            memory_limit: Most bytes that a layer's temporaries, scratch and result may take.
            explain: Add launches and candidates.

        Raises:
            NotFoundError: There is no such model or graph.
            InputError: The graph is none for this model.
            MemoryLimitError: No variant fits the limit.
            DeviceError: The GPU that layers run on fails, or has no memory left.
        """
        found, given, expected_runs = self.resolve(model, version, graph)
        graphs = (given,) * len(found.modules)
        with self._engine.guarded():
            layers = self.layers(
                found, graphs, expected_runs, memory_limit=memory_limit, explain=explain
            )
        return RunReport(
            model=found.name, version=found.version, graph=given.fingerprint, layers=layers
        )

    def resolve(
        self, model: str | Model, version: int | None, graph: HeteroGraph | str
    ) -> tuple[Model, HeteroGraph, float]:
        """The model, the graph, and how often it is expected to be run on.

        Raises:
            NotFoundError: There is no such model or graph.
            InputError: The graph is none for this model.
        """
        found = model if isinstance(model, Model) else self._models.get(model, version)
        kept = isinstance(graph, str)
        given = self._graphs.get(graph) if isinstance(graph, str) else graph
        check_fits(found, given)
        return found, given, math.inf if kept else ONCE

    def layers(
        self,
        model: Model,
        graphs: Sequence[HeteroGraph],
        expected_runs: float,
        *,
        variants: Sequence[str | None] | None = None,
        memory_limit: int | None = None,
        explain: bool = False,
    ) -> tuple[LayerReport, ...]:
        """A choice for each layer.

        Args:
            model: What would run.
            graphs: What on, one for each layer.
            expected_runs: Over how many runs preparation is spread.
            variants: Ids to take instead, None for the selector's choice; one for each layer.
            memory_limit: Most bytes that a layer's temporaries, scratch and result may take.
            explain: Add launches and candidates of what the selector chooses.

        Raises:
            InputError: There are more or fewer variants than layers.
            VariantError: A layer has no such variant.
            MemoryLimitError: No variant fits the limit, or not the one that was asked for.
        """
        wanted = tuple(variants) if variants is not None else (None,) * len(model.modules)
        if len(wanted) != len(model.modules):
            raise InputError(
                f"{len(wanted)} variants for {len(model.modules)} layers: give one for each, null "
                "where the selector shall choose"
            )
        limit = self._limits.run_bytes
        limit = limit if memory_limit is None else min(limit, memory_limit)
        is_default = memory_limit is None and variants is None and not explain
        active = self._follower.active
        selector = active.selector
        demands = expected_runs, torch.get_num_threads()
        reports = []
        with self._metrics.select_seconds.time(), step("select", cost_model=active.model):
            for number, (graph, variant) in enumerate(zip(graphs, wanted, strict=True)):
                module, graph = model.modules[number], model.wiring.graph(number, graph)
                precision = model.description.precision
                given = selector, module, graph, expected_runs, limit, precision
                choose = partial(self._ask, selector.choose, *given)
                explanation = self._ask(selector.explain, *given) if explain else None
                if explanation is not None:
                    decision = _decided(explanation.choice, variant, limit)
                elif is_default:
                    use = model.compiled[number].use_of(graph)
                    decision = use.decision(selector, demands, choose)
                else:
                    decision = _decided(choose(), variant, limit)
                if decision.source != LEARNED:
                    self._metrics.fallbacks.labels(module.kind).inc()
                program = model.programs[number]
                reports.append(_report(module.kind, program, decision, explanation))
        return tuple(reports)

    def _ask(
        self,
        ask: Callable[..., T],
        selector: Selector,
        module: RelationalLayer,
        graph: HeteroGraph,
        expected_runs: float,
        limit: int,
        precision: Precision,
    ) -> T:
        """What `Selector.choose` or `Selector.explain` says of a layer on a graph."""
        graph = self._engine.graph(graph)  # its indexes are there, and runs need them, too
        with using_threads(threads_for(selector, module, graph, precision)):
            return ask(
                module,
                graph,
                memory_limit=limit,
                expected_runs=expected_runs,
                cuda_graph=self._engine.cuda_graph,
                precision=precision,
            )


def threads_for(
    selector: Selector, module: RelationalLayer, graph: HeteroGraph, precision: Precision
) -> int:
    """How many threads are to run a layer: one, if that should take it next to no time."""
    if selector.device != "cpu":
        return kernel_threads()
    with using_threads(1):
        alone = selector.choose(module, graph, precision=precision).seconds
    return 1 if alone < ALONE_SECONDS else kernel_threads()


def _decided(choice: Choice, variant: str | None, limit: int) -> Decision:
    """What was chosen, or asked for instead."""
    if variant is None:
        return choice.decision
    found = choice.candidate(variant)
    if found.peak_bytes > limit:
        raise MemoryLimitError(
            f"{variant} needs {found.peak_bytes} bytes, and the limit is {limit}: raise it, or "
            "take another variant"
        )
    return replace(
        choice.decision,
        variant=found.id,
        reason="as asked for",
        seconds=found.seconds,
        peak_bytes=found.peak_bytes,
    )


def _report(
    layer: str, program: str, decision: Decision, explanation: Explanation | None
) -> LayerReport:
    return LayerReport(
        layer=layer,
        variant=decision.variant,
        reason=decision.reason,
        predicted_seconds=decision.seconds,
        peak_bytes=decision.peak_bytes,
        threads=decision.threads,
        program=program,
        explanation=None if explanation is None else explained(explanation),
    )
