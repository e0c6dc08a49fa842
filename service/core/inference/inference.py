"""Running models on graphs."""

from __future__ import annotations

import itertools
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
    features_of,
    ids_of,
    pick,
    reached,
)
from hetune.service.core.inference.answers import Answer, LayerReport, RunReport
from hetune.service.core.inference.deadline import check_deadline
from hetune.service.core.inference.layer_run import LayerRun, run_layer
from hetune.service.core.inference.metrics import Metrics
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
    needed: frozenset[int]
    deadline: float | None
    variants: Sequence[str | None]
    module_bytes: int

    def graph_of(self, layer: int) -> HeteroGraph:
        """What a layer runs on: all of the graph, or a part of it."""
        return self.graph if self.plan.steps is None else self.plan.steps[layer].graph


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
        features: Tensor | Mapping[str, Tensor],
        *,
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
                of each node type.
            version: Of a model that is named; the latest if None.
            nodes: Whose rows to give; of all nodes if None, by node type if the features are.
            subset: How to compute rows of some nodes: "full" cuts them out of a run on the whole
                graph, "reach" runs each layer on what they depend on alone, "auto" does what is
                predicted to be faster.
            outputs: Which layers' outputs to give, by number; with jumping connections, the number
                after the last layer's is that of what they join. The model's if None.
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
        joined, wanted = len(found.modules), outputs_of(outputs, found.description.num_outputs)
        needed = frozenset(range(joined)) if joined in wanted else wanted
        x = features_of(features, given, found.description.in_channels)
        check_nodes(nodes, given)

        asked = None if nodes is None else count_of(nodes, given)
        self.check_memory(found, 0, wanted | needed, asked)

        def layers(graphs: Sequence[HeteroGraph], once: bool) -> tuple[LayerReport, ...]:
            most = max(graph.num_nodes for graph in graphs)
            self.check_memory(found, most, wanted | needed, asked)
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
            plan = planned(given, ids, len(found.modules), needed, subset, layers)
        by_type = not isinstance(features, Tensor)
        named = variants or (None,) * len(found.modules)
        limit = self._limits.run_bytes
        limit = limit if memory_limit is None else min(limit, memory_limit)
        run = _Run(found, given, plan, nodes, by_type, needed, deadline, named, limit)
        with torch.no_grad(), self._engine.guarded():
            reports, kept = self._compute(run, x)
        is_free = variants is None and memory_limit is None
        if is_free and plan.steps is None and math.isinf(expected_runs):
            self._regret.offer(found, given, [layer.variant for layer in plan.layers])
        if joined in wanted:
            kept[joined] = join([kept[number] for number in range(joined)], found.description)
        report = RunReport(
            model=found.name,
            version=found.version,
            graph=given.fingerprint,
            layers=reports,
            subset=plan.report,
        )
        return Answer(report, {number: kept[number] for number in sorted(wanted)})

    def _compute(self, run: _Run, x: Tensor) -> tuple[tuple[LayerReport, ...], dict[int, Rows]]:
        """What each layer did, and the rows that are needed."""
        kept: dict[int, Rows] = {}
        reports: list[LayerReport] = []
        for number, layer in enumerate(run.plan.layers):
            check_deadline(run.deadline)
            with step("compute", layer=layer.layer, number=number, variant=layer.variant):
                done = self._layer(run, number, x)
            x, seconds = done.rows, done.seconds
            use = run.model.compiled[number].use_of(run.graph_of(number))
            prepared = done.uncompiled is not None or use.record(layer.variant, seconds)
            ran = {"measured_seconds": seconds, "threads": done.threads}
            reports.append(layer.model_copy(update={**ran, "uncompiled": done.uncompiled}))
            self._metrics.layer_ran(reports[-1], prepared=prepared)
            if number in run.needed:
                kept[number] = self._rows(run, number, x)
        return tuple(reports), kept

    def _layer(self, run: _Run, number: int, x: Tensor) -> LayerRun:
        """What a layer did, with its finished output."""
        engine, layer = self._engine, run.plan.layers[number]
        part = None if run.plan.steps is None else run.plan.steps[number]
        if part is not None:
            x = part.inputs(x)
        done = run_layer(
            engine,
            run.model,
            number,
            engine.device.put(x) if number == 0 else x,
            engine.graph(run.graph_of(number)),
            variant=layer.variant,
            threads=layer.threads,
            most_bytes=run.module_bytes if run.variants[number] is None else 0,
            deadline=run.deadline,
        )
        out = run.model.epilogues[number](done.rows)
        return replace(done, rows=out if part is None else part.needed(out))

    def _rows(self, run: _Run, number: int, out: Tensor) -> Rows:
        """The rows to give, of those that a layer gave."""
        if run.nodes is None:  # types' rows are parts of one tensor
            return pick(self._engine.device.fetch(out), run.graph, None, run.by_type)
        if run.plan.steps is None:
            return self._engine.fetch(pick(out, run.graph, run.nodes, run.by_type))
        among = run.plan.steps[number].nodes
        return self._engine.fetch(reached(out, among, run.graph, run.nodes))

    def check_memory(
        self, model: Model, nodes: int, outputs: frozenset[int], asked: int | None = None
    ) -> None:
        """Checks what is held at the same time: outputs, a layer's input, copies of its result.

        Args:
            model: What is to run.
            nodes: Of what it runs on.
            outputs: Which are given.
            asked: Rows of each, as often as they are asked for; a row of each node if None.

        Raises:
            TooLargeError: It is over the service's limit.
        """
        widths = model.description.widths
        kept = sum((*widths, model.description.out_channels)[number + 1] for number in outputs)
        held = zip(itertools.pairwise(widths), model.epilogues, strict=True)
        at_work = max(a + b * (1 + finish.copies) for (a, b), finish in held)
        rows, ids = (nodes, 0) if asked is None else (asked, _IDS_BYTES)
        check_limit(
            "bytes for features and outputs",
            (nodes * at_work + rows * kept) * _FLOAT_BYTES + rows * ids,
            self._limits.run_bytes,
        )


def outputs_of(outputs: Sequence[int] | None, count: int) -> frozenset[int]:
    """The outputs that are asked for, of so many; the last one if None are named.

    Raises:
        InputError: There is no such output, or an empty list of them.
    """
    if outputs is None:
        return frozenset({count - 1})
    for number in outputs:
        if not 0 <= number < count:
            raise InputError(f"there is no output {number}: number them from 0 to {count - 1}")
    if not outputs:
        raise InputError("outputs is empty: name at least one layer, or leave it out")
    return frozenset(outputs)
