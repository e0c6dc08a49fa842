"""Traversals that are shared out in parts: rows of several parts are as right as the rest."""

import pytest
import torch

from hetune.variants.backends.triton.arguments import Cut, PartsTable
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.backends.triton.emit import emit
from hetune.variants.backends.triton.parts import carried, parts_of, programs_of
from hetune.variants.graph.device_index import DeviceIndex
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Rows
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.fuse import fused
from hetune.variants.program.nodes import Space
from hetune.variants.testing.conformance import check_variants
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.launches import random_launch
from hetune.variants.testing.layers import LAYERS, randomized

from ..launches import ATTENTION, RGCN, SOFTMAX, WEIGHTED
from ..launches import PAIRS as PRODUCT

SHORT = GpuSchedule(part_edges=4, edges=2, elements=64, tile_rows=16, tile_columns=16, tile_k=16)
CPU = torch.device("cpu")

SUMS = """
launch
  buffer c: edge[]
  buffer x: node[{h},{d}]
  buffer q: node[{h}]
  buffer bias: shared[{h},{d}]
  buffer most: node[{h}]
  buffer y: node[{h},{d}]
  traverse node
    own: [{h}] = read q
    init acc: [{h},{d}] sum
    for edge@a
      share: [] = read c
      row: [{h},{d}] = read x[src]
      m: [{h},{d}] = mul(share, row)
      update acc m
      update acc row
    init top: [{h}] max
    init count: [] sum
    for edge@b
      share2: [] = read c
      both: [{h}] = mul(share2, own)
      update top both
      update count share2
    squashed: [{h}] = tanh(top)
    all: [{h}] = add(squashed, count)
    store most = all
    b: [{h},{d}] = read bias
    out: [{h},{d}] = add(acc, b)
    store y += out
"""
"""Sums and a maximum of two groups' edges: of values of edges, sources and the node itself."""

PAIRS = """
launch
  buffer x: node[{d}]
  buffer y: dst_pair@a[{d}]
  traverse dst_pair@a
    init acc: [{d}] sum
    for edge@a
      row: [{d}] = read x[src]
      update acc row
    store y = acc
"""
LAUNCHES = {
    "rgcn": RGCN,
    "sums": SUMS,
    "weighted": WEIGHTED,
    "attention": ATTENTION,
    "pairs": PAIRS,
}


def mostly_to_one(src, dst):
    return src, torch.where(torch.arange(len(dst)) % 8 > 0, 3, dst)


def with_degrees(*degrees: int):
    """Nodes with so many edges, all of the second type."""
    dst = torch.repeat_interleave(torch.arange(len(degrees)), torch.tensor(degrees))
    relations = [(0, 0, 0), (0, 0, len(dst)), (0, 0, 0)]
    return typed_graph((len(degrees),), relations, ends=lambda src, _: (src, dst[: len(src)]))


GRAPHS = {
    "a row of several levels": lambda: typed_graph(
        (9, 5), [(0, 0, 70), (1, 1, 9), (0, 0, 5)], 0, mostly_to_one
    ),
    "full parts": lambda: with_degrees(4, 8, 16, 64, 0, 12),
    "around a part": lambda: with_degrees(0, 1, 3, 4, 5, 0, 2),
    "one edge": lambda: typed_graph((5, 2), [(0, 0, 1), (1, 0, 0), (0, 1, 0)]),
}


def kernels(text: str, schedule: GpuSchedule) -> list[str]:
    launch = fused(parse(text.format(d=4, h=2)), "cuda")
    return [one.function.name for one in emit(launch, schedule).kernels]


# The index.


@pytest.mark.parametrize("most", [2, 4, 64])
@pytest.mark.parametrize("name", GRAPHS)
def test_parts_have_every_edge_once_and_slots_in_order(name, most):
    graph = GRAPHS[name]()
    index = DeviceIndex.on(graph, CPU)
    cut = Cut(Rows(Space.NODE), (Rows(Space.EDGE),), most)
    parts = parts_of(cut, lambda group: index)
    (begin,), (end,) = parts.begin, parts.end
    assert int((end - begin).max()) <= most
    # What a node's last part has is its edges, or partial rows that stand for them, in order.
    slots = {int(s): q for q, s in enumerate(parts.slot) if s >= 0}
    assert len(slots) == carried(cut, lambda group: index)
    assert sorted(slots) == list(range(len(slots)))
    levels = torch.repeat_interleave(torch.arange(len(parts.levels)), torch.tensor(parts.levels))

    def edges(part: int) -> list[int]:
        found = list(range(int(begin[part]), int(end[part])))
        if levels[part] == 0:
            return found
        assert all(parts.row[slots[s]] == parts.row[part] for s in found)
        assert all(levels[slots[s]] == levels[part] - 1 for s in found)
        return [edge for s in found for edge in edges(slots[s])]

    last = {int(parts.row[q]): q for q, s in enumerate(parts.slot) if s < 0}
    assert sorted(last) == list(range(graph.num_nodes))
    for node, part in last.items():
        bounds = index.indptr[node : node + 2].tolist()
        assert edges(part) == list(range(*bounds))


