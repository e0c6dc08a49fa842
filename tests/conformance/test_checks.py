"""The checks themselves: a wrong backend does not pass."""

from __future__ import annotations

import itertools

import pytest
import torch

from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.walk import writes
from hetune.variants.plan.lower import lower
from hetune.variants.program.nodes import Space
from hetune.variants.runtime.domain import Domain
from hetune.variants.testing.conformance import check_same_bits, check_variants, relative_error
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.layers import LAYERS, randomized
from hetune.variants.testing.plans import run_plan
from hetune.variants.testing.programs import PROGRAMS, random_parameters

from .covering import each_plan


class Wrong(TorchBackend):
    """Spoils what the last kernel of a launch wrote."""

    name = "wrong"

    def __init__(self, spoil) -> None:
        self.spoil = spoil

    def bind(self, launch, schedule, place):
        run = super().bind(launch, schedule, place)

        def spoiled(buffers):
            run(buffers)
            for name in writes(launch.kernels[-1]):
                if name in buffers:
                    self.spoil(buffers[name])

        return spoiled


class Idle(TorchBackend):
    """Leaves out launches over rows of a space."""

    name = "idle"

    def __init__(self, space) -> None:
        self.space = space

    def bind(self, launch, schedule, place):
        run = super().bind(launch, schedule, place)
        return (lambda buffers: None) if launch.kernels[-1].rows.space is self.space else run


@pytest.fixture
def case():
    graph = AWKWARD["one relation"]()
    return randomized(LAYERS["rgcn-mean"].make(graph, 4, 1)), graph


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: rows.mul_(1.0001),
        lambda rows: rows[:1].add_(1e-3),
        lambda rows: rows[-1:].fill_(torch.nan),
    ],
    ids=["all", "one", "nan"],
)
def test_wrong_results_are_named(spoil, case):
    with pytest.raises(AssertionError, match=r"vanilla/b256: relative error .*; dst/b256: relat"):
        check_variants(*case, Wrong(spoil), keep=each_plan)


@pytest.mark.parametrize(
    ("space", "said"),
    [(Space.NODE, "relative error inf$"), (Space.SRC_PAIR, "the result of src/b256 may be wrong")],
    ids=["result", "temporary"],
)
def test_what_nobody_writes_is_noticed(space, said, case):
    with pytest.raises(AssertionError, match=f"^src/b256: {said}"):
        check_variants(*case, Idle(space), keep=lambda variant: variant.id == "src/b256")
    program = PROGRAMS["rgcn mean"]
    found = run_plan(lower(program), random_parameters(program, case[1]), case[1], Idle(Space.NODE))
    assert found.isnan().all()


HALF = """
launch
  buffer a: edge[]
  buffer p: edge[] in scratch p
  buffer y: node[]
  traverse node
    for edge@s
      v: [] = read a
      store p = v
  traverse node
    init total: [] sum
    for edge
      v: [] = read p
      update total v
    store y = total
"""


def test_scratch_that_nobody_writes_is_noticed():
    graph = AWKWARD["source hub"]()
    buffers = {"a": torch.ones(graph.num_edges), "y": torch.zeros(graph.num_nodes)}
    TorchBackend().bind(parse(HALF), Schedule(), Domain(graph))(buffers)
    others = Domain(graph).index("d").dst.unique().long()
    assert len(others) > 0
    assert buffers["y"][others].isnan().all()


def test_wrong_oracles_are_noticed(case):
    with pytest.raises(AssertionError, match="vanilla/b256: relative error"):
        check_variants(*case, expected=[torch.zeros(30, 4)], keep=each_plan)
    assert check_variants(*case, keep=each_plan) == 7


def test_no_variant_is_no_success(case):
    with pytest.raises(AssertionError, match="no variant ran"):
        check_variants(*case, keep=lambda variant: False)


def test_bits_that_change_are_noticed(case):
    count = itertools.count()
    wobbling = Wrong(lambda rows: rows.mul_(1 + 1e-6 * next(count)))
    with pytest.raises(AssertionError, match="vanilla/b256: other bits on 1 threads"):
        check_same_bits(*case, wobbling, keep=each_plan)


def test_relative_error():
    expected = torch.tensor([[4.0, -2.0]], dtype=torch.float64)
    assert relative_error(torch.tensor([[4.0, -1.0]]), expected) == 0.25
    assert relative_error(torch.tensor([[torch.nan, -2.0]]), expected) == float("inf")
    assert relative_error(torch.empty(0, 2), torch.empty(0, 2).double()) == 0.0
    assert relative_error(torch.zeros(1, 2), torch.zeros(1, 2).double()) == 0.0
    with pytest.raises(AssertionError, match=r"shape \[2\], not \[1, 2\]"):
        relative_error(torch.zeros(2), expected)
