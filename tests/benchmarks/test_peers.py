"""Every peer computes PyG's layer: in float64, on small graphs with all the awkward parts."""

from functools import partial

import pytest
import torch

pytest.importorskip("torch_geometric")

from _peers import _torch_hgt, grouped, pyg, torch_expert
from _peers._pairs import pair_plan
from _peers._torch_ops import csr_tensor
from _peers.problem import LAYERS, Layer, Problem

from hetune.variants.graph.hetero import HeteroGraph


def random_graph(seed: int, *, nodes: int = 23, edges: int = 90, relations: int = 5) -> HeteroGraph:
    """Three node types (one never reached), isolated nodes, duplicates, an empty relation."""
    generator = torch.Generator().manual_seed(seed)

    def draw(high: int) -> torch.Tensor:
        return torch.randint(0, high, (edges,), generator=generator)

    third = nodes // 3
    etype = draw(relations).sort().values
    etype = etype + (etype >= relations // 2)  # leaves one relation without edges
    ntype = torch.tensor([0] * third + [1] * third + [2] * (nodes - 2 * third))
    # Relation r leads from type r % 3 to type r % 2: type 2 is never reached.
    src = draw(third) + third * (etype % 3)
    dst = draw(third - 1) + third * (etype % 2)
    triples = [(str(r % 3), f"r.{r}", str(r % 2)) for r in range(relations + 1)]
    return HeteroGraph(src, dst, etype, ntype, canonical_etypes=triples, num_etypes=relations + 1)


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got - want).abs().max() / want.abs().max())


def heads_of(layer: Layer) -> tuple[int, ...]:
    return (1,) if layer == "rgcn" else (1, 2)


CASES = [
    pytest.param(candidate, heads, id=f"{layer}-{candidate.name}-{heads}")
    for layer in LAYERS
    for candidate in (*pyg.candidates(layer), *torch_expert.candidates(layer))
    if not candidate.compiled
    for heads in heads_of(layer)
]


@pytest.mark.parametrize(("candidate", "heads"), CASES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equals_pyg_in_float64(candidate, heads, seed):
    # Seeds differ in whether the relations have more weights than the graph has nodes.
    graph = random_graph(seed, nodes=23 if seed else 230)
    problem = Problem(candidate.layer, graph, 12, heads, torch.float64, seed)
    oracle = pyg.candidates(candidate.layer)[0].build(problem)
    mask = problem.compared_rows
    with torch.inference_mode():
        want = problem.flatten(oracle())
        run = candidate.build(problem)
        run()
        got = problem.flatten(run())  # a second run: kept buffers must not leak into it
    assert relative_error(got[mask], want[mask]) < 1e-12


GROUPED = [candidate for layer in LAYERS for candidate in grouped.candidates(layer)]


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("candidate", GROUPED, ids=lambda c: f"{c.layer}-{c.name}")
def test_grouped_products_are_near(candidate, heads):
    """The operator has no float64, and wants rows of a multiple of 16 bytes."""
    heads = heads if candidate.layer != "rgcn" else 1
    problem = Problem(candidate.layer, random_graph(1), 32, heads)
    with torch.inference_mode():
        want = problem.flatten(torch_expert.candidates(candidate.layer)[0].build(problem)())
        got = problem.flatten(candidate.build(problem)())
    error = relative_error(got[problem.compared_rows], want[problem.compared_rows])
    assert error < (1e-5 if candidate.precision == "ieee" else 0.03)


def test_dots_are_those_of_the_sparse_product():
    graph = random_graph(2)
    order = graph.dst.argsort(stable=True)
    columns = graph.src.long()[order]
    ptr = torch.zeros(24, dtype=torch.int64)
    ptr[1:] = torch.bincount(graph.dst, minlength=23).cumsum(0)
    pattern = csr_tensor(ptr, columns, torch.zeros(90, dtype=torch.float64), 23)
    left, right = torch.randn(2, 23, 5, dtype=torch.float64)
    found = _torch_hgt.dots(pattern, left, right, entries=7)
    torch.testing.assert_close(found, (left[graph.dst[order]] * right[columns]).sum(1))
    torch.testing.assert_close(found, _torch_hgt._sampled(pattern, left, right))


@pytest.mark.dgl
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer", ["rgcn", "hgt"])
def test_dgl_equals_the_reference_of_its_model(layer):
    pytest.importorskip("dgl")
    from _peers import dgl

    problem = Problem(layer, random_graph(3), 12, 1 if layer == "rgcn" else 2)
    double = Problem(layer, problem.graph, 12, problem.heads, torch.float64)
    mask = problem.compared_rows
    for candidate in dgl.candidates(layer):
        reference = torch_expert.candidates(layer)[0].build
        if candidate.model == dgl.LIGHT_HGT:
            reference = partial(_torch_hgt.pairs, side="source", light=True)
        with torch.inference_mode():
            want = reference(double)()
            got = candidate.build(problem)()
        assert relative_error(got[mask], want[mask]) < 1e-5, candidate.name


@pytest.mark.parametrize("side", ["source", "target", "smaller"])
def test_pair_plan_covers_every_edge_once(side):
    graph = random_graph(4)
    plan = pair_plan(graph, side)
    assert sorted(plan.edge.tolist()) == list(range(graph.num_edges))
    assert plan.final_row.numel() == plan.source_edges + plan.target.rows
    assert plan.final_ptr[-1] == plan.final_row.numel()
    halves = (plan.source, plan.target)
    etypes = torch.tensor(
        [r for s in halves for r, n in zip(s.etypes, s.sizes, strict=True) for _ in range(n)]
    )
    left = plan.edge[: plan.source_edges]
    rows = plan.edge_row[: plan.source_edges]
    assert torch.equal(plan.source.nodes[rows], graph.src[left].long())
    assert torch.equal(etypes[rows], graph.etype[left].long())
    right = plan.edge[plan.source_edges :]
    assert torch.equal(plan.target.nodes[plan.edge_row[plan.source_edges :]], graph.dst[right])


def test_smaller_side_transforms_least_rows():
    graph = random_graph(5, edges=300)
    rows = {s: pair_plan(graph, s) for s in ("source", "target", "smaller")}
    total = {side: plan.source.rows + plan.target.rows for side, plan in rows.items()}
    assert total["smaller"] <= min(total["source"], total["target"])
