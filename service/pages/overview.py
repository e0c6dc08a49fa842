"""What the overview shows: how the service is, what it keeps, what it has done."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass

import torch

from hetune.costmodel.fingerprint import Fingerprint, this_machine
from hetune.costmodel.model.manifest import ModelManifest
from hetune.costmodel.selection.champion import Active
from hetune.profiling.jobs.records import State
from hetune.service.core.inference.metrics import Metrics
from hetune.service.core.jobs.documents import JobDocument
from hetune.service.core.service import Service
from hetune.service.http.observe import UNMATCHED
from hetune.variants.errors import DeviceError, HetuneError, NotReadyError, StoreError

_LAST_JOBS = 5
_LOOKED_AT = 1000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RouteFigures:
    """Requests to one route.

    Attributes:
        route: Method and path.
        requests: All of them.
        failed: Those with a status of 400 and more.
        mean_seconds: From a request's head to the end of its answer.
    """

    route: str
    requests: int
    failed: int
    mean_seconds: float


@dataclass(frozen=True, slots=True)
class Overview:
    """All of it.

    Attributes:
        trouble: Why requests cannot be served; None if they can.
        graphs: How many.
        graph_bytes: On disk.
        models: How many, by name.
        versions: All of theirs.
        loaded: Those in memory.
        jobs: By state, of the last thousand.
        last_jobs: A few.
        has_jobs: Whether the database of jobs could be asked.
        requests: By route, the most frequent first.
        active: What chooses.
        papers: Of its cost model; None if the roofline model chooses.
        problem: Why the champion is not what chooses; None if it is.
        machine: This one.
        threads: That kernels use.
        run_bytes: What temporaries, scratch and result of a layer's run may take.
    """

    trouble: str | None
    graphs: int
    graph_bytes: int
    models: int
    versions: int
    loaded: int
    jobs: dict[str, int]
    last_jobs: tuple[JobDocument, ...]
    has_jobs: bool
    requests: tuple[RouteFigures, ...]
    active: Active
    papers: ModelManifest | None
    problem: str | None
    machine: Fingerprint
    threads: int
    run_bytes: int

    @property
    def request_count(self) -> int:
        """Of all routes."""
        return sum(each.requests for each in self.requests)

    @property
    def failed_count(self) -> int:
        """Of all routes."""
        return sum(each.failed for each in self.requests)


def overview_of(service: Service) -> Overview:
    """How a service is now."""
    graphs, models = service.graphs.all(), service.models
    versions = [(name, version) for name in models.names() for version in models.versions(name)]
    jobs, active = _jobs(service), service.follower.active
    return Overview(
        trouble=_trouble(service),
        graphs=len(graphs),
        graph_bytes=sum(graph.bytes for graph in graphs),
        models=len({name for name, _ in versions}),
        versions=len(versions),
        loaded=sum(models.is_loaded(*version) for version in versions),
        jobs={state: sum(job.state == state for job in jobs or ()) for state in State},
        last_jobs=(jobs or ())[:_LAST_JOBS],
        has_jobs=jobs is not None,
        requests=requests_of(service.metrics),
        active=active,
        papers=None if active.selector.model is None else active.selector.model.manifest,
        problem=service.follower.problem,
        machine=this_machine(),
        threads=torch.get_num_threads(),
        run_bytes=service.limits.run_bytes,
    )


def requests_of(metrics: Metrics) -> tuple[RouteFigures, ...]:
    """What was asked since the service started, the most frequent first."""
    counts: defaultdict[str, int] = defaultdict(int)
    failed: defaultdict[str, int] = defaultdict(int)
    seconds: defaultdict[str, float] = defaultdict(float)
    for family in metrics.request_seconds.collect():
        for sample in family.samples:
            route = sample.labels["route"]
            if sample.name.endswith("_count"):
                counts[route] += int(sample.value)
                failed[route] += int(sample.value) if sample.labels["status"] >= "400" else 0
            elif sample.name.endswith("_sum"):
                seconds[route] += sample.value
    found = [
        RouteFigures(
            "refused, or to no route" if route == UNMATCHED else route,
            number,
            failed[route],
            seconds[route] / number,
        )
        for route, number in counts.items()
        if number
    ]
    return tuple(sorted(found, key=lambda each: (-each.requests, each.route)))


def _trouble(service: Service) -> str | None:
    try:
        service.check_ready()
    except NotReadyError as error:
        return str(error)
    except HetuneError as error:
        _log.error("the service is not ready: %s", error)
        if isinstance(error, DeviceError):
            return "the GPU that layers run on does not answer: the service's log says why"
        if isinstance(error, StoreError):
            return "the database of jobs and measurements fails: the service's log says why"
        return "the folder of graphs and models cannot be written: the service's log says why"
    return None


def _jobs(service: Service) -> tuple[JobDocument, ...] | None:
    try:
        return service.jobs.list(limit=_LOOKED_AT).jobs
    except StoreError as error:
        service.measurements.outage.record(error)
        return None
