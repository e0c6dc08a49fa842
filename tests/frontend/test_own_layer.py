"""A layer of one's own, in this file alone: compiled, chosen, explained and profiled."""

from dataclasses import replace

import pytest
import torch

import hetune
from hetune.layers import Graph, Value, constant, dot, edge, etype, node, relu, shared, softmax
from hetune.profiling.campaign.run import run_units
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import units_of
from hetune.profiling.store.problems import problems
from hetune.profiling.store.store import Store
from hetune.profiling.units import GraphRecipe, ProblemSpec
from hetune.service.core.models.description import ModelDescription
from hetune.service.core.models.stack import describe, modules_of
from hetune.variants.errors import InputError
from hetune.variants.frontend.program_layer import ProgramLayer
from hetune.variants.program.labeled import LabeledProgram


@hetune.layer_program
def weighted(g: Graph, x: Value, w: Value, c: Value, bias: Value) -> Value:
    """Messages with an edge weight, which their relation has."""
    return relu(g.sum(c * (g.src(x) @ w)) + bias)


PROGRAM = weighted(x=node(8), w=etype(8, 4), c=etype(), bias=shared(4))
TINY = GraphRecipe("tiny", "own", "typed", (("edges", 60), ("etypes", 3), ("nodes", 20)))


@pytest.fixture
def graph():
    edges = torch.randint(20, (2, 60), generator=torch.Generator().manual_seed(0))
    return hetune.HeteroGraph(edges[0], edges[1], torch.arange(60) % 3, num_nodes=20)


def weights():
    draw = torch.Generator().manual_seed(1)
    shapes = {"w": (3, 8, 4), "c": (3,), "bias": (4,)}
    return {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}


def test_it_is_compiled_chosen_and_explained(graph):
    layer = hetune.compile(PROGRAM, weights=weights())
    x = torch.randn(20, 8, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = ProgramLayer(PROGRAM, weights())(x, graph)
        for variant in layer.variants:
            torch.testing.assert_close(layer(x, graph, variant=variant), expected)
        torch.testing.assert_close(layer(x, graph), expected)
    selector = hetune.Selector.load()
    choice = selector.choose(PROGRAM, graph)
    assert choice.id in layer.variants
    assert selector.choose(layer, graph).id == choice.id
    assert choice.id in str(selector.explain(PROGRAM, graph))


@hetune.layer_program
def edge_weighted(g: Graph, x: Value, c: Value, f: Value, s: Value, w: Value, u: Value) -> Value:
    """Messages with a weight of their edge, features of edges, and a scale of their source."""
    return g.sum(g.src(s) * (c * (g.src(x) @ w))) + g.sum(f @ u)


MANY = edge_weighted(
    x=node(8), c=edge(), f=edge(3), s=constant(node()), w=shared(8, 4), u=shared(3, 4)
)


def test_rows_of_nodes_and_edges_go_by_name_or_in_order():
    draw = torch.Generator().manual_seed(3)
    made = {name: torch.randn(1, rows, 4, generator=draw) for name, rows in (("w", 8), ("u", 3))}
    layer = hetune.compile(MANY, weights=made)
    edge_index = torch.randint(20, (2, 60), generator=draw)
    src, dst = edge_index
    graph = hetune.HeteroGraph(src, dst, num_nodes=20)
    x, c, f, s = (torch.randn(n, generator=draw) for n in ((20, 8), (60,), (60, 3), (20,)))
    message = (s[src] * c)[:, None] * (x[src] @ made["w"][0]) + f @ made["u"][0]
    expected = torch.zeros(20, 4).index_add(0, dst, message)
    with torch.no_grad():
        for variant in layer.variants:
            torch.testing.assert_close(layer(x, c, f, s, graph, variant=variant), expected)
        torch.testing.assert_close(layer(graph, x=x, c=c, f=f, s=s), expected)
        torch.testing.assert_close(layer(x, edge_index, f=f, c=c[:, None], s=s), expected)
        torch.testing.assert_close(layer.module(x, edge_index, f=f, c=c, s=s), expected)
        s.neg_()  # what is kept of it is made anew
        torch.testing.assert_close(layer(x, -c, f, s, graph), expected)


@hetune.layer_program
def attention(g: Graph, x: Value, w: Value, a: Value) -> tuple[Value, Value]:
    """A layer that returns its attention, too."""
    share = softmax(dot(g.src(x) @ w, a), over=g.nodes)
    return g.sum(share * (g.src(x) @ w)), share


def test_attention_comes_back_in_the_edges_own_order(graph):
    program = attention(x=node(8), w=etype(8, 2, 4), a=shared(2, 4))
    draw = torch.Generator().manual_seed(4)
    made = {"w": torch.randn(3, 8, 2, 4, generator=draw), "a": torch.randn(2, 4, generator=draw)}
    layer, x = hetune.compile(program, weights=made), torch.randn(20, 8, generator=draw)
    with torch.no_grad():
        expected = layer.module(x, graph)
        assert [list(rows.shape) for rows in expected] == [[20, 8], [60, 2]]
        for variant in layer.variants:
            torch.testing.assert_close(layer(x, graph, variant=variant), expected)
        with pytest.raises(InputError, match="out= is for one result, and the layer has 2"):
            layer(x, graph, out=torch.empty(20, 8))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ("xcfg", {}, r"s: node\[\] constant is missing"),
        ("xcfssg", {}, "there are more rows than are no input of the program"),
        ("xg", {"d": "c"}, r"d is no input of the program, which takes x: node\[8\] feature, c: e"),
        ("x", {"c": "c"}, "0 arguments are edges"),
        ("xsfsg", {}, r"c has the shape \[20\]: give \[60\], a row for each of the graph's edges"),
    ],
)
def test_rows_have_to_fit(args, kwargs, message, graph):
    shapes = {"x": (20, 8), "c": (60,), "f": (60, 3), "s": (20,)}
    given = {name: torch.zeros(shape) for name, shape in shapes.items()}
    given["g"] = hetune.HeteroGraph(graph.src, graph.dst, num_nodes=20)
    layer = hetune.compile(MANY, weights={"w": torch.ones(8, 4), "u": torch.ones(3, 4)})
    with torch.no_grad(), pytest.raises(InputError, match=message):
        layer(*map(given.get, args), **{name: given[value] for name, value in kwargs.items()})


