"""Elementwise functions of the prelude against float64, at the edges of their ranges too."""

import math

import pytest
import torch

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse
from hetune.variants.program.functions import WITH_CONSTANT

INF = math.inf
REFERENCE = {
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": torch.nn.functional.gelu,
    "relu": torch.relu,
    "reciprocal": torch.reciprocal,
    "silu": torch.nn.functional.silu,
    "softplus": torch.nn.functional.softplus,
    "elu": lambda x: torch.nn.functional.elu(x, 0.5),
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "square": torch.square,
    "abs": torch.abs,
    "clamp_min": lambda x: x.clamp_min(0.5),
    "clamp_max": lambda x: x.clamp_max(0.5),
}
POSITIVE = ("log", "sqrt", "rsqrt")


@pytest.fixture(scope="session")
def evaluate(backend, place_of):
    def run(fn: str, x: torch.Tensor, width: int, const: float = 0.5) -> torch.Tensor:
        rows = -(-x.numel() // width)
        padded = torch.ones(rows * width)
        padded[: x.numel()] = x
        none = torch.empty(0, dtype=torch.int64).numpy()
        graph = HeteroGraph(none, none, none, num_nodes=rows, num_etypes=1)
        call = f"{fn}(v, const={const})" if fn in WITH_CONSTANT else f"{fn}(v)"
        launch = parse(
            f"launch\n  buffer x: node[{width}]\n  buffer y: node[{width}]\n  traverse node\n"
            f"    v: [{width}] = read x\n    f: [{width}] = {call}\n    store y = f\n"
        )
        values = {"x": padded.view(rows, width), "y": torch.zeros(rows, width)}
        backend.bind(launch, Schedule(), place_of(graph))(values)
        return values["y"].view(-1)[: x.numel()]

    return run


@pytest.mark.parametrize("width", [1, 31])
@pytest.mark.parametrize("fn", REFERENCE)
def test_accuracy(fn, width, evaluate):
    x = torch.cat([torch.linspace(-20, 20, 40_001), torch.linspace(-0.01, 0.01, 2_001)])
    if fn == "reciprocal":
        x = x[x != 0]
    if fn in POSITIVE:
        x = torch.cat([x.abs()[x != 0], torch.tensor([1e-40, 1e-38, 3e38])])
    want = REFERENCE[fn](x.double())
    error = (evaluate(fn, x, width).double() - want).abs()
    assert (error <= 1e-6).all() if fn == "gelu" else (error <= 3e-7 * want.abs() + 1e-37).all()


@pytest.mark.parametrize("width", [1, 16])
def test_exp_at_the_edges(width, evaluate):
    x = torch.tensor([-INF, -1e30, -200.0, -104.0, -87.0, -0.0, 0.0, 88.5, 89.0, 1e30, INF])
    want = torch.exp(x.double()).float()
    got = evaluate("exp", x, width)
    assert got[:3].tolist() == [0.0, 0.0, 0.0]
    assert got[-3:].tolist() == [INF, INF, INF]
    assert ((got - want).abs()[3:8] <= 2e-7 * want[3:8] + 2e-45).all()


@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("fn", [*REFERENCE, "rsqrt0", "pow_c"])
def test_what_is_no_number_stays_so(fn, width, evaluate):
    assert evaluate(fn, torch.tensor([math.nan]), width).isnan().all()


def test_bounded_functions_at_infinity(evaluate):
    x = torch.tensor([-INF, INF, -100.0, 100.0])
    assert evaluate("sigmoid", x, 4).tolist()[:2] == [0.0, 1.0]
    assert evaluate("tanh", x, 4).tolist() == [-1.0, 1.0, -1.0, 1.0]
    assert evaluate("gelu", x, 4).tolist()[2:] == [0.0, 100.0]


@pytest.mark.parametrize("width", [1, 16])
def test_functions_at_the_edges(width, evaluate):
    edges = torch.tensor([-INF, -1.0, 0.0, INF])
    assert evaluate("log", edges, width)[:2].isnan().all()
    assert evaluate("log", edges, width)[2:].tolist() == [-INF, INF]
    assert evaluate("rsqrt0", edges, width).tolist() == [0.0, 0.0, 0.0, 0.0]
    assert evaluate("step", edges, width).tolist() == [0.0, 0.0, 0.0, 1.0]
    assert evaluate("softplus", edges, width)[[0, 3]].tolist() == [0.0, INF]
    assert evaluate("elu", edges, width)[[0, 2, 3]].tolist() == [-0.5, 0.0, INF]


@pytest.mark.parametrize("const", [0.5, -0.5, 2.0, 3.0, -1.0, 0.3, -2.5])
def test_powers(const, evaluate):
    x = torch.cat([torch.linspace(0.01, 30, 1_000), -torch.ones(1)])
    want = x.double() ** const
    error = (evaluate("pow_c", x, 31, const).double() - want).abs()
    assert (error[:-1] <= 5e-7 * want[:-1]).all()
    assert want[-1].isnan() == evaluate("pow_c", x, 31, const)[-1].isnan()


def test_products_are_equal_to_themselves(backend, place_of):
    """A difference would be fused with the product, and not be 0."""
    none = torch.empty(0, dtype=torch.int64).numpy()
    graph = HeteroGraph(none, none, none, num_nodes=40, num_etypes=1)
    launch = parse(
        "launch\n  buffer x: node[31]\n  buffer p: node[31]\n  buffer y: node[31]\n"
        "  buffer z: node[31]\n  traverse node\n    v: [31] = read x\n    w: [31] = mul(v, v)\n"
        "    p: [31] = read p\n    f: [31] = equal(w, p)\n    store y = f\n"
        "    g: [31] = equal(v, p)\n    store z = g\n"
    )
    x = torch.randn((40, 31), generator=torch.Generator().manual_seed(0))
    values = {"x": x, "p": x * x, "y": torch.zeros(40, 31), "z": torch.ones(40, 31)}
    backend.bind(launch, Schedule(), place_of(graph))(values)
    assert values["y"].eq(1).all()
    assert values["z"].eq(0).all()