@pytest.mark.parametrize("name", GRAPHS)
def test_programs_take_parts_of_about_one_length(name):
    index = DeviceIndex.on(GRAPHS[name](), CPU)
    cut = Cut(Rows(Space.NODE), (Rows(Space.EDGE),), 4)
    table = PartsTable(cut, 2, 3)
    parts, programs = parts_of(cut, lambda group: index), programs_of(table, lambda group: index)
    (most,) = programs.most
    lengths = parts.end[0] - parts.begin[0]
    first = programs.first.tolist()
    assert (first[0], first[-1]) == (0, sum(parts.levels))
    for place, longest in enumerate(most.tolist()):
        held = lengths[first[place] : first[place + 1]]
        assert longest == int(held.max())
        assert longest <= max(1, 2 * int(held.min()))
        assert 0 < len(held) <= table.parts_of_length(max(longest, 1))
    assert sum(count for _, count in programs.starts) == len(most)


def test_rows_of_two_groups_are_cut_by_all_their_edges(small):
    index = {"a": DeviceIndex.on(small, CPU, (0, 2)), "b": DeviceIndex.on(small, CPU, (1,))}
    index[""] = DeviceIndex.on(small, CPU)
    cut = Cut(Rows(Space.NODE), (Rows(Space.EDGE, "a"), Rows(Space.EDGE, "b")), 4)
    parts = parts_of(cut, index.__getitem__)
    first = parts.levels[0]
    lengths = torch.stack(parts.end)[:, :first] - torch.stack(parts.begin)[:, :first]
    both = (lengths > 0).all(0)
    assert both.any()
    assert (parts.slot[:first][both] == -1).all()
    assert lengths.sum(1).tolist() == [index["a"].num_edges, index["b"].num_edges]


def test_where_nothing_is_added_there_are_no_parts(small):
    index = DeviceIndex.on(small, CPU, (1,))
    cut = Cut(Rows(Space.NODE), (Rows(Space.EDGE),), 4, idle=False)
    parts = parts_of(cut, lambda group: index)
    assert set(parts.row.tolist()) == set(index.nodes_with_edges("dst").tolist())
    table = PartsTable(Cut(cut.rows, cut.loops, 4, idle=False), 2, 3)
    empty = DeviceIndex.on(small, CPU, ())
    assert programs_of(table, lambda group: empty).starts == ((0, 0),)


# What is computed.


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", LAUNCHES)
def test_parts_do_not_change_results(name, graph, check):
    check(parse(LAUNCHES[name].format(d=3, h=2)), GRAPHS[graph](), SHORT)


@pytest.mark.parametrize("name", LAUNCHES)
def test_isolated_nodes_and_no_edges(name, check, small, empty):
    check(parse(LAUNCHES[name].format(d=2, h=1)), small, SHORT)
    check(parse(LAUNCHES[name].format(d=2, h=1)), empty, SHORT)


@pytest.mark.parametrize("schedule", [GpuSchedule(), GpuSchedule(edges=8, elements=4096)], ids=str)
def test_degrees_around_a_part(schedule, check):
    """And one of 10,000, whose partial rows are three parts."""
    graph = with_degrees(0, 1, 63, 64, 65, 0, 10_000)
    check(parse(RGCN.format(d=4)), graph, schedule)
    check(parse(WEIGHTED.format(d=4, h=1)), graph, schedule)
    check(parse(PRODUCT.format(k=33, n=4)), graph, schedule)


@pytest.mark.parametrize("seed", [22, 37, 55, 117, 139])
def test_random_launches(seed, check, small):
    check(random_launch(seed, (1, 3)), small, SHORT)


@pytest.mark.parametrize("factor", [30.0, -1e30, 1e37])
def test_scores_may_be_anything(factor, check):
    graph = GRAPHS["a row of several levels"]()
    check(parse(WEIGHTED.format(d=1, h=2)), graph, SHORT, {"a": factor})


def test_runs_give_the_same_bits(check, small, monkeypatch):
    results = []
    bind = TritonBackend.bind

    def kept(self, launch, schedule, place):
        run = bind(self, launch, schedule, place)

        def again(buffers):
            copies = {name: value.clone() for name, value in buffers.items()}
            run(copies)
            run(buffers)
            results.append((copies["y"], buffers["y"]))

        return again

    monkeypatch.setattr(TritonBackend, "bind", kept)
    check(parse(WEIGHTED.format(d=2, h=1)), small, SHORT)
    ((first, second),) = results
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("layer", "heads", "plan"),
    [
        ("rgcn-mean", 1, "src"),
        ("rgcn-mean", 1, "hybrid"),
        ("rgat-across", 2, "src+weights-first"),
        ("rgat-across", 2, "dst+weights-first"),
        ("hgt", 2, "src+scores-src"),
    ],
)
def test_plans_by_another_schedule(layer, heads, plan, small):
    pytest.importorskip("triton", minversion="3.7.1")
    module = randomized(LAYERS[layer].make(small, 8, heads)).eval()
    backend = TritonBackend(schedule=SHORT)
    assert check_variants(module, small, backend, keep=lambda v: v.id == f"{plan}/t64-p2048") == 1


def test_which_kernels_there_are():
    parts = ["", "_join"]
    assert kernels(SUMS, SHORT) == [f"kernel_0{part}" for part in parts]
    assert kernels(WEIGHTED, SHORT) == [f"kernel_0{part}" for part in parts]
    assert kernels(ATTENTION, SHORT) == [f"kernel_0{part}" for part in parts]
    assert kernels(RGCN, SHORT) == ["kernel_0", "kernel_1", *(f"kernel_2{p}" for p in parts)]
    # Shares that are stored are found of what the first kernel has found of their nodes.
    assert kernels(SOFTMAX, SHORT) == ["kernel_0", "kernel_0_join", "kernel_1", "kernel_2"]
