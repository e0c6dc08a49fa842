"""A CUDA graph is chosen along with the variant: by time, by how often, and by memory."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest

from hetune.variants.errors import MemoryLimitError
from hetune.variants.frontend.layers import hgt_program, rgcn_program
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.calls import Calls, Policy
from hetune.variants.runtime.choice import choose, chosen, is_replayed
from hetune.variants.runtime.cost_estimates import CostEstimates, RooflineEstimator
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.gpu_roofline import GpuModel
from hetune.variants.runtime.memory import layout_of
from hetune.variants.testing.graphs import typed_graph

VARIANTS = variants_of(rgcn_program(8, 8), "cuda")[:3]
FIRST, SECOND, _ = VARIANTS


@dataclass(frozen=True)
class Told:
    """A estimator that says what the test tells it to."""

    seconds: tuple[float, ...]
    replays: tuple[float, ...]
    estimating_seconds: float = 0.0

    def estimate(self, table, domain, threads):
        count = len(table.variants)
        nothing = np.zeros(len(table.launches)), np.zeros(count)
        return CostEstimates(
            np.array(self.seconds[:count]), *nothing, "the test", np.array(self.replays[:count])
        )

    def spread(self, table, domain, threads):
        return np.full(len(table.variants), 1.5)


TOLD = Told((2.0, 3.0, 9.0), (1.5, 1.0, 9.0))


@pytest.fixture
def graph():
    return typed_graph((30, 20), [(0, 1, 60), (1, 0, 50)])


@pytest.mark.parametrize(
    ("cuda_graph", "variant", "replays", "seconds"),
    [(False, FIRST, False, 2.0), (True, SECOND, True, 1.0), (None, SECOND, True, 1.0)],
)
def test_the_best_variant_is_not_the_best_one_as_a_cuda_graph(
    cuda_graph, variant, replays, seconds, graph
):
    found = choose(VARIANTS, graph, TOLD, cuda_graph=cuda_graph)
    assert (found.id, found.cuda_graph, found.seconds) == (variant.id, replays, seconds)
    assert found.candidates[0].id == variant.id
    assert ("as one CUDA graph" in found.reason) == replays
    assert "as one CUDA graph" in str(found)
    assert chosen(VARIANTS, graph, TOLD, cuda_graph=cuda_graph).cuda_graph == replays


def test_recording_is_worth_it_for_runs_that_go_on(graph):
    found = [chosen(VARIANTS, graph, TOLD, expected_runs=runs) for runs in (1, 4, 100)]
    assert [each.cuda_graph for each in found] == [False, False, True]
    use, policy = Calls(), Policy(TOLD)
    told = [use.next(VARIANTS, graph, policy, lambda variant: variant)[0] for _ in range(16)]
    assert (told[0].cuda_graph, told[-1].cuda_graph) == (False, True)
    assert (told[0].variant, told[-1].variant) == (FIRST, SECOND)


def test_recordings_keep_what_a_run_needs_beside_other_runs(graph):
    layout = layout_of(FIRST.plan, FIRST.schedules, Domain(graph))
    kept = layout.arena_bytes + layout.scratch_bytes
    assert kept > 0
    alone = (FIRST,)
    peak = choose(alone, graph, TOLD).chosen.peak_bytes
    assert choose(alone, graph, TOLD, memory_limit=peak + kept).cuda_graph
    assert not choose(alone, graph, TOLD, memory_limit=peak + kept - 1).cuda_graph
    with pytest.raises(MemoryLimitError, match=f"needs {peak + kept}"):
        choose(alone, graph, TOLD, memory_limit=peak, cuda_graph=True)
    assert is_replayed(FIRST, graph, TOLD)
    assert not is_replayed(FIRST, graph, TOLD, memory_limit=peak)


def test_a_variant_that_is_told_is_asked_about_alone(graph):
    assert is_replayed(FIRST, graph, TOLD)
    assert not is_replayed(FIRST, graph, Told((1.0,), (1.0,)))


def test_variants_that_are_tried_are_asked_about_when_they_repeat(graph):
    use, policy = Calls(), Policy(TOLD, explore=True)
    found, tell = use.next(VARIANTS, graph, policy, lambda variant: variant)
    assert tell is not None
    assert found.cuda_graph is None


def test_early_runs_are_not_asked_about(graph):
    slow = dataclasses.replace(TOLD, estimating_seconds=1e9)
    found, _ = Calls().next(VARIANTS, graph, Policy(slow), lambda variant: variant)
    assert found.cuda_graph is False


def test_nothing_is_replayed_on_a_cpu(graph):
    found = choose(
        variants_of(rgcn_program(8, 8), "cpu"), graph, RooflineEstimator(), cuda_graph=True
    )
    assert not found.cuda_graph
    assert found.chosen.replay_seconds is None
    assert "CUDA" not in str(found)


def test_a_card_replays_small_graphs_and_starts_large_ones():
    """Starting kernels is most of a small graph's time; for a large one it is not worth memory."""
    variants = variants_of(hgt_program(64, 64), "cuda")
    small, large = (
        typed_graph((nodes, nodes), [(0, 1, 4 * nodes), (1, 0, 4 * nodes)])
        for nodes in (100, 200_000)
    )
    assert choose(variants, small, RooflineEstimator()).cuda_graph
    assert not choose(variants, large, RooflineEstimator()).cuda_graph
    slow = RooflineEstimator(gpu=GpuModel(launch_seconds=1e-3))
    assert choose(variants, large, slow).cuda_graph
    same = RooflineEstimator(gpu=GpuModel(node_seconds=GpuModel().launch_seconds))
    assert not choose(variants, small, same).cuda_graph
