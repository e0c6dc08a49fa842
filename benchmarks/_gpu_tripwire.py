"""hetune's walks over parts beside CUDA C++ by hand, over the same parts and in the same turns."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from _gpu_by_hand import by_hand
from _gpu_graphs import fresh_graph
from _gpu_roofline import SUMS, Roofline, buffers_of
from _gpu_units import Unit
from _memory import describe
from torch import Tensor

from hetune.variants.backends.triton.ahead import gpu_registry
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.backends.triton.driver import DriverError
from hetune.variants.backends.triton.emit import TritonSource
from hetune.variants.errors import CompileError
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.kernel.nodes import Launch
from hetune.variants.registry.records import KernelSource
from hetune.variants.runtime.domain import Domain
from hetune.variants.testing.conformance import TOLERANCE, relative_error

_KINDS = {"sum": "aggregation", "softmax": "attention"}
_WIDTH = 64
_ONCE_READ = re.compile(r"(tl\.load\((?:all_src|a)_ptr \+ e, mask=e_in, other=0(?:\.0)?)\)")
"""Loads of edges' own numbers."""
_COLUMNS = 8
"""Columns that float64 is given room for at once."""


@dataclass(frozen=True)
class Tried:
    """A way of running hetune's own walk.

    Attributes:
        schedule: The schedule.
        warps: Of a program; 0 for as many as hetune takes.
        stages: Of the loop over edges; 0 for none that Triton is told of.
        streams: Whether what is read or written once leaves the cache first.
    """

    schedule: GpuSchedule
    warps: int = 0
    stages: int = 0
    streams: bool = False

    def __str__(self) -> str:
        s = self.schedule
        more = {"warps": self.warps, "stages": self.stages, "streams": self.streams}
        known = {"edges": s.edges, "elements": s.elements, "part_edges": s.part_edges}
        return " ".join(f"{n}={v}" for n, v in {**known, **more}.items() if v)


TRIED = (
    *map(Tried, SUMS),
    Tried(GpuSchedule(edges=2)),
    Tried(GpuSchedule(elements=1024)),
    Tried(GpuSchedule(edges=8, elements=4096, part_edges=128)),
    Tried(GpuSchedule(elements=512), warps=1),
    Tried(GpuSchedule(elements=1024), warps=1),
    Tried(GpuSchedule(edges=8, elements=1024), warps=1),
    Tried(GpuSchedule(edges=8), warps=2),
    Tried(GpuSchedule(elements=4096), warps=8),
    Tried(GpuSchedule(edges=16, elements=8192), warps=4),
    Tried(GpuSchedule(), stages=2),
    Tried(GpuSchedule(), stages=3),
    Tried(GpuSchedule(), streams=True),
    Tried(GpuSchedule(edges=8, elements=4096), streams=True),
)
"""The default first."""


class TunedBackend(TritonBackend):
    """A backend of which Triton is told more than hetune prints.

    Args:
        tried: The schedule, and what is told beside it.
    """

    def __init__(self, tried: Tried) -> None:
        super().__init__("ieee", tried.schedule)
        self._tried = tried

    def _emitted(self, launch: Launch, schedule: AnySchedule) -> TritonSource:
        made, tried = super()._emitted(launch, schedule), self._tried
        text, kernels = made.source.text, made.kernels
        if tried.stages:
            loop = f"in tl.range(0, most, U, num_stages={tried.stages})"
            text = text.replace("in range(0, most, U)", loop)
        if tried.streams:
            text = _ONCE_READ.sub(r'\1, eviction_policy="evict_first")', text)
            text = text.replace(
                "mask=whole[:, None],", 'mask=whole[:, None], cache_modifier=".cs",'
            )
        if tried.warps:
            text = re.sub(r'"num_warps": \d+', f'"num_warps": {tried.warps}', text)
            kernels = tuple(
                replace(k, function=replace(k.function, warps=tried.warps)) for k in kernels
            )
        return TritonSource(KernelSource(made.source.name, text, made.source.recipe), kernels)


