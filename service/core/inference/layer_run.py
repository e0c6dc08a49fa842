"""One layer on one graph: by the variant that was chosen, or by the module where that cannot be."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hetune.service.core.inference.deadline import check_deadline
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.models import Model
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.threads import used_threads, using_threads
from hetune.variants.program.interpreter_memory import interpreter_bytes
from hetune.variants.runtime.float32_range import OUTGROWN, OutgrownError, check_finite


@dataclass(frozen=True, slots=True)
class LayerRun:
    """What a layer did.

    Attributes:
        rows: Its result, float32 [N, width].
        seconds: That it took.
        threads: That it used.
        uncompiled: Why the module ran in the variant's stead; None where the variant did.
    """

    rows: Tensor
    seconds: float
    threads: int
    uncompiled: str | None = None


def run_layer(
    engine: Engine,
    model: Model,
    number: int,
    x: Tensor,
    graph: HeteroGraph,
    *,
    variant: str,
    threads: int,
    most_bytes: int,
    deadline: float | None,
) -> LayerRun:
    """Runs a variant of a layer, or its module where a number outgrows float32 in the variant.

    Args:
        engine: Where model, rows and graph are.
        model: Whose layer to run.
        number: The layer's.
        x: Rows of all nodes, float32 [N, width].
        graph: What on.
        variant: Id of what was chosen.
        threads: That its kernels use.
        most_bytes: What the module may hold; 0 where nothing else than the variant is wanted.
        deadline: As of `Inference.run`.

    Raises:
        OutgrownError: A number outgrows float32, and the module would need more memory.
        DeadlineError: The deadline has passed before the module could begin.
    """
    layer = model.compiled[number]
    with using_threads(threads):
        start = engine.device.now()
        try:
            rows = layer(x, graph, variant=variant)
            seconds = engine.device.now() - start
            if not engine.device.is_host:
                check_finite(variant, rows, (x, *layer.parameters()))
            return LayerRun(rows, seconds, used_threads())
        except OutgrownError:
            if interpreter_bytes(model.modules[number].program(), graph) > most_bytes:
                raise
        check_deadline(deadline)
        rows = layer.run_module(x, graph)
        return LayerRun(rows, engine.device.now() - start, used_threads(), OUTGROWN)
