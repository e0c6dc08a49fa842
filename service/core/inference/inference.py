"""Running models on graphs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.graphs.rows import (
    Nodes,
    Rows,
    check_nodes,
    count_of,
    ids_of,
    pick,
    reached,
)
from hetune.service.core.inference.answers import Answer, LayerReport, RunReport
from hetune.service.core.inference.deadline import check_deadline
from hetune.service.core.inference.layer_run import LayerRun, run_layer
from hetune.service.core.inference.metrics import Metrics
from hetune.service.core.inference.model_rows import OutputPlaces, inputs_of
from hetune.service.core.inference.regret import RegretSamples
from hetune.service.core.inference.selection import ONCE, VariantSelection
from hetune.service.core.inference.steps import step
from hetune.service.core.inference.subset import Subset, SubsetPlan, planned
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.jumping_knowledge import join
from hetune.service.core.models.models import Model
from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph

_FLOAT_BYTES = 4
_IDS_BYTES = 24
"""Of a row that is asked for: its node's id as int64, in the graph's order, and where it is."""


@dataclass(frozen=True, slots=True)
class _Run:
    """What is to be computed."""

    model: Model
    graph: HeteroGraph
    plan: SubsetPlan
    nodes: Nodes | None
    by_type: bool
    places: OutputPlaces
    needed: frozenset[int]
    deadline: float | None
    variants: Sequence[str | None]
    module_bytes: int

    def graph_of(self, layer: int) -> HeteroGraph:
        """What a layer runs on: all of the graph, or a part of it, with the layer's loops."""
        whole = self.graph if self.plan.steps is None else self.plan.steps[layer].graph
        return self.model.wiring.graph(layer, whole)


