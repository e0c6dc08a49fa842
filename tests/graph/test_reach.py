"""What a few nodes depend on: the sets by their definition, and the same rows from less work."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hetune
from hetune.variants.errors import InputError
from hetune.variants.graph import reach
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.reach import ReachStep
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.layers import LAYERS, randomized
from hetune.variants.testing.strategies import graphs


def edges_into(graph: HeteroGraph, needed: set[int]) -> list[tuple[int, int, int]]:
    """Sorted, parallel ones included."""
    columns = zip(graph.dst.tolist(), graph.etype.tolist(), graph.src.tolist(), strict=True)
    return sorted(edge for edge in columns if edge[0] in needed)


def check_definition(
    graph: HeteroGraph, wanted: list[int], steps: tuple[ReachStep, ...], outputs: set[int]
) -> None:
    needed: set[int] = set()
    before = [range(graph.num_nodes), *(step.nodes.tolist() for step in steps)]
    for number in reversed(range(len(steps))):
        step = steps[number]
        needed |= set(wanted) if number in outputs else set()
        assert step.nodes.tolist() == sorted(needed)
        edges = edges_into(graph, needed)
        nodes = sorted(needed | {s for _, _, s in edges})
        taken = step.inputs(torch.tensor(before[number], dtype=torch.int64)[:, None]).flatten()
        assert taken.tolist() == nodes
        assert step.needed(taken[:, None]).flatten().tolist() == sorted(needed)
        place = {node: position for position, node in enumerate(nodes)}
        found = edges_into(step.graph, set(range(step.graph.num_nodes)))
        assert found == [(place[d], r, place[s]) for d, r, s in edges]
        assert step.graph.metadata() == graph.metadata()
        assert step.graph.ntype.tolist() == graph.ntype[nodes].tolist()
        step.graph.validate()
        needed = set(nodes)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_definition(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    layers = data.draw(st.integers(1, 4))
    outputs = data.draw(st.sets(st.integers(0, layers - 1), min_size=1))
    wanted = []
    if graph.num_nodes:
        wanted = data.draw(st.lists(st.integers(0, graph.num_nodes - 1), max_size=5))
    ids = torch.tensor(wanted, dtype=torch.int64)
    steps = reach(graph, ids, layers, outputs=outputs)
    assert steps is not None
    check_definition(graph, wanted, steps, outputs)


def chosen_nodes(graph: HeteroGraph, which: str) -> torch.Tensor:
    """Node 0 is the hub, where there is one."""
    nodes = torch.arange(graph.num_nodes)
    return {"none": nodes[:0], "first": nodes[:1], "some": nodes[::7].flip(0), "all": nodes}[which]


@pytest.mark.parametrize("which", ["none", "first", "some", "all"])
@pytest.mark.parametrize(
    "name", ["isolated nodes", "duplicate edges", "hub", "node type without nodes", "no edges"]
)
@pytest.mark.parametrize("layer", LAYERS)
def test_rows_are_those_of_the_whole_graph(layer: str, name: str, which: str) -> None:
    graph = AWKWARD[name]()
    kind = LAYERS[layer]
    stack = [randomized(kind.make(graph, 8, 1), seed) for seed in range(3)]
    x = torch.randn(graph.num_nodes, 8, generator=torch.Generator().manual_seed(0))
    nodes = chosen_nodes(graph, which)
    steps = reach(graph, nodes, len(stack))
    assert steps is not None
    with torch.no_grad():
        expected, found = x, x
        for module, step in zip(stack, steps, strict=True):
            expected = torch.tanh(module(expected, graph))
            found = step.needed(torch.tanh(module(step.inputs(found), step.graph)))
    assert torch.allclose(found, expected[steps[-1].nodes], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", LAYERS)
def test_every_kind_of_variant_gives_these_rows(layer: str) -> None:
    graph = AWKWARD["hub of thousands of edges"]()
    kind = LAYERS[layer]
    # The matrix of conformance compiles these, too.
    module = randomized(kind.make(graph, 7, min(2, max(kind.heads))))
    compiled = hetune.compile(module)
    x = torch.randn(graph.num_nodes, 7, generator=torch.Generator().manual_seed(0))
    (step,) = reach(graph, torch.tensor([0, 5, 17, 300]), 1) or ()
    assert step.graph.num_edges < graph.num_edges
    with torch.no_grad():
        for variant in compiled.variants[:: max(1, len(compiled.variants) // 3)]:
            whole = compiled(x, graph, variant=variant)[step.nodes]
            part = step.needed(compiled(step.inputs(x), step.graph, variant=variant))
            assert (part - whole).abs().max() <= 1e-5 * whole.abs().max(), variant


def test_the_whole_graph_is_run_on_as_it_is() -> None:
    graph = AWKWARD["hub"]()
    steps = reach(graph, torch.arange(graph.num_nodes), 2) or ()
    assert [step.graph is graph for step in steps] == [True, True]
    assert all(step.rows is None and step.targets is None for step in steps)


def test_layers_that_need_the_same_share_their_graph() -> None:
    loops = torch.tensor([3, 3, 4])
    graph = HeteroGraph(loops, loops, num_nodes=9)
    first, second = reach(graph, torch.tensor([4, 3, 3]), 2) or ()
    assert first.graph is second.graph
    assert (first.graph.num_nodes, first.graph.num_edges) == (2, 3)


def test_it_can_be_given_up() -> None:
    graph = AWKWARD["several blocks"]()
    steps = reach(graph, torch.arange(5), 3) or ()
    edges = sum(step.graph.num_edges for step in steps)
    assert reach(graph, torch.arange(5), 3, most_edges=edges) is not None
    assert reach(graph, torch.arange(5), 3, most_edges=edges - 1) is None


@pytest.mark.parametrize(
    ("nodes", "layers", "outputs", "text"),
    [
        ([9], 1, None, "there is no node 9"),
        ([0, -1], 1, None, "there is no node -1"),
        ([0], 0, None, "outputs are"),
        ([0], 2, [2], "name some of the layers 0 to 1"),
        ([0], 2, [], "name some of the layers 0 to 1"),
    ],
)
def test_what_there_is_not(nodes, layers, outputs, text) -> None:
    graph = HeteroGraph(torch.tensor([0]), torch.tensor([1]), num_nodes=9)
    with pytest.raises(InputError, match=text):
        reach(graph, torch.tensor(nodes), layers, outputs=outputs)