@dataclass(frozen=True)
class Tripwire:
    """Makes the units.

    Attributes:
        roofline: Whose work, limits and turns they are.
    """

    roofline: Roofline

    def units(self, graph: str) -> list[Unit]:
        """Sums and softmax sums on a graph."""
        return [
            Unit(f"tripwire/{kind}/{graph}", lambda kind=kind: self.measure(kind, graph))
            for kind in _KINDS
        ]

    def measure(self, kind: str, graph: str) -> dict[str, Any]:
        """A unit's record: times of all, errors, and shares of the longest bound."""
        at = fresh_graph(graph, self.roofline.device)
        work = self.roofline.work(_KINDS[kind], at, _WIDTH)
        domain = Domain(at, at.device)
        values = buffers_of(work.launch, domain, at.device)
        backends = {str(tried): TunedBackend(tried) for tried in TRIED}
        major, minor = torch.cuda.get_device_capability(at.device)
        schedule = GpuSchedule()
        gpu_registry(10 * major + minor).build(
            backend.source(work.launch, schedule) for backend in backends.values()
        )
        runs, refused = self.roofline.started(work.launch, backends, domain, values)
        try:
            runs |= by_hand(kind, work.launch, domain, values)
        except (RuntimeError, CompileError, DriverError) as error:
            refused["cuda"] = describe(error)
        expected = in_double(domain.index(""), values)
        errors = {}
        for name, run in [*runs.items()]:
            values["y"].fill_(torch.nan)
            run()
            errors[name] = relative_error(values["y"], expected)
            if not errors[name] <= TOLERANCE:
                refused[name] = f"relative error {errors[name]:.2g}"
                del runs[name]
        del expected
        record = self.roofline.record(graph, at, work, runs, refused)
        return {**record, "candidates": shares_of(record), "errors": errors}


def shares_of(record: Mapping[str, Any]) -> dict[str, float]:
    """Each candidate's share of the longest bound.

    Args:
        record: Of a unit, with bounds and times.
    """
    bound = max(record["bounds_ms"].values())
    limits = ("product", "copy", "pick ")
    times = {n: t["median_ms"] for n, t in record["times"].items() if not n.startswith(limits)}
    return {name: round(bound / ms, 4) for name, ms in times.items()}


def in_double(index: GraphIndex, values: Mapping[str, Tensor]) -> Tensor:
    """What a sum, or a softmax sum, has to give: float64 [N, 64].

    Args:
        index: Of all edges, in the order of their destinations.
        values: The launch's buffers: x and a, or q, k and v.
    """
    src = index.src.long()
    nodes = torch.arange(len(values["y"]), device=src.device)
    dst = torch.repeat_interleave(nodes, index.indptr.long().diff())
    if "a" in values:
        table, weight = values["x"], values["a"].flatten().double()
    else:
        table, weight = values["v"], torch.zeros(len(src), dtype=torch.float64, device=src.device)
        for begin in range(0, _WIDTH, _COLUMNS):
            q, k = (values[n][:, begin : begin + _COLUMNS].double() for n in ("q", "k"))
            weight += (q[dst] * k[src]).sum(1)
        top = weight.new_zeros(len(nodes)).scatter_reduce(
            0, dst, weight, "amax", include_self=False
        )
        weight = (weight - top[dst]).exp()
        weight /= weight.new_zeros(len(nodes)).index_add_(0, dst, weight)[dst]
    found = weight.new_zeros(len(nodes), _WIDTH)
    for begin in range(0, _WIDTH, _COLUMNS):
        columns = slice(begin, begin + _COLUMNS)
        found[:, columns] = torch.zeros_like(found[:, columns]).index_add_(
            0, dst, weight[:, None] * table[:, columns].double()[src]
        )
    return found
