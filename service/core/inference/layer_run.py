"""One layer on one graph: by the variant that was chosen, or by the module where that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from hetune.service.core.inference.deadline import check_deadline
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.models import Model
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.threads import used_threads, using_threads
from hetune.variants.program.interpreter_memory import interpreter_bytes
from hetune.variants.registry import default_registry
from hetune.variants.runtime.float32_range import OUTGROWN, OutgrownError, check_finite


@dataclass(frozen=True, slots=True)
class LayerRun:
    """What a layer did.

    Attributes:
        results: Float32 [rows, width].
        seconds: That it took.
        threads: That it used.
        uncompiled: Why the module ran in the variant's stead; None where the variant did.
    """

    results: tuple[Tensor, ...]
    seconds: float
    threads: int
    uncompiled: str | None = None


def run_layer(
    engine: Engine,
    model: Model,
    number: int,
    rows: Sequence[Tensor],
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
        rows: What it takes in, float32 [rows, width].
        graph: What on.
        variant: Id of what was chosen.
        threads: That its kernels use.
        most_bytes: What the module may hold; 0 where nothing else than the variant is wanted.
        deadline: As of `Inference.run`.

    Raises:
        OutgrownError: A number outgrows float32, and the module would need more memory.
        TooLargeError: The model's kernels took too long to compile.
        DeadlineError: The deadline has passed before the module could begin.
    """
    layer = model.compiled[number]
    with using_threads(threads):
        model.compiling.check()
        known = default_registry().loads.compiled
        start = engine.device.now()
        try:
            results = _several(layer(*rows, graph, variant=variant))
            seconds = engine.device.now() - start
            if not engine.device.is_host:
                for result in results:
                    check_finite(variant, result, (*rows, *layer.parameters()))
            return LayerRun(results, seconds, used_threads())
        except OutgrownError:
            if interpreter_bytes(model.modules[number].program(), graph) > most_bytes:
                raise
        finally:
            if default_registry().loads.compiled != known:
                model.compiling.add(engine.device.now() - start)
        check_deadline(deadline)
        results = _several(layer.run_module(*rows, graph))
        return LayerRun(results, engine.device.now() - start, used_threads(), OUTGROWN)


def _several(found: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)
