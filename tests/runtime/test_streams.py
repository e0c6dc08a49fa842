"""What other streams may read is there before it is kept; what is only recorded is not kept."""

from __future__ import annotations

import pytest
import torch

from hetune.nn import RGAT
from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime import edges as edges_module
from hetune.variants.runtime import executable, layer_runner, weights
from hetune.variants.runtime.calls import Calls
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.edges import GraphCache
from hetune.variants.testing.programs import PROGRAMS

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("no_grad")


class Stream:
    """`synchronize`: notes what there was to wait for; recorded, it does not wait."""

    def __init__(self, monkeypatch, *modules) -> None:
        self.recorded, self.said = False, []
        for module in modules:
            monkeypatch.setattr(module, "synchronize", self)

    def __call__(self, device: torch.device) -> bool:
        self.said.append(f"wait on {device}")
        return not self.recorded


def test_what_is_bound_to_a_graph(monkeypatch, graph):
    stream = Stream(monkeypatch, executable)

    class Backend(TorchBackend):
        def bind(self, *given):
            stream.said.append("bind")
            return super().bind(*given)

    variant = variants_of(PROGRAMS["rgcn mean"], "cpu")[0]
    executable.Executable(variant.plan, Domain(graph, CPU), Backend(), variant.schedules)
    assert stream.said == ["bind"] * len(variant.plan.launches) + ["wait on cpu"]


def test_graphs_made_of_edges(monkeypatch, graph, edges):
    stream = Stream(monkeypatch, edges_module)

    def build():
        stream.said.append("build")
        return graph

    for _ in range(2):
        assert GraphCache().graph(edges, (), build) is graph
    assert stream.said == ["build", "wait on cpu"] * 2


def test_weights_of_a_run_that_is_recorded_are_not_kept(monkeypatch, graph, x):
    stream, made = Stream(monkeypatch, weights), []
    weights_of = weights.weights_of

    def noted(*given):
        stream.said.append("weights")
        made.append(weights_of(*given))
        return made[-1]

    monkeypatch.setattr(weights, "weights_of", noted)
    layer = compile_layer(RGAT(8, 8, 3), backend="torch")
    for stream.recorded in (True, True, False, True):
        layer(x, graph, variant=layer.variants[0])
    assert stream.said == ["weights", "wait on cpu"] * 3


def test_runs_that_are_recorded_are_no_trials(monkeypatch, graph, x):
    """They start nothing, so that their time says nothing."""
    stream = Stream(monkeypatch, layer_runner)
    layer = compile_layer(RGAT(8, 8, 3), backend="torch", explore=True)
    told = []
    monkeypatch.setattr(Calls, "_tell", lambda *given: told.append(given))
    for stream.recorded in (True, False):
        layer(x, graph)
    assert len(told) == 1
