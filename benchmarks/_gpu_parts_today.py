"""What there is today for the same: hetune's walks in some schedules, and cuSPARSE."""

from collections.abc import Callable
from typing import Any

import torch
from _gpu_parts_graphs import Edges
from torch import Tensor

from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.verify import verify
from hetune.variants.runtime.domain import Domain

Made = Callable[[], tuple[Callable[[], Any], Tensor]]
"""Makes a run, and where its result will be; or the run returns it."""
SUM = """
launch
  buffer x: node[64]
  buffer y: node[64]
  traverse node
    init acc: [64] sum
    for edge
      h: [64] = read x[src]
      update acc h
    store y = acc
"""
SOFTMAX = """
launch
  buffer q: node[64]
  buffer k: node[64]
  buffer v: node[64]
  buffer y: node[64]
  traverse node
    init top: [] max
    init total: [] sum below top
    init acc: [64] sum below top
    for edge
      query: [64] = read q[dst]
      key: [64] = read k[src]
      s: [] = dot(query, key)
      update top s
      below: [] = sub(s, top)
      power: [] = exp(below)
      update total power
      row: [64] = read v[src]
      m: [64] = mul(power, row)
      update acc m
    zero: [] = scale(total, const=0.0)
    one: [] = one_minus(zero)
    least: [] = max(total, one)
    inverse: [] = reciprocal(least)
    share: [64] = mul(inverse, acc)
    store y = share
"""
SCHEDULES = {
    "hetune e1024": GpuSchedule(),
    "hetune e512": GpuSchedule(elements=512),
    "hetune c4096": GpuSchedule(balance="edge"),
}


def today_sum(at: Edges, x: Tensor) -> dict[str, Made]:
    """Ways of summing x[src] by destination."""
    sparse = torch.sparse_csr_tensor(
        at.pointers, at.src, torch.ones(at.src.numel(), device=x.device), (at.nodes, at.nodes)
    )
    found = _walks(SUM, at, {"x": x})
    return {**found, "cusparse": lambda: (lambda: sparse @ x, torch.empty(0, device=x.device))}


def today_softmax(at: Edges, qkv: tuple[Tensor, Tensor, Tensor]) -> dict[str, Made]:
    """Ways of summing v[src] by destination, weighted by a softmax of q[dst] . k[src]."""
    return _walks(SOFTMAX, at, dict(zip("qkv", qkv, strict=True)))


def _walks(text: str, at: Edges, given: dict[str, Tensor]) -> dict[str, Made]:
    launch = parse(text)
    verify(launch)
    graph = HeteroGraph(
        at.src, at.dst, at.etype, num_nodes=at.nodes, num_etypes=at.relations, validate=False
    )
    domain = Domain(graph, at.src.device)

    def made(schedule: GpuSchedule) -> Made:
        def make() -> tuple[Callable[[], Any], Tensor]:
            run = TritonBackend("ieee", schedule).bind(launch, schedule, domain)
            out = torch.empty(at.nodes, 64, device=at.src.device)
            # The graph is kept for the run: a domain does not keep it alive.
            return lambda kept=graph: run({**given, "y": out}), out

        return make

    return {name: made(schedule) for name, schedule in SCHEDULES.items()}
