"""Layers on a graph part by part, as tasks of Ray."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, Self

import numpy as np

from hetune.variants.errors import PartitionError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.partition.executor import Executor, LayerParts, PartRows
from hetune.variants.partition.model_layers import PartitionedModel
from hetune.variants.partition.partitions import Partitions
from hetune.variants.partition.ray_cluster import ray_cluster
from hetune.variants.partition.row_files import RowsLike
from hetune.variants.partition.run import Progress, run_on


def run(
    model: PartitionedModel,
    graph: HeteroGraph | Partitions,
    features: RowsLike,
    out: str | os.PathLike[str],
    *,
    memory: int,
    address: str | None = None,
    variant: str | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """As `run_partitions`, with parts computed by a cluster: each takes one of its CPUs.

    This process alone writes rows and the journal. Parts of a worker that is lost are computed
    again elsewhere. Features of several layers, and those and edges that are given as files, are
    read by workers under the same paths; other features and graphs are sent to them. What is sent
    is pickled: workers must be trusted, and have hetune and the modules that layers come from.

    Args:
        model: As of `run_partitions`.
        graph: Likewise.
        features: Likewise.
        out: Likewise; with several layers, or features to unpack, in a folder that all workers see.
        memory: Most bytes that a part may take in a worker.
        address: Of a cluster. None: the one that this process is connected to, or that Ray's own
            settings name, or a new one on this machine for the time of the call.
        variant: As of `run_partitions`.
        progress: Likewise.

    Returns:
        The rows, mapped to the file.

    Raises:
        InputError: Ray is not installed, no cluster answers, or an address is given where there is
            a connection; or as of `run_partitions`.
        MemoryLimitError: The smallest part does not fit.
        PartitionError: As of `run_partitions`, or workers were lost again and again.
        VariantError: There is no such variant.
    """
    with on_ray(address) as executor:
        return run_on(executor, model, graph, features, out, memory, variant, progress)


@contextmanager
def on_ray(address: str | None) -> Iterator[Executor]:
    """What has parts computed by a cluster.

    Raises:
        InputError: As `run` does.
    """
    with ray_cluster(address) as ray, _OnRay(ray) as executor:
        yield executor


class _OnRay:
    """Parts as tasks, two for each CPU, so that none waits for the next."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.slots = 2 * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        self.least = 2 * self.slots
        self._task = ray.remote(num_cpus=1)(_perform)
        self._graph: Any = None
        self._running: dict[Any, tuple[int, int]] = {}

    def begin(self, parts: LayerParts) -> None:
        """Sends the layer, and for the first one the graph; each worker loads them once."""
        if self._graph is None:
            self._graph = self._ray.put(parts.partitions)
        layer = self._ray.put((parts.layer, parts.rows, parts.memory, parts.variant))
        self._parts = [self._graph, layer]

    def start(self, first: int, last: int) -> None:
        """Starts a task."""
        self._running[self._task.remote(self._parts, first, last)] = first, last

    def result(self) -> tuple[tuple[int, int], PartRows]:
        """Waits for a task.

        Raises:
            PartitionError: It was lost with its workers, more often than Ray tries.
        """
        (done,), _ = self._ray.wait(list(self._running), num_returns=1)
        ranges = self._running.pop(done)
        try:
            return ranges, self._ray.get(done)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            raise PartitionError(
                f"Ray lost a part ({error}): run it again; what is finished is kept"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves nothing running."""
        for task in self._running:
            self._ray.cancel(task)


def _perform(parts: list[Any], first: int, last: int) -> PartRows:
    found = _layer_parts(*parts)
    return found.run(first, last, partial(found.read, first, last))


@lru_cache(maxsize=1)
def _layer_parts(graph: Any, layer: Any) -> LayerParts:
    import ray

    compiled, rows, memory, variant = ray.get(layer)
    return LayerParts(compiled, _partitions(graph), rows, memory, variant)


@lru_cache(maxsize=1)
def _partitions(graph: Any) -> Partitions:
    import ray

    found: Partitions = ray.get(graph)
    return found
