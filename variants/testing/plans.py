"""Runs a plan on a graph, whatever its program takes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hetune.variants.backends.base import Backend
from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.gpu_schedule import AnySchedule
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.nodes import Type
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.plan_facts import facts_of
from hetune.variants.runtime.plan_inputs import weights_of
from hetune.variants.runtime.results import Results


class _Unwritten(Results):
    """Results in memory that is full of NaN."""

    def _new(self, kind: Type, rows: int) -> Tensor:
        return torch.full((rows, *kind.shape), torch.nan)


def run_plan(
    plan: Plan,
    values: Mapping[str, Tensor],
    graph: HeteroGraph,
    backend: Backend | None = None,
    schedules: tuple[AnySchedule, ...] = (),
) -> Tensor:
    """The result of a plan that has one, as `run_results`."""
    (result,) = run_results(plan, values, graph, backend, schedules)
    return result


def run_results(
    plan: Plan,
    values: Mapping[str, Tensor],
    graph: HeteroGraph,
    backend: Backend | None = None,
    schedules: tuple[AnySchedule, ...] = (),
) -> tuple[Tensor, ...]:
    """The plan's results on the CPU, float32 [rows, *row shape]; edges in the graph's order.

    Memory is full of NaN before: what is read but never written shows.

    Args:
        plan: What to run.
        values: A tensor for each of the program's parameters, as `random_parameters` draws them:
            rows of edges in the graph's order.
        graph: What to run it on.
        backend: The interpreter if None.
        schedules: One for each launch; default ones if there are none.
    """
    backend = backend or TorchBackend()
    domain = Domain(graph, graph.device if backend.indexes_on_device else None)
    inputs = {
        param.name: values[param.name].float()
        for param in plan.program.params
        if param.role != "weight"
    }
    schedules = schedules or (Schedule(),) * len(plan.launches)
    executable = Executable(plan, domain, backend, schedules)
    for memory in executable.memory().values():
        memory.fill_(torch.nan)
    executable.results = _Unwritten(facts_of(plan).results, domain, None)
    weights = {**weights_of(plan, values, graph), **executable.constants(inputs)}
    return executable.run(inputs, weights)
