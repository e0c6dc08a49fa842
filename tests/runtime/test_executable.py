"""A plan bound to a graph: what it checks, and where it writes."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
import torch

from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.errors import GraphError, InputError
from hetune.variants.plan.variants import variants_of
from hetune.variants.program.interpret import interpret
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.plan_inputs import weights_of
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.programs import PROGRAMS, random_parameters

PROGRAM = PROGRAMS["rgat, 2 heads"]  # x: node[6], result: node[2,4]


@pytest.fixture
def values(graph):
    return random_parameters(PROGRAM, graph)


@pytest.fixture
def executable(graph) -> Executable:
    variant = variants_of(PROGRAM, "cpu")[0]
    return Executable(variant.plan, Domain(graph), TorchBackend(), variant.schedules)


@pytest.fixture
def run(graph, executable, values):
    weights = weights_of(executable.plan, values, graph)

    def run_with(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        (found,) = executable.run({"x": x}, weights, out)
        return found

    return run_with


@pytest.fixture
def good(values) -> torch.Tensor:
    return values["x"].float()


def test_every_run_returns_memory_of_its_own(run, good):
    first = run(good)
    kept = first.clone()
    second = run(good * 2)
    assert first.data_ptr() != second.data_ptr()
    assert torch.equal(first, kept)
    assert torch.equal(run(good), kept)


def test_rows_of_another_memory_layout_are_taken(run, good):
    assert torch.equal(run(good.t().contiguous().t()), run(good))


def test_out_is_written_and_returned(run, good):
    expected = run(good)
    for shape in ((50, 2, 4), (50, 8), (400,)):
        out = torch.full(shape, torch.nan)
        found = run(good, out)
        assert found.data_ptr() == out.data_ptr()
        assert torch.equal(out.view(50, 2, 4), expected)


def test_autograd_notices_that_out_was_written(run, executable, good, monkeypatch):
    monkeypatch.setattr(executable, "runners", ())  # compiled kernels do nothing that torch sees
    out = torch.zeros(50, 8)
    factor = torch.ones(50, 8, requires_grad=True)
    loss = (out * factor).sum()
    run(good, out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with torch.inference_mode():
        run(good, torch.zeros(50, 8))  # has no version


def test_a_mark_stands_before_the_first_launch_and_after_each(graph, values, executable, good):
    weights = weights_of(executable.plan, values, graph)
    (expected,) = executable.run({"x": good}, weights)
    marks: list[float] = []
    (found,) = executable.run({"x": good}, weights, mark=lambda: marks.append(time.perf_counter()))
    assert torch.equal(found, expected)
    assert len(marks) == len(executable.plan.launches) + 1
    assert all(before < after for before, after in pairwise(marks))


def test_launches_that_the_graph_has_no_rows_for_are_left_out():
    graph = typed_graph((3, 50), [(1, 0, 20)])  # fewer pairs at destinations
    program = PROGRAMS["rgcn mean"]
    values = random_parameters(program, graph)
    variant = next(v for v in variants_of(program, "cpu") if v.id.startswith("hybrid"))
    executable = Executable(variant.plan, Domain(graph), TorchBackend(), variant.schedules)
    marks: list[None] = []
    weights = weights_of(variant.plan, values, graph)
    inputs = {"x": values["x"].float()}
    (found,) = executable.run(inputs, weights, mark=lambda: marks.append(None))
    assert len(variant.plan.launches) == 2
    assert len(marks) == 2  # before and after the one that runs
    expected = interpret(program, values, graph)
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["hgt", "rgat, 2 heads"])
def test_weights_are_what_launches_read_and_no_steps_on_the_way(name, graph):
    program = PROGRAMS[name]
    values = random_parameters(program, graph)
    for variant in variants_of(program, "cpu"):
        plan = variant.plan
        read = {buffer.name for launch in plan.launches for buffer in launch.buffers}
        read |= {view.base for view in plan.views}
        made = {let.name for let in plan.weights} | {p.name for p in program.params} - {"x"}
        assert weights_of(plan, values, graph).keys() == read & made


BAD_ROWS = {
    "x is torch.float64 on cpu: what is compiled for this graph takes float32 on cpu; convert it "
    "with .float() and .to()": lambda x: x.double(),
    "x has shape (49, 6) but the graph and the layer need (50, 6): give one row for every row of "
    "the graph": lambda x: x[1:],
    "x has shape (50, 5) but the graph and the layer need (50, 6): give one row for every row of "
    "the graph": lambda x: x[:, 1:],
}


@pytest.mark.parametrize(("message", "spoil"), BAD_ROWS.items(), ids=["dtype", "rows", "width"])
def test_bad_rows(message, spoil, run, good):
    with pytest.raises(InputError) as caught:
        run(spoil(good))
    assert str(caught.value) == message


UNFIT = "out must be a contiguous float32 tensor on cpu: allocate it so"
BAD_OUTS = {
    "dtype": (lambda: torch.empty(50, 8, dtype=torch.float64), UNFIT),
    "layout": (lambda: torch.empty(8, 50).t(), UNFIT),
    "size": (
        lambda: torch.empty(50, 7),
        "out has shape (50, 7) but the result has 50 rows of 8: allocate that many elements",
    ),
}


@pytest.mark.parametrize(("make", "message"), BAD_OUTS.values(), ids=BAD_OUTS)
def test_bad_outs(make, message, run, good):
    with pytest.raises(InputError) as caught:
        run(good, make())
    assert str(caught.value) == message


def test_out_must_not_be_what_is_read(run, good):
    memory = torch.zeros(1000)
    x = memory[:300].view(50, 6).copy_(good)
    with pytest.raises(InputError) as caught:
        run(x, memory[299:699])
    assert str(caught.value) == (
        "out shares memory with x, which is read while out is written: give a tensor of its own"
    )
    assert torch.equal(run(x, memory[300:700].view(50, 8)), run(good).view(50, 8).view(50, 2, 4))


def test_runs_inside_and_outside_of_inference_mode(run, good):
    with torch.inference_mode():
        inside = run(good)
    assert torch.equal(run(good), inside)
    with torch.no_grad():
        assert torch.equal(run(good), inside)


def test_a_graph_that_is_gone_is_named():
    domain = Domain(typed_graph((3,), [(0, 0, 2)]))
    with pytest.raises(GraphError, match="the graph has been freed: keep a reference to it"):
        _ = domain.graph
