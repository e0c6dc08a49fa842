"""Objects in memory up to a number of bytes, also when they grow, and however many there are."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from hypothesis import given
from hypothesis import strategies as st

import hetune
from hetune import nn
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.graphs.graphs import GraphStore, held_bytes
from hetune.service.core.storage.cache import BytesCache
from hetune.variants.graph.state import GraphSlot

LIMIT = 10
IDS = torch.tensor([0, 1])


def cache():
    """Of lists, whose size is their sum."""
    return BytesCache(LIMIT, sum)


def test_the_one_used_longest_ago_goes_first():
    found = cache()
    for key in "abc":
        found.add(key, [4])
    assert [key in found for key in "abc"] == [False, True, True]
    assert found.get("a") is None
    assert found.get("b") == [4]
    found.add("d", [4])
    assert [key in found for key in "bcd"] == [True, False, True]


def test_asking_is_no_use():
    found = cache()
    for key in "ab":
        found.add(key, [4])
    assert "a" in found
    assert "c" not in found
    found.add("c", [4])
    assert "a" not in found


def test_an_object_that_grows_pushes_others_out_and_stays_itself():
    found = cache()
    grows = found.add("a", [1])
    found.add("b", [1])
    assert found.get("a") is grows
    grows.append(100)
    assert found.get("a") is grows
    assert len(found) == 1


def test_what_is_held_already_stays():
    found = cache()
    first = found.add("a", [1])
    assert found.add("a", [2]) is first


def test_few_sizes_are_asked_for_however_many_are_held():
    asked = []
    found = BytesCache(10**6, lambda value: asked.append(value) or 1)
    for number in range(100):
        found.add(number, number)
    asked.clear()
    assert found.get(0) == 0
    assert len(asked) < 10


@given(st.lists(st.tuples(st.sampled_from(["add", "get", "discard"]), st.integers(0, 9))))
def test_the_limit_holds_and_the_count_is_right(steps):
    found = cache()
    for do, key in steps:
        if do == "add":
            found.add(key, [key])
        elif do == "get":
            found.get(key)
        else:
            found.discard(key)
        held = [key for key in range(10) if key in found]
        assert len(found) == len(held)
        assert sum(held) <= LIMIT or len(held) == 1
        assert found._total == sum(held)


def test_nobody_waits_for_a_graph_that_is_indexed(tmp_path):
    store = GraphStore(tmp_path, ServiceLimits())
    first, second = (hetune.HeteroGraph(IDS, IDS, num_nodes=n) for n in (2, 3))
    store.add(first)
    begun, held = threading.Event(), threading.Event()

    def build():
        begun.set()
        return held.wait(60)

    with ThreadPoolExecutor(2) as pool:
        pool.submit(first.state.of, GraphSlot(), None, build)
        assert begun.wait(60)
        try:
            assert pool.submit(store.add, second).result(30) == second.fingerprint
        finally:
            held.set()


def test_a_result_that_was_given_back_counts():
    graph = hetune.HeteroGraph(IDS, IDS, num_nodes=70_000)
    layer = hetune.compile(nn.RGCN(1, 8, 1), backend="torch")
    before = held_bytes(graph)
    with torch.no_grad():
        layer(torch.ones(70_000, 1), graph)
    assert held_bytes(graph) >= before + 70_000 * 8 * 4
