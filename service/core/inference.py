"""Running models on graphs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from hetune.service.core.answers import Answer, LayerReport, Report, Rows
from hetune.service.core.deadline import check_deadline
from hetune.service.core.description import ACTIVATIONS
from hetune.service.core.limits import Limits, check_limit
from hetune.service.core.metrics import Metrics
from hetune.service.core.models import Model
from hetune.service.core.rows import Nodes, check_nodes, features_of, pick
from hetune.service.core.runs import note, runs_of
from hetune.service.core.selection import Selection
from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph

_FLOAT_BYTES = 4


class Inference:
    """Full-graph inference by the variants that a selection chooses.

    Args:
        selection: Finds models and graphs, and chooses.
        limits: What runs may hold.
        metrics: Where layers that ran are counted and timed.
    """

    def __init__(self, selection: Selection, limits: Limits, metrics: Metrics) -> None:
        self._selection, self._limits, self._metrics = selection, limits, metrics

    def run(
        self,
        model: str | Model,
        graph: HeteroGraph | str,
        features: Tensor | Mapping[str, Tensor],
        *,
        version: int | None = None,
        nodes: Nodes | None = None,
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
            outputs: Which layers' outputs to give, by number; the last one's if None.
            variants: Ids to run, None for the selector's choice; one for each layer.
            memory_limit: Most bytes that a layer may hold beside its inputs.
            explain: Add why variants were chosen.
            deadline: Time of `time.monotonic()` after which no further layer is begun.

        Raises:
            NotFoundError: There is no such model or graph.
            InputError: Graph, features, nodes or outputs do not fit.
            VariantError: A layer has no such variant.
            MemoryLimitError: No variant fits the limit.
            TooLargeError: The outputs would be over the service's limit.
            DeadlineError: The deadline has passed.
        """
        check_deadline(deadline)
        found, given, expected_runs = self._selection.resolve(model, version, graph)
        wanted = _outputs(outputs, len(found.modules))
        x = features_of(features, given, found.description.in_channels)
        check_nodes(nodes, given)
        self._check_memory(found, given, wanted)
        layers = self._selection.layers(
            found,
            given,
            expected_runs,
            variants=variants,
            memory_limit=memory_limit,
            explain=explain,
        )
        kept: dict[int, Rows] = {}
        reports: list[LayerReport] = []
        by_type = not isinstance(features, Tensor)
        for number, layer in enumerate(layers):
            check_deadline(deadline)
            x, seconds = _run(found, number, layer.variant, x, given)
            reports.append(layer.model_copy(update={"measured_seconds": seconds}))
            prepared = note(runs_of(found.compiled[number], given), layer.variant, seconds)
            self._metrics.layer_ran(reports[-1], prepared=prepared)
            if number in wanted:
                kept[number] = pick(x, given, nodes, by_type)
        report = Report(
            model=found.name,
            version=found.version,
            graph=given.fingerprint,
            layers=tuple(reports),
        )
        return Answer(report, kept)

    def _check_memory(self, model: Model, graph: HeteroGraph, outputs: frozenset[int]) -> None:
        """What is held at the same time: the outputs to give, a layer's input and its result."""
        widths = model.description.widths
        kept = sum(widths[number + 1] for number in outputs)
        at_work = max(a + b for a, b in itertools.pairwise(widths))
        check_limit(
            "bytes for features and outputs",
            graph.num_nodes * (kept + at_work) * _FLOAT_BYTES,
            self._limits.run_bytes,
        )


def _run(
    model: Model, number: int, variant: str, x: Tensor, graph: HeteroGraph
) -> tuple[Tensor, float]:
    """A layer's output after its activation, and the seconds that the layer took."""
    with torch.no_grad():
        start = time.perf_counter()
        out = model.compiled[number](x, graph, variant=variant)
        seconds = time.perf_counter() - start
        return ACTIVATIONS[model.description.layers[number].activation](out), seconds


def _outputs(outputs: Sequence[int] | None, layers: int) -> frozenset[int]:
    if outputs is None:
        return frozenset({layers - 1})
    for number in outputs:
        if not 0 <= number < layers:
            raise InputError(f"there is no layer {number}: number them from 0 to {layers - 1}")
    if not outputs:
        raise InputError("outputs is empty: name at least one layer, or leave it out")
    return frozenset(outputs)
