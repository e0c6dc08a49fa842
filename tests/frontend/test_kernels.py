"""Single kernels: what they say, and what they refuse."""

from __future__ import annotations

import pytest
import torch

from hetune.variants.errors import InputError, ProgramError
from hetune.variants.frontend.kernels import (
    aggregate_program,
    attention_program,
    linear_program,
)
from hetune.variants.frontend.presets import KERNELS, LAYERS, SCORES, preset_layer, preset_program
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.device import DEVICES
from hetune.variants.plan.variants import variants_of
from hetune.variants.program.interpret import interpret
from hetune.variants.runtime.table import CandidateTable
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.programs import random_parameters

FAMILIES = {"linear": "product", "aggregate": "traversal", "attention": "traversal"}


@pytest.fixture(scope="module")
def graph() -> HeteroGraph:
    return AWKWARD["relations without edges"]()


def test_linear_gives_each_node_its_type_s_product(graph):
    program = linear_program(6, 4)
    values = random_parameters(program, graph)
    expected = torch.einsum("nk,nkd->nd", values["x"], values["w"][graph.ntype.long()])
    torch.testing.assert_close(interpret(program, values, graph), expected)


def test_aggregate_adds_up_the_means_of_relations(graph):
    program = aggregate_program(5)
    x = random_parameters(program, graph)["x"]
    expected = torch.zeros_like(x)
    for node in range(graph.num_nodes):
        for relation in range(graph.num_etypes):
            edges = (graph.dst == node) & (graph.etype == relation)
            if edges.any():
                expected[node] += x[graph.src[edges].long()].mean(0)
    torch.testing.assert_close(interpret(program, {"x": x}, graph), expected)


@pytest.mark.parametrize("heads", [1, 2])
def test_attention_is_that_of_scaled_products(heads, graph):
    program = attention_program(6, heads)
    x = random_parameters(program, graph)["x"]
    rows = x.view(graph.num_nodes, heads, -1)
    expected = torch.zeros_like(rows)
    for node in range(graph.num_nodes):
        near = rows[graph.src[graph.dst == node].long()]
        if len(near):
            scores = (near * rows[node]).sum(-1) / rows.shape[-1] ** 0.5
            expected[node] = (scores.softmax(0)[..., None] * near).sum(0)
    torch.testing.assert_close(interpret(program, {"x": x}, graph).view_as(rows), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_each_is_one_launch_of_one_family(kernel, device):
    variants = variants_of(preset_program(kernel, 8, 8), device)
    assert {variant.id.rpartition("/")[0] for variant in variants} == {"vanilla"}
    assert {len(variant.plan.launches) for variant in variants} == {1}
    assert set(CandidateTable.of(variants).families) == {FAMILIES[kernel]}


def test_only_attention_has_heads():
    assert preset_program("linear", 8, 4, 2) == linear_program(8, 4)
    assert preset_program("aggregate", 8, 8, 2) == aggregate_program(8)
    assert preset_program("attention", 8, 8, 2) == attention_program(8, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("mlp", 8, 8),
            "no layer 'mlp': take one of rgcn, rgat, hgt, linear, aggregate, attention, gcn, sage, "
            "gin, gat, gatv2, transe, distmult, transh, transr, rescal",
        ),
        (("linear", 0, 8), "width 0 with 1 heads: both are at least 1"),
        (("attention", 8, 8, 3), "width 8 does not divide into 3 heads: take a multiple"),
        (
            ("aggregate", 8, 4),
            "rows of width 8 are as wide after 'aggregate', not 4: take equal widths",
        ),
        (
            ("attention", 4, 8),
            "rows of width 4 are as wide after 'attention', not 8: take equal widths",
        ),
    ],
)
def test_what_no_kernel_can_be(arguments, message):
    with pytest.raises(InputError) as error:
        preset_program(*arguments)
    assert str(error.value) == message


def test_heads_have_to_fit():
    with pytest.raises(ProgramError, match="width 6 does not divide into 4 heads"):
        attention_program(6, 4)


@pytest.mark.parametrize("kernel", [*KERNELS, *SCORES])
def test_a_kernel_is_no_layer_and_neither_is_a_score(kernel):
    assert kernel not in LAYERS
    with pytest.raises(InputError, match=f"'{kernel}' is no layer of hetune.nn"):
        preset_layer(kernel, 8, 8, AWKWARD["relations without edges"]())
