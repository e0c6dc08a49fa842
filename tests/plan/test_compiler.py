"""The compiler's steps, each from what the last one made."""

import pytest

from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.compiler.pipeline import Compiler
from hetune.variants.errors import CompileError
from hetune.variants.frontend.layers import rgat_program
from hetune.variants.frontend.nn import RGAT
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.program.text import show as show_program

PROGRAM = rgat_program(8, 8)


def test_from_a_module_to_variants():
    compiler = Compiler.of("cpu")
    adapter = compiler.trace(RGAT(8, 8, 3, attention="shared"))
    assert adapter.program == PROGRAM
    alternatives = {each.choices: each.program for each in compiler.rewrite(PROGRAM)}
    plans = compiler.lower(PROGRAM)
    assert {choices.program for choices in plans} <= set(alternatives)
    for choices, plan in plans.items():
        assert plan.program == alternatives[choices.program]
    variants = compiler.schedule(PROGRAM)
    assert {variant.choices.plan for variant in variants} == set(plans)


@pytest.mark.parametrize(
    ("device", "kind", "start"), [("cpu", Schedule, "#include"), ("cuda", GpuSchedule, '"""')]
)
def test_each_launch_has_a_schedule_and_a_text(device, kind, start):
    compiler = Compiler.of(device)
    first, *others = compiler.schedule(PROGRAM)
    assert all(isinstance(schedule, kind) for v in (first, *others) for schedule in v.schedules)
    sources = compiler.emit((first,))
    assert len(sources) == len(dict.fromkeys(first.plan.launches))
    assert compiler.emit((first, first)) == sources
    shown = compiler.show(first)
    assert shown.startswith(f"# {first.id}\n\n{show_program(first.plan.program)}")
    assert shown.count("\nlaunch\n") == len(first.plan.launches)
    for source in sources:
        assert source.text.lstrip("/* \n").startswith(start) or start in source.text
        assert source.text in compiler.show(first, source=True)
        launch, _, schedule = source.recipe.rstrip("\n").rpartition("\n")
        assert launch in shown
        assert schedule


def test_a_backend_may_give_all_launches_one_schedule():
    schedule = GpuSchedule(tile_rows=16)
    found = Compiler(TritonBackend(schedule=schedule)).schedule(PROGRAM)
    assert {each for variant in found for each in variant.schedules} == {schedule}


def test_it_prints_its_steps():
    steps = "trace -> rewrite -> lower -> schedule -> emit"
    assert str(Compiler.of("cpu")) == f"{steps} (cpp)"
    assert str(Compiler.of("cuda")) == f"{steps} (triton)"


def test_an_interpreter_has_no_code():
    compiler = Compiler(TorchBackend())
    with pytest.raises(CompileError, match="the torch backend interprets kernels"):
        compiler.emit(compiler.schedule(PROGRAM))
