"""Graphs made of edge tensors: used again for the same ones, and never for others."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.edges import GraphCache


class Counting:
    """A cache, and how often it built."""

    def __init__(self) -> None:
        self.cache = GraphCache()
        self.built = 0

    def __call__(self, *tensors: torch.Tensor, extra: tuple = (5,)) -> HeteroGraph:
        def build() -> HeteroGraph:
            self.built += 1
            return HeteroGraph(*tensors[0], tensors[1], num_nodes=5)

        return self.cache.graph(tensors, extra, build)


@pytest.fixture
def graph_of() -> Counting:
    return Counting()


def edges():
    return torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([0, 1, 0])


def test_the_same_tensors_mean_the_same_graph(graph_of):
    index, etype = edges()
    assert graph_of(index, etype) is graph_of(index, etype)
    assert graph_of.built == 1


def test_equal_tensors_are_not_the_same(graph_of):
    index, etype = edges()
    assert graph_of(index, etype) is not graph_of(index.clone(), etype)
    assert graph_of.built == 2


def test_anything_else_that_matters_is_part_of_the_key(graph_of):
    index, etype = edges()
    assert graph_of(index, etype) is not graph_of(index, etype, extra=(6,))


@pytest.mark.parametrize(
    "edit",
    [
        lambda index, etype: index[0].fill_(4),
        lambda index, etype: etype.add_(1),
        lambda index, etype: torch.add(etype, 1, out=etype),
        lambda index, etype: index.view(-1)[2:3].zero_(),
        lambda index, etype: setattr(index, "data", index.flip(0)),
        lambda index, etype: index.data.copy_(index.flip(0)),
        lambda index, etype: index.numpy().fill(4),
        lambda index, etype: setattr(index, "data", index.as_strided((2, 3), (1, 2))),
        lambda index, etype: [setattr(ids, "data", ids[..., :2]) for ids in (index, etype)],
    ],
    ids=["row", "types", "out", "view", "data", "past data", "numpy", "strides", "shape"],
)
def test_edits_in_place_are_seen(edit, graph_of):
    index, etype = edges()
    before = graph_of(index, etype)
    edit(index, etype)
    after = graph_of(index, etype)
    assert after is not before
    assert torch.equal(after.src, index[0].int())
    assert torch.equal(after.etype, etype.int())
    assert graph_of(index, etype) is after


LARGE = 100_000
"""Edges of which a sample is looked at, not all."""


@pytest.mark.parametrize(
    ("edit", "is_seen"),
    [
        (lambda index, etype: index[1, LARGE - 2].fill_(4), True),
        (lambda index, etype: etype[77_777:77_778].add_(1), True),
        (lambda index, etype: index.data.copy_(index.flip(1)), True),
        (lambda index, etype: index.numpy().fill(4), True),
        (lambda index, etype: etype.numpy().sort(), True),
        (lambda index, etype: etype.data[:1].sub_(1), True),
        (lambda index, etype: index.data[1, LARGE - 2].fill_(4), False),
        (lambda index, etype: etype.numpy()[1:2].fill(1), False),
    ],
    ids=[
        *("an id", "a type", "reversed past data", "filled by numpy", "sorted by numpy"),
        *("a type that is looked at", "an id past data", "a type by numpy"),
    ],
)
def test_edits_of_many_edges_past_the_counter_are_seen_by_a_sample(edit, is_seen, graph_of):
    """Torch's counter tells of every write; of others, some 64 elements of a tensor."""
    draw = torch.Generator().manual_seed(0)
    index = torch.randint(0, 4, (2, LARGE), generator=draw)
    etype = torch.randint(1, 3, (LARGE,), generator=draw)
    before = graph_of(index, etype)
    edit(index, etype)
    after = graph_of(index, etype)
    assert (after is not before) == is_seen
    if is_seen:
        assert torch.equal(after.dst, index[1].int())
        assert torch.equal(after.etype, etype.int())


def test_a_graph_keeps_a_copy_of_what_it_was_made_of(graph_of):
    index, etype = edges()
    graph = graph_of(index, etype)
    index.zero_()
    assert graph.src.tolist() == [0, 1, 2]


def test_graphs_go_with_their_tensors(graph_of):
    index, etype = edges()
    graph = weakref.ref(graph_of(index, etype))
    gc.collect()
    assert graph() is not None
    del index
    gc.collect()
    assert graph() is None


def test_a_tensor_at_the_address_of_a_dead_one_is_another(graph_of):
    etype = torch.tensor([0, 1, 0])
    for source in range(20):
        index = torch.full((2, 3), source % 5)
        assert graph_of(index, etype).src.tolist() == [source % 5] * 3
        del index
    assert graph_of.built == 20


def test_inference_tensors_go_by_content(graph_of):
    with torch.inference_mode():
        index, etype = edges()
        graph = graph_of(index, etype)
        assert graph_of(index.clone(), etype) is graph
        index[0, 0] = 3
        assert graph_of(index, etype) is not graph
        assert graph_of(index, etype).src.tolist() == [3, 1, 2]
        # Same bytes, other shape or dtype: not the same.
        assert graph_of(index, etype.int()) is not graph_of(index, etype)


def test_the_oldest_graphs_are_forgotten(graph_of):
    kept = [edges() for _ in range(40)]
    for index, etype in kept:
        graph_of(index, etype)
    assert graph_of.built == 40
    graph_of(*kept[-1])
    graph_of(*kept[10])
    assert graph_of.built == 40
    graph_of(*kept[0])
    assert graph_of.built == 41


def test_a_cache_goes_at_once():
    counting = Counting()
    tensors = edges()
    graph = weakref.ref(counting(*tensors))
    cache = weakref.ref(counting.cache)
    gc.disable()
    try:
        del counting
        assert cache() is None
        assert graph() is None
    finally:
        gc.enable()
