"""What outputs are checked against: exact, and affordable on any graph."""

import math

import pytest
import torch

from hetune.profiling.measure.inputs import Inputs, random_inputs
from hetune.profiling.measure.oracle import (
    MOST_ELEMENTS,
    Oracle,
    incoming,
    looks_behind,
    sample_nodes,
)
from hetune.variants.errors import ProgramError
from hetune.variants.frontend.presets import PRESETS, preset_program
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.reverse import reversed_graph
from hetune.variants.passes.backward import backward
from hetune.variants.program.interpret import interpret, interpret_results
from hetune.variants.program.nodes import (
    End,
    Let,
    Map,
    Param,
    Program,
    Reduce,
    Space,
    Take,
    Type,
)
from hetune.variants.runtime.domain import Domain
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.programs import PROGRAMS

LAYERS = [("rgcn", 1), ("rgat", 1), ("rgat", 2), ("hgt", 1), ("hgt", 2)]
KERNELS = [("linear", 1), ("aggregate", 1), ("attention", 1), ("attention", 2)]


@pytest.fixture(scope="module")
def graph() -> HeteroGraph:
    return typed_graph((300, 200), [(0, 1, 400), (1, 0, 500), (0, 0, 600)])


def program(layer: str, heads: int = 1) -> Program:
    return preset_program(layer, 8 if PRESETS[layer].keeps_width else 6, 8, heads)


def exact(program: Program, graph: HeteroGraph, inputs: Inputs) -> torch.Tensor:
    values = {**inputs.features, **inputs.weights}
    return interpret(program, {name: value.double() for name, value in values.items()}, graph)


@pytest.mark.parametrize(("layer", "heads"), LAYERS + KERNELS)
def test_a_sample_s_rows_are_those_of_the_whole_graph(layer, heads, graph):
    layer = program(layer, heads)
    inputs = random_inputs(layer, Domain(graph), 0)
    oracle = Oracle(layer, graph, inputs, most_elements=8 * 400)
    assert oracle.nodes is not None
    assert 10 < oracle.nodes.numel() < 300
    right = exact(layer, graph, inputs).float()
    assert oracle.error((right,)) < 1e-6
    assert oracle.error((right.flatten(1),)) < 1e-6
    wrong = right.clone()
    wrong[oracle.nodes[-1]] += 0.01 * right[oracle.nodes].abs().max()
    assert oracle.error((wrong,)) == pytest.approx(0.01, rel=1e-3)