class Inference:
    """Full-graph inference by the variants that a selection chooses.

    Args:
        selection: Finds models and graphs, and chooses.
        engine: What runs layers.
        limits: What runs may hold.
        metrics: Where layers that ran are counted and timed.
        regret: Who may run a layer again later.
    """

    def __init__(
        self,
        selection: VariantSelection,
        engine: Engine,
        limits: ServiceLimits,
        metrics: Metrics,
        regret: RegretSamples,
    ) -> None:
        self._selection, self._engine, self._limits = selection, engine, limits
        self._metrics, self._regret = metrics, regret

    def run(
        self,
        model: str | Model,
        graph: HeteroGraph | str,
        features: Tensor | Mapping[str, Tensor] | None,
        *,
        inputs: Mapping[str, Tensor] | None = None,
        version: int | None = None,
        nodes: Nodes | None = None,
        subset: Subset = "auto",
        outputs: Sequence[int] | None = None,
        variants: Sequence[str | None] | None = None,
        memory_limit: int | None = None,
        explain: bool = False,
        deadline: float | None = None,
    ) -> Answer:
        """Runs a model on a graph.

        What is chosen depends on what is asked alone, not on earlier requests; so do the bits of
        the result.

        Args:
            model: A model, or the name of one that is kept.
            graph: A graph, or the id of one that is kept.
            features: Rows of all nodes in the graph's order, float32 [N, in_channels]; or those
                of each node type; None where the model has rows of its own.
            inputs: Rows of what else the model takes in, by name, float32 [N, width] or [E, width],
                edges in the graph's order.
            version: Of a model that is named; the latest if None.
            nodes: Whose rows to give; of all nodes if None, by node type if the features are.
            subset: How to compute rows of some nodes: "full" cuts them out of a run on the whole
                graph, "reach" runs each layer on what they depend on alone, "auto" does what is
                predicted to be faster.
            outputs: Which outputs to give, by number: each layer's first result; then, with jumping
                connections, what they join; then all other results. The model's if None.
            variants: Ids to run, None for the selector's choice; one for each layer.
            memory_limit: Most bytes that a layer's temporaries, scratch and result may take.
            explain: Add why variants were chosen.
            deadline: Time of `time.monotonic()` after which no further layer is begun.

        Raises:
            NotFoundError: There is no such model or graph.
            InputError: Graph, features, nodes or outputs do not fit. Or a number outgrows float32
                in a variant that was asked for, or the module would need too much memory.
            VariantError: A layer has no such variant.
            MemoryLimitError: No variant fits the limit.
            TooLargeError: The outputs would be over the service's limit.
            DeadlineError: The deadline has passed.
            DeviceError: The GPU that layers run on fails, or has no memory left.
        """
        check_deadline(deadline)
        found, given, expected_runs = self._selection.resolve(model, version, graph)
        places = OutputPlaces(found)
        wanted = places.wanted(outputs)
        needed = places.needed(wanted)
        by_type = isinstance(features, Mapping)
        if found.description.node_widths:  # zeros behind narrow rows take memory, too
            size = given.num_nodes * found.description.in_channels * _FLOAT_BYTES
            check_limit("bytes for features and outputs", size, self._limits.run_bytes)
        rows = inputs_of(found, given, features, inputs or {})
        if nodes is None and isinstance(features, Mapping) and found.description.result_types:
            nodes = dict.fromkeys(found.description.result_types)
        check_nodes(nodes, given)
        if nodes is not None and any(places.is_of_edges(number) for number in wanted):
            raise InputError("an output has rows of edges: leave nodes out, or ask for others")

        asked = None if nodes is None else count_of(nodes, given)
        if asked is not None:
            self.check_memory(places, None, wanted | needed, asked)

        def layers(graphs: Sequence[HeteroGraph], once: bool) -> tuple[LayerReport, ...]:
            largest = max(graphs, key=lambda graph: graph.num_nodes)
            self.check_memory(places, largest, wanted | needed, asked)
            return self._selection.layers(
                found,
                graphs,
                ONCE if once else expected_runs,
                variants=variants,
                memory_limit=memory_limit,
                explain=explain,
            )

        ids = None if nodes is None else ids_of(nodes, given)
        with self._engine.guarded():
            plan = planned(
                given, ids, len(found.modules), needed, subset, layers, found.wiring.is_chain
            )
        named = variants or (None,) * len(found.modules)
        limit = self._limits.run_bytes
        limit = limit if memory_limit is None else min(limit, memory_limit)
        run = _Run(found, given, plan, nodes, by_type, places, needed, deadline, named, limit)
        with torch.no_grad(), self._engine.guarded():
            reports, kept = self._compute(run, rows)
        is_free = variants is None and memory_limit is None
        if is_free and plan.steps is None and math.isinf(expected_runs):
            self._regret.offer(found, given, [layer.variant for layer in plan.layers])
        if places.joined in wanted:
            kept[places.joined] = join(
                [kept[number] for number in range(len(found.modules))], found.description
            )
        report = RunReport(
            model=found.name,
            version=found.version,
            graph=given.fingerprint,
            layers=reports,
            subset=plan.report,
        )
        return Answer(report, {number: kept[number] for number in sorted(wanted)})

    def _compute(
        self, run: _Run, rows: dict[str, Tensor]
    ) -> tuple[tuple[LayerReport, ...], dict[int, Rows]]:
        """What each layer did, and the rows that are needed; `rows` are let go when read."""
        kept: dict[int, Rows] = {}
        reports: list[LayerReport] = []
        wiring, last = run.model.wiring, run.model.wiring.last_reads()
        for number, layer in enumerate(run.plan.layers):
            check_deadline(run.deadline)
            with step("compute", layer=layer.layer, number=number, variant=layer.variant):
                graph = run.graph_of(number)
                done = self._layer(run, number, graph, rows)
            seconds = done.seconds
            rows |= zip(wiring.gives[number], done.results, strict=True)
            use = run.model.compiled[number].use_of(graph)
            prepared = done.uncompiled is not None or use.record(layer.variant, seconds)
            ran = {"measured_seconds": seconds, "threads": done.threads}
            reports.append(layer.model_copy(update={**ran, "uncompiled": done.uncompiled}))
            self._metrics.layer_ran(reports[-1], prepared=prepared)
            for name in wiring.gives[number]:
                if (place := run.places.number(name)) in run.needed:
                    is_of_edges = run.places.is_of_edges(place)
                    kept[place] = self._rows(run, number, rows[name], is_of_edges)
            rows = {name: tensor for name, tensor in rows.items() if last.get(name, -1) > number}
        return tuple(reports), kept

    def _layer(
        self, run: _Run, number: int, graph: HeteroGraph, rows: Mapping[str, Tensor]
    ) -> LayerRun:
        """What a layer did, with its first result finished."""
        engine, layer, wiring = self._engine, run.plan.layers[number], run.model.wiring
        part = None if run.plan.steps is None else run.plan.steps[number]

        def given(name: str) -> Tensor:
            found = rows[name] if part is None else part.inputs(rows[name])
            return engine.device.put(found) if name in wiring.inputs else found

        done = run_layer(
            engine,
            run.model,
            number,
            [given(name) for name in wiring.reads[number]],
            engine.graph(graph),
            variant=layer.variant,
            threads=layer.threads,
            most_bytes=run.module_bytes if run.variants[number] is None else 0,
            deadline=run.deadline,
        )
        first, *others = done.results
        out = run.model.epilogues[number](first)
        return replace(done, results=(out if part is None else part.needed(out), *others))

    def _rows(self, run: _Run, number: int, out: Tensor, is_of_edges: bool) -> Rows:
        """The rows to give, of those that a layer gave."""
        if is_of_edges:
            return self._engine.device.fetch(out)
        if run.nodes is None:  # types' rows are parts of one tensor
            return pick(self._engine.device.fetch(out), run.graph, None, run.by_type)
        if run.plan.steps is None:
            return self._engine.fetch(pick(out, run.graph, run.nodes, run.by_type))
        among = run.plan.steps[number].nodes
        return self._engine.fetch(reached(out, among, run.graph, run.nodes))

    def check_memory(
        self,
        places: OutputPlaces,
        graph: HeteroGraph | None,
        outputs: frozenset[int],
        asked: int | None = None,
    ) -> None:
        """Checks what is held at the same time: outputs, layers' inputs, copies of their results.

        Args:
            places: Of the model that is to run.
            graph: What it runs on; None where that is not known yet.
            outputs: Which are given.
            asked: Rows of each, as often as they are asked for; a row of each node if None.

        Raises:
            TooLargeError: It is over the service's limit.
        """
        nodes = 0 if graph is None else graph.num_nodes
        edges = 0 if graph is None else graph.num_edges
        model = places.model
        copies = [epilogue.copies for epilogue in model.epilogues]
        rows, ids = (nodes, 0) if asked is None else (asked, _IDS_BYTES)
        kept = sum(
            places.width(number) * (edges if places.is_of_edges(number) else rows)
            for number in outputs
        )
        check_limit(
            "bytes for features and outputs",
            model.wiring.most_bytes(copies, nodes, edges) + kept * _FLOAT_BYTES + rows * ids,
            self._limits.run_bytes,
        )
