"""Elementwise functions of the prelude against float64, at the edges of their ranges too."""

import math

import pytest
import torch

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse

INF = math.inf
REFERENCE = {
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": torch.nn.functional.gelu,
    "relu": torch.relu,
    "reciprocal": torch.reciprocal,
}


@pytest.fixture(scope="session")
def evaluate(backend, place_of):
    def run(fn: str, x: torch.Tensor, width: int) -> torch.Tensor:
        rows = -(-x.numel() // width)
        padded = torch.ones(rows * width)
        padded[: x.numel()] = x
        none = torch.empty(0, dtype=torch.int64).numpy()
        graph = HeteroGraph(none, none, none, num_nodes=rows, num_etypes=1)
        launch = parse(
            f"launch\n  buffer x: node[{width}]\n  buffer y: node[{width}]\n  traverse node\n"
            f"    v: [{width}] = read x\n    f: [{width}] = {fn}(v)\n    store y = f\n"
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
@pytest.mark.parametrize("fn", ["exp", "sigmoid", "tanh", "gelu", "relu"])
def test_what_is_no_number_stays_so(fn, width, evaluate):
    assert evaluate(fn, torch.tensor([math.nan]), width).isnan().all()


def test_bounded_functions_at_infinity(evaluate):
    x = torch.tensor([-INF, INF, -100.0, 100.0])
    assert evaluate("sigmoid", x, 4).tolist()[:2] == [0.0, 1.0]
    assert evaluate("tanh", x, 4).tolist() == [-1.0, 1.0, -1.0, 1.0]
    assert evaluate("gelu", x, 4).tolist()[2:] == [0.0, 100.0]
