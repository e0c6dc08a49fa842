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
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.plan_inputs import weights_of


def run_plan(
    plan: Plan,
    values: Mapping[str, Tensor],
    graph: HeteroGraph,
    backend: Backend | None = None,
    schedules: tuple[AnySchedule, ...] = (),
) -> Tensor:
    """The plan's result on the CPU, float32 [rows, *row shape].

    Memory is full of NaN before: what is read but never written shows.

    Args:
        plan: What to run.
        values: A tensor for each of the program's parameters, as `random_parameters` draws them:
            rows of edges in the graph's order.
        graph: What to run it on.
        backend: The interpreter if None.
        schedules: One for each launch; default ones if there are none.
    """
    domain = Domain(graph)
    inputs = {
        param.name: values[param.name].float()
        for param in plan.program.params
        if param.role != "weight"
    }
    schedules = schedules or (Schedule(),) * len(plan.launches)
    executable = Executable(plan, domain, backend or TorchBackend(), schedules)
    for memory in executable.memory().values():
        memory.fill_(torch.nan)
    shape = plan.program.type_of(plan.program.result).shape
    out = torch.full((graph.num_nodes, *shape), torch.nan)
    weights = {**weights_of(plan, values, graph), **executable.constants(inputs)}
    executable.run(inputs, weights, out)
    return out
