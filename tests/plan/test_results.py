"""Programs that return rows of edges, or several results: every plan equals the interpreter."""

from __future__ import annotations

import pytest
import torch

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.plan.lower import lower
from hetune.variants.plan.variants import plans_of, variants_of
from hetune.variants.program.interpret import interpret_results
from hetune.variants.program.text import parse
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.plan_inputs import weights_of
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.plans import run_results
from hetune.variants.testing.programs import random_parameters
from hetune.variants.testing.unusual import RESULTS


def check(program, plan, graph, *backend) -> None:
    values = random_parameters(program, graph)
    found = run_results(plan, values, graph, *backend)
    expected = interpret_results(program, values, graph)
    for rows, right in zip(found, expected, strict=True):
        assert relative_error(rows, right) <= TOLERANCE


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", RESULTS)
def test_interpreted(name, device):
    plans = plans_of(RESULTS[name], device)
    for graph in (AWKWARD["duplicate edges"](), AWKWARD["isolated nodes"]()):
        for plan in plans.values():
            check(RESULTS[name], plan, graph)


@pytest.mark.parametrize("name", RESULTS)
def test_compiled(name):
    program, graph = RESULTS[name], AWKWARD["duplicate edges"]()
    known = {variant.plan_id: variant for variant in variants_of(program, "cpu")}
    for variant in known.values():
        check(program, variant.plan, graph, CppBackend(), variant.schedules)


def test_a_sum_stores_the_edges_that_it_adds_up():
    program = parse("""
program summed(x: node[3] feature)
  xs: edge[3] = take x edge src
  xd: edge[3] = take x edge dst
  product: edge[3] = mul xs xd
  total: node[3] = sum product node
  return product, total
""")
    plan = lower(program)
    assert [len(launch.kernels) for launch in plan.launches] == [1]
    for name in ("isolated nodes", "no edges", "several blocks"):
        check(program, plan, AWKWARD[name]())


def test_edges_in_order_are_written_where_they_are_returned():
    graph = HeteroGraph(torch.tensor([1, 0, 1]), torch.tensor([0, 1, 1]), num_nodes=2)
    variant = variants_of(RESULTS["scores"], "cpu")[0]
    values = random_parameters(variant.plan.program, graph)
    executable = Executable(variant.plan, Domain(graph), TorchBackend(), variant.schedules)
    out = torch.full((3,), torch.nan)
    (found,) = executable.run(
        {"x": values["x"].float()}, weights_of(variant.plan, values, graph), out
    )
    assert found.data_ptr() == out.data_ptr()
    [right] = interpret_results(variant.plan.program, values, graph)
    assert relative_error(found, right) <= TOLERANCE
