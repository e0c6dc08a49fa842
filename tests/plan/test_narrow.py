"""Tables of bfloat16: which they are, and that nothing else of a plan changes."""

from dataclasses import replace

import pytest

from hetune.variants.frontend.presets import preset_program
from hetune.variants.kernel.nodes import Element
from hetune.variants.kernel.verify import verify
from hetune.variants.plan.lower import lower
from hetune.variants.plan.variants import plans_of, variants_of

NARROW = {
    ("rgcn", "src"): {"by_w"},
    ("rgcn", "dst"): {"x_bf16"},
    ("rgcn", "hybrid+separate-products"): {"x_bf16", "by_w_s"},
    ("rgat", "src+weights-first"): {"by_w2"},
    ("rgat", "dst+weights-first+edge-scores+one-pass"): {"x_bf16"},
    ("hgt", "vanilla"): {"add", "add3"},
    ("hgt", "dst+scores-src+folded+one-pass"): {"mul_near_biased", "x_bf16"},
}


@pytest.mark.parametrize(("layer", "plan"), NARROW)
def test_tables_that_edges_read_at_sources_are_narrow(layer, plan):
    """Neither scores, nor sums, nor what is but streamed: `softmax`, `sum_pair`, the result."""
    (found,) = (p for c, p in _plans(layer).items() if c.id == f"{plan}+bf16")
    assert _narrow(found) == NARROW[layer, plan]
    assert {b.name for b in found.temporaries if b.element is Element.BFLOAT16} == _narrow(found)


@pytest.mark.parametrize("layer", ["rgcn", "rgat", "hgt"])
def test_but_for_elements_and_copies_plans_are_the_same(layer):
    plans = _plans(layer)
    wide = plans_of(preset_program(layer, 64, 64), "cpu")
    assert list(plans)[: len(wide)] == list(wide)
    assert len(plans) == 2 * len(wide)  # each of them has something that edges gather
    for choices, plan in plans.items():
        if not choices.narrow:
            assert not _narrow(plan)
            continue
        for launch in plan.launches:
            verify(launch)
        other = wide[replace(choices, narrow=False)]
        copies = sum(name.endswith("_bf16") for name in _narrow(plan))
        assert len(plan.launches) == len(other.launches) + copies
        assert [len(launch.kernels) for launch in plan.launches[copies:]] == [
            len(launch.kernels) for launch in other.launches
        ]


def test_heads_that_straddle_stay_float32():
    """Rows of 3 heads of 20 are no multiple of 32; of 4 heads of 24 they are, but cross halves."""
    for heads, width in ((3, 60), (4, 96)):
        for plan in plans_of(preset_program("rgat", 64, width, heads), "cpu", "bf16").values():
            assert _narrow(plan) <= {"x_bf16"}


def test_narrow_variants_come_after_all_others_and_only_where_asked_for():
    program = preset_program("rgcn", 64, 64)
    wide, both = variants_of(program, "cpu"), variants_of(program, "cpu", "bf16")
    assert [v.key for v in both[: len(wide)]] == [v.key for v in wide]
    assert all("+bf16/" in variant.id for variant in both[len(wide) :])
    assert not {v.key for v in wide} & {v.key for v in both[len(wide) :]}
    assert plans_of(program, "cuda", "bf16") == plans_of(program, "cuda")


def test_odd_rows_have_no_narrow_plans():
    program = preset_program("rgcn", 63, 63)
    assert plans_of(program, "cpu", "bf16") == plans_of(program, "cpu")
    assert lower(program, narrow=True) == lower(program)


def _plans(layer):
    return plans_of(preset_program(layer, 64, 64), "cpu", "bf16")


def _narrow(plan):
    buffers = (buffer for launch in plan.launches for buffer in launch.buffers)
    return {buffer.name for buffer in buffers if buffer.element is Element.BFLOAT16}
