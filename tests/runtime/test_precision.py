"""`precision="bf16"`: what is allowed, how far results are off, and that nothing else changes."""

import pytest
import torch

import hetune
from hetune.variants.errors import InputError
from hetune.variants.frontend.nn import HGT, RGAT, RGCN
from hetune.variants.testing.conformance import (
    NARROW_TOLERANCE,
    check_variants,
    features,
    interpreted,
    relative_error,
)
from hetune.variants.testing.graphs import AWKWARD

GRAPHS = ("no edges", "one node", "isolated nodes", "hub of thousands of edges", "source hub")
LAYERS = {
    "rgcn": lambda graph: RGCN(64, 32, graph.num_etypes),
    "rgat": lambda graph: RGAT(32, 16, graph.num_etypes, heads=4),
    "hgt": lambda graph: HGT(64, 64, graph.metadata(), 2),
}


def _is_narrow(variant):
    """Of the variants that have kernels of all kinds, those of one schedule."""
    plan, schedule = variant.choices.plan, variant.choices.schedule
    has_all = plan.narrow and not variant.id.startswith(("hybrid+scores-src", "hybrid+scores-dst"))
    return (
        has_all
        and variant.id.startswith("hybrid")
        and (plan.is_special or schedule.block_nodes == 256)
    )


@pytest.mark.parametrize("layer", LAYERS)
def test_narrow_variants_are_right_on_awkward_graphs(layer):
    torch.manual_seed(0)
    for name in GRAPHS:
        graph = AWKWARD[name]()
        module = LAYERS[layer](graph)
        check_variants(module, graph, "cpp", keep=_is_narrow, precision="bf16")


@pytest.mark.parametrize("layer", LAYERS)
def test_large_inputs_of_one_sign(layer):
    """Scores as large as 16 move by that times a unit in the last place."""
    torch.manual_seed(1)
    graph = AWKWARD["several blocks"]()
    module = LAYERS[layer](graph)
    x = features(module, graph).abs() * (1e30 if layer == "rgcn" else 4.0)
    check_variants(module, graph, "cpp", keep=_is_narrow, precision="bf16", x=x)


def test_float32_is_what_it_was():
    graph = AWKWARD["several blocks"]()
    module = RGCN(64, 64, graph.num_etypes)
    plain = hetune.compile(module, backend="cpp")
    both = hetune.compile(module, backend="cpp", precision="bf16")
    assert both.variants[: len(plain.variants)] == plain.variants
    assert hetune.compile(both, backend="cpp").variants == both.variants
    again = hetune.compile(both, backend="cpp", precision="float32")
    assert again.variants == plain.variants
    x = features(module, graph)
    for name in plain.variants[:2]:
        with torch.no_grad():
            assert torch.equal(plain(x, graph, variant=name), both(x, graph, variant=name))


def test_tables_take_half_the_memory():
    graph = AWKWARD["several blocks"]()
    layer = hetune.compile(RGCN(64, 64, graph.num_etypes), backend="cpp", precision="bf16")
    candidates = layer.explain(torch.zeros(graph.num_nodes, 64), graph).candidates
    bytes_of = {candidate.id: candidate.peak_bytes for candidate in candidates}
    assert bytes_of["src+bf16/b256"] < bytes_of["src/b256"]


def test_the_choice_is_among_both():
    graph = AWKWARD["several blocks"]()
    module = RGCN(64, 64, graph.num_etypes)
    layer = hetune.compile(module, backend="cpp", precision="bf16")
    x = features(module, graph)
    choice = layer.explain(x, graph)
    assert {"+bf16/" in candidate.id for candidate in choice.candidates} == {True, False}
    with torch.no_grad():
        assert relative_error(layer(x, graph), interpreted(module, x, graph)) < NARROW_TOLERANCE


def test_there_is_no_other_precision():
    with pytest.raises(InputError, match=r"no precision 'fp8': take 'float32' or 'bf16'"):
        hetune.compile(RGCN(4, 4, 1), precision="fp8")
