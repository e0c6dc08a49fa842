"""Where temporaries lie: what lives together lies apart, and the peak is what is allocated."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Buffer, Launch
from hetune.variants.plan.alternatives import alternatives
from hetune.variants.plan.lower import lower
from hetune.variants.plan.nodes import BufferView, Plan
from hetune.variants.plan.variants import variants_of
from hetune.variants.program.nodes import Program, Space, Type
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.memory import lay_out, layout_of
from hetune.variants.runtime.plan_inputs import weights_of
from hetune.variants.runtime.workspace import Workspace
from hetune.variants.testing.conformance import features
from hetune.variants.testing.graphs import AWKWARD, typed_graph
from hetune.variants.testing.layers import LAYERS, randomized
from hetune.variants.testing.programs import PROGRAMS, random_parameters
from hetune.variants.testing.unusual import RESULTS


def lifetimes(plan: Plan) -> dict[str, set[int]]:
    """The launches that touch each temporary, under any name, and those in between."""
    base = {view.name: view.base for view in plan.views}
    touched: dict[str, set[int]] = {buffer.name: set() for buffer in plan.temporaries}
    for step, launch in enumerate(plan.launches):
        for buffer in launch.buffers:
            name = base.get(buffer.name, buffer.name)
            if name in touched:
                touched[name].add(step)
    return {name: set(range(min(s), max(s) + 1)) for name, s in touched.items() if s}


def check_layout(plan: Plan, rows) -> None:
    layout = lay_out(plan, rows)
    sizes = {b.name: 4 * rows(b.type) * b.type.width for b in plan.temporaries}
    lives = lifetimes(plan)
    assert layout.result_bytes == sizes[plan.results[0]]
    assert set(layout.offsets) == {b.name for b in plan.temporaries} - {*plan.results}
    for name, start in layout.offsets.items():
        assert start % 64 == 0
        assert start + sizes[name] <= layout.arena_bytes
        for other, begin in layout.offsets.items():
            if name != other and lives[name] & lives[other]:
                assert start + sizes[name] <= begin or begin + sizes[other] <= start
    for step in range(len(plan.launches)):
        alive = sum(sizes[name] for name in layout.offsets if step in lives[name])
        assert alive <= layout.arena_bytes
    assert layout.arena_bytes <= sum(-(-sizes[name] // 64) * 64 for name in layout.offsets)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    count = draw(st.integers(1, 8))
    widths = draw(st.lists(st.integers(1, 40), min_size=count, max_size=count))
    buffers = [Buffer(f"b{i}", Type(Space.NODE, (w,))) for i, w in enumerate(widths)]
    view = Buffer("view", Type(Space.NODE, (1, widths[0])))
    steps = draw(
        st.lists(st.lists(st.sampled_from([*buffers, view]), unique=True), min_size=1, max_size=6)
    )
    used = {b.name if b.name != "view" else "b0" for step in steps for b in step} | {"b0"}
    steps.append([buffers[0]])
    launches = tuple(Launch((), tuple(step)) for step in steps)
    temporaries = tuple(b for b in buffers if b.name in used)
    program = Program("p", (), (), ("b0",))
    return Plan(program, (), (), launches, temporaries, ("b0",), (BufferView("view", "b0"),))


@given(plan=plans(), nodes=st.sampled_from((0, 1, 3, 100)))
def test_random_plans(plan, nodes):
    check_layout(plan, lambda kind: nodes)


@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_of_layers(name):
    for graph in (AWKWARD["no nodes"](), AWKWARD["hub"](), AWKWARD["relations without edges"]()):
        for way in alternatives(PROGRAMS[name]):
            check_layout(lower(way.program), Domain(graph).buffer_rows)


def test_memory_is_used_again():
    big = [Buffer(f"b{i}", Type(Space.NODE, (16,))) for i in range(4)]
    launches = tuple(Launch((), (a, b)) for a, b in pairwise(big))
    plan = Plan(Program("p", (), (), ("b3",)), (), (), launches, tuple(big), ("b3",))
    layout = lay_out(plan, lambda kind: 100)
    assert layout.arena_bytes == 2 * 100 * 16 * 4  # b0 and b2 share; b3 is the result
    assert layout.peak_bytes == 3 * 100 * 16 * 4


@pytest.mark.parametrize("name", ["rgcn mean", "rgat, 2 heads", "hgt, 2 heads", "edges"])
def test_the_peak_is_what_a_run_allocates(name):
    graph, program = AWKWARD["isolated nodes"](), {**PROGRAMS, **RESULTS}[name]
    domain, values = Domain(graph), random_parameters(program, graph)
    inputs = {name: values[name].float() for name in ("x", "f") if name in values}
    workspace, most = Workspace.of(graph), 0
    for variant in variants_of(program, "cpu"):
        executable = Executable(variant.plan, domain, TorchBackend(), variant.schedules)
        weights = weights_of(variant.plan, values, graph)
        results = executable.run(inputs, weights)
        returned = sum(rows.nbytes for rows in results)
        assert workspace.nbytes + returned == executable.layout.peak_bytes
        most = max(most, workspace.nbytes)
        workspace.release()
        assert workspace.nbytes == 0
    for variant in variants_of(program, "cpu"):
        executable = Executable(variant.plan, domain, TorchBackend(), variant.schedules)
        executable.run(inputs, weights_of(variant.plan, values, graph))
    assert workspace.nbytes <= 2 * most  # the largest arena and the largest scratch, not their sum


def test_what_counts_is_the_schedule_that_a_backend_was_given():
    graph = typed_graph((20, 8), [(0, 0, 90), (1, 1, 2)])
    module = randomized(LAYERS["rgat-across"].make(graph, 8, 2)).eval()
    x, domain = features(module, graph), Domain(graph, torch.device("cpu"))
    apart = GpuSchedule(part_edges=2)
    layer = compile_layer(module, backend=TritonBackend(schedule=apart))
    found = {each.id: each.peak_bytes for each in layer.explain(x, graph).candidates}
    variants = {variant.id: variant for variant in variants_of(layer._adapter.program, "cuda")}
    for name, peak in found.items():
        plan = variants[name].plan
        assert peak == layout_of(plan, (apart,) * len(plan.launches), domain).peak_bytes
    own = compile_layer(module, backend="triton").explain(x, graph).candidates
    assert found != {each.id: each.peak_bytes for each in own}