def test_no_input_has_the_name_of_an_option():
    renamed = replace(MANY, params=(replace(MANY.params[0], name="out"), *MANY.params[1:]))
    with pytest.raises(InputError, match="an option of calls is named out"):
        ProgramLayer(renamed, {})


def test_it_is_profiled_under_a_name_of_one_s_own(tmp_path):
    own = LabeledProgram.of(PROGRAM, "mine")
    with Store.open(tmp_path / "store.db") as store:
        limits = Limits(most_rounds=7, repeats=0)
        run_units(units_of(ProblemSpec(TINY, own, 1)), "own", store, limits=limits)
        [found] = problems(store)
    assert found.program == own
    assert found.program.describe() == "mine 8->4"
    assert len(found.candidates) > 5


def test_rows_of_edges_and_constants_are_profiled(tmp_path):
    with Store.open(tmp_path / "store.db") as store:
        spec = ProblemSpec(TINY, LabeledProgram.of(MANY, "many"), 1)
        run_units(units_of(spec), "many", store, limits=Limits(most_rounds=7, repeats=0))
        [found] = problems(store)
    assert all(candidate.seconds > 0 for candidate in found.candidates)


def test_it_is_served(graph):
    layer = ProgramLayer(PROGRAM, weights())
    description, tensors = describe([layer, torch.nn.ReLU()])
    assert description.layers[0].layer == "program"
    [served] = modules_of(
        ModelDescription.model_validate_json(description.model_dump_json()), tensors
    )
    x = torch.randn(20, 8)
    with torch.no_grad():
        torch.testing.assert_close(served(x, graph), layer(x, graph), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"w": torch.ones(3, 4, 8)}, r"the weight w has the shape \[3, 4, 8\]"),
        ({"other": torch.ones(1)}, "the weights are w, c, bias, other: the program has w, c, bias"),
    ],
)
def test_weights_have_to_fit(changes, message):
    with pytest.raises(InputError, match=message):
        hetune.compile(PROGRAM, weights={**weights(), **changes})


def test_a_module_has_its_own_weights():
    with pytest.raises(InputError, match="weights= is for programs"):
        hetune.compile(torch.nn.Linear(2, 2), weights={})