def test_all_nodes_are_checked_where_that_is_affordable(graph):
    layer = program("rgcn")
    inputs = random_inputs(layer, Domain(graph), 0)
    oracle = Oracle(layer, graph, inputs)
    assert oracle.nodes is None
    right = exact(layer, graph, inputs).float()
    for node in (0, 250, 499):
        wrong = right.clone()
        wrong[node, 3] += right.abs().max()
        assert oracle.error((wrong,)) == pytest.approx(1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_an_infinite_error_wherever_it_is(value, graph):
    layer = program("rgcn")
    inputs = random_inputs(layer, Domain(graph), 0)
    oracle = Oracle(layer, graph, inputs, most_elements=8 * 100)
    assert oracle.nodes is not None
    outside = next(node for node in range(500) if node not in oracle.nodes.tolist())
    wrong = exact(layer, graph, inputs).float()
    wrong[outside, 0] = value
    assert oracle.error((wrong,)) == math.inf


def test_graphs_without_nodes_have_no_error():
    nothing = HeteroGraph(torch.empty(0).int(), torch.empty(0).int(), num_nodes=0, num_etypes=2)
    layer = program("rgcn")
    oracle = Oracle(layer, nothing, random_inputs(layer, Domain(nothing), 0))
    assert oracle.error((torch.empty(0, 8),)) == 0.0


def star(leaves: int, others: int) -> HeteroGraph:
    """Node 0 has an edge from every leaf; the others have one from node 0 each."""
    src = torch.cat([torch.arange(1, leaves + 1), torch.zeros(others).long()])
    dst = torch.cat([torch.zeros(leaves).long(), torch.arange(others) + 1])
    return HeteroGraph(src, dst, num_nodes=max(leaves, others) + 1)


def test_the_hub_is_in_the_sample_if_it_leaves_room_for_others():
    assert 0 in sample_nodes(star(40, 500), 200, 0)
    assert 0 not in sample_nodes(star(400, 500), 200, 0)


def test_a_sample_is_never_empty_nor_larger_than_asked_for_if_it_can():
    lonely = sample_nodes(star(40, 0), 1, 0)
    assert lonely.numel() == 1
    assert lonely[0] != 0
    both_hubs = HeteroGraph(torch.tensor([0, 1] * 50), torch.tensor([1, 0] * 50))
    assert sample_nodes(both_hubs, 1, 0).numel() == 1
    some = sample_nodes(star(40, 500), 200, 0)
    assert 3 * some.numel() <= 200 + 2 * 40
    assert some.tolist() == sorted(set(some.tolist()))


def test_samples_are_drawn_by_the_seed(graph):
    assert sample_nodes(graph, 300, 1).tolist() == sample_nodes(graph, 300, 1).tolist()
    assert sample_nodes(graph, 300, 1).tolist() != sample_nodes(graph, 300, 2).tolist()


def test_the_part_of_a_graph_holds_all_edges_into_the_nodes_and_no_others(graph):
    nodes = torch.tensor([3, 77, 310])
    part, kept, edges, place = incoming(graph, nodes)
    into = torch.isin(graph.dst.long(), nodes)
    assert kept[place].tolist() == nodes.tolist()
    assert kept[part.src.long()].tolist() == graph.src[into].tolist()
    assert kept[part.dst.long()].tolist() == graph.dst[into].tolist()
    assert edges.tolist() == into.nonzero().flatten().tolist()
    assert part.etype.tolist() == graph.etype[into].tolist()
    assert part.ntype.tolist() == graph.ntype[kept].tolist()
    assert part.canonical_etypes == graph.canonical_etypes
    part.validate()


@pytest.mark.parametrize(
    ("name", "behind"),
    [("rgat across", False), ("edge weights", False), ("degrees", True), ("two layers", True)],
)
def test_rows_that_hang_on_more_than_the_edges_that_come_in(name, behind, graph):
    program = PROGRAMS[name]
    assert looks_behind(program) is behind
    inputs = random_inputs(program, Domain(graph), 0)
    whole = Oracle(program, graph, inputs)
    some = Oracle(program, graph, inputs, most_elements=2000)
    assert (some.nodes is None) is behind
    [expected] = interpret_results(program, {**inputs.weights, **inputs.features}, graph)
    assert whole.error((expected,)) < 1e-6
    assert some.error((expected,)) < 1e-6
    expected[0 if behind else some.nodes[0]] += 1
    assert some.error((expected,)) > 1e-2


def test_results_of_nodes_and_edges_are_checked(graph):
    x, w = Param("x", Type(Space.NODE, (4,)), "feature"), Param("w", Type(Space.EDGE), "feature")
    y = Let("y", Type(Space.EDGE, (4,)), Take("x", Space.EDGE, End.SRC))
    z = Let("z", Type(Space.EDGE, (4,)), Map("mul", ("w", "y")))
    s = Let("s", Type(Space.NODE, (4,)), Reduce("z", Space.NODE, end=End.DST))
    several = Program("several", (x, w), (y, z, s), ("z", "s"))
    inputs = random_inputs(several, Domain(graph), 0)
    right = interpret_results(several, inputs.features, graph)
    for most in (MOST_ELEMENTS, 2000):
        oracle = Oracle(several, graph, inputs, most_elements=most)
        assert oracle.error(right) < 1e-6
        for wrong in range(2):
            found = tuple(rows.clone() for rows in right)
            found[wrong][:] += 1
            assert oracle.error(found) > 1e-2


def test_sums_over_types_are_checked_in_full(graph):
    """Stages of gradients, with groups of edge types and matrices for weights."""
    layer = program("rgcn")
    for stage in backward(layer, [param.name for param in layer.params]).stages[:2]:
        turned = reversed_graph(graph) if stage.is_reversed else graph
        domain, part = Domain(turned), stage.program
        inputs = random_inputs(part, domain, 0)
        values = {
            name: rows.double() for name, rows in {**inputs.weights, **inputs.features}.items()
        }
        found = interpret_results(part, values, turned, domain.groups)
        oracle = Oracle(part, turned, inputs, most_elements=2000)
        assert oracle.nodes is None
        assert oracle.error(found) < 1e-6
        for wrong in range(len(found)):
            spoilt = [rows.clone() for rows in found]
            spoilt[wrong][-1] += 10
            assert oracle.error(tuple(spoilt)) > 1e-2


def test_what_a_sum_adds_up_bounds_its_error_though_it_cancels():
    """One scalar for each type, as HGT's skips have them; the second type has two nodes."""
    count = 40_000
    nothing = torch.empty(0).int()
    ntype = (torch.arange(count) >= count - 2).int()
    graph = HeteroGraph(nothing, nothing, ntype=ntype, num_nodes=count, num_ntypes=2)
    x = Param("x", Type(Space.NODE), "feature")
    s = Let("s", Type(Space.NTYPE), Reduce("x", Space.NTYPE))
    rows = torch.ones(count)
    rows[: count // 2] = -1
    rows[0] = 1
    oracle = Oracle(Program("sums", (x,), (s,), ("s",)), graph, Inputs({"x": rows}, {}))
    right = torch.tensor([0.0, 2.0])
    assert rows[: count - 2].sum() == right[0]
    assert oracle.error((right,)) == 0
    assert oracle.error((right + torch.tensor([0.1, 0]),)) < 1e-5  # 2.5 millionths of 40,000 ones
    assert oracle.error((right + torch.tensor([1.0, 0]),)) > 1e-5  # a row is missing
    assert oracle.error((right + torch.tensor([0, 1e-4]),)) > 1e-5  # few are added up here


def test_rows_of_pairs_cannot_be_checked(graph):
    x = Param("x", Type(Space.NODE, (4,)), "feature")
    y = Let("y", Type(Space.DST_PAIR, (4,)), Take("x", Space.DST_PAIR, End.DST))
    pairs = Program("pairs", (x,), (y,), ("y",))
    with pytest.raises(ProgramError, match="return those of nodes, edges or types"):
        Oracle(pairs, graph, Inputs({"x": torch.zeros(500, 4)}, {}))


def test_inputs_are_signed_and_drawn_by_the_seed(graph):
    layer = program("rgat", 2)
    first, again, other = (random_inputs(layer, Domain(graph), seed) for seed in (0, 0, 1))
    assert first.features.keys() == {"x"}
    assert first.features["x"].shape == (500, 6)
    assert first.weights["w"].shape == (3, 6, 2, 4)
    for name, value in {**first.features, **first.weights}.items():
        assert value.dtype == torch.float32
        assert value.min() < 0 < value.max()
        assert torch.equal(value, {**again.features, **again.weights}[name])
        assert not torch.equal(value, {**other.features, **other.weights}[name])
