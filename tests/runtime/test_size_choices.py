"""With `dynamic=True` one choice serves all graphs of a size."""

from __future__ import annotations

import pytest
import torch

import hetune
from hetune.variants.errors import MemoryLimitError
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.cost_estimates import RooflineEstimator
from hetune.variants.runtime.size_choices import NEW_GRAPHS
from hetune.variants.testing.conformance import TOLERANCE, relative_error

pytestmark = pytest.mark.usefixtures("no_grad")


class Asked(RooflineEstimator):
    """Counts how often it is asked."""

    __slots__ = ("graphs",)

    def estimate(self, table, domain, threads):
        self.graphs.append(domain.graph)
        return super().estimate(table, domain, threads)


@pytest.fixture
def asked():
    estimator = Asked()
    object.__setattr__(estimator, "graphs", [])
    return estimator


def batch(nodes, edges, seed):
    draw = torch.Generator().manual_seed(seed)
    index = torch.randint(0, nodes, (2, edges), generator=draw)
    etype = torch.randint(0, 3, (edges,), generator=draw)
    return torch.randn(nodes, 8, generator=draw), index, etype


def test_one_question_for_all_graphs_of_a_size(rgcn, asked):
    layer = compile_layer(rgcn, backend="torch", estimator=asked, dynamic=True)
    for seed, edges in enumerate((100, 127, 64)):
        call = batch(40, edges, seed)
        assert relative_error(layer(*call), rgcn(*call).double()) <= TOLERANCE
    assert len(asked.graphs) == 1
    for sizes, count in (((40, 128), 2), ((64, 100), 3), ((50, 255), 3), ((127, 90), 3)):
        layer(*batch(*sizes, 0))
        assert len(asked.graphs) == count


def test_what_is_explained_and_warmed_is_what_runs(rgcn, asked):
    layer = compile_layer(rgcn, backend="torch", estimator=asked, dynamic=True)
    x, index, etype = batch(40, 100, 0)
    few = (
        x,
        torch.stack((index[0], torch.zeros_like(index[1]))),
        etype,
    )  # all edges lead to one node
    unlike = layer.explain(*few)
    layer(*few)
    assert layer.status().variant == unlike.id
    choice = layer.explain(x, index, etype)
    assert choice.id == unlike.id
    assert layer.warm(x, index, etype) == (choice.id,)
    layer(x, index, etype)
    assert layer.status().variant == choice.id


def test_a_limit_is_kept_on_every_graph(rgcn, asked):
    layer = compile_layer(rgcn, backend="torch", estimator=asked, dynamic=True)
    small, large = batch(64, 100, 0), batch(127, 120, 0)
    limit = min(candidate.peak_bytes for candidate in layer.explain(*small).candidates)
    layer(*small, memory_limit=limit)
    with pytest.raises(MemoryLimitError):
        layer(*large, memory_limit=limit)
    layer(*large)


def test_models_and_layers_compiled_anew_keep_it(rgcn):
    fast = hetune.compile(torch.nn.ModuleList([rgcn]), backend="torch", dynamic=True)
    for model in (fast, hetune.compile(fast)):
        assert model.compiled_layers["0"]._policy.dynamic


def test_new_graphs_in_a_row_are_noticed_until_one_comes_again(rgcn, asked):
    layer = compile_layer(rgcn, backend="torch", estimator=asked)
    for seed in range(NEW_GRAPHS):
        layer(*batch(40, 100, seed))
    assert not asked.graphs  # each runs the default, once
    again = batch(40, 100, 0)
    choice = layer.explain(*again)
    layer(*batch(40, 101, 1))
    before = len(asked.graphs)
    layer(*again)
    layer(*batch(40, 102, 2))
    assert len(asked.graphs) == before  # one answer for all of the size
    assert layer.status().variant == choice.id
    layer(*again)
    layer(*batch(300, 900, 3))  # of another size, which nobody asks about any more
    assert len(asked.graphs) == before


@pytest.mark.parametrize("told", [{"expected_runs": 5.0}, {"explore": True}])
def test_who_says_how_graphs_come_is_believed(rgcn, told):
    layer = compile_layer(rgcn, backend="torch", **told)
    for seed in range(NEW_GRAPHS + 1):
        policy = layer._policy
        graph = layer._prepare(batch(40, 100, seed), {})[2]
        assert layer._runs._sizes.policy(policy, layer.use_of(graph), is_call=True) is policy
