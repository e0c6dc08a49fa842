"""Advice that is about variants, limits, and how layers are made."""

from __future__ import annotations

import re

import pytest
import torch

import hetune
from hetune import nn
from hetune.variants.runtime.compile_layer import compile_layer

from ._advice import case, compiled, run, said_by

geometric = pytest.importorskip("torch_geometric.nn")


@case("no variant {}: take one of {}")
def an_unknown_variant(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    yield lambda: layer(x, graph, variant="fastest")
    names = said_by(lambda: layer(x, graph, variant="fastest")).partition("one of ")[2].split(", ")
    yield lambda: [layer(x, graph, variant=name) for name in names]


@case("{} needs {} bytes, and the limit is {}: raise memory_limit, or leave variant out")
def a_variant_over_the_limit(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    peaks = {found.id: found.peak_bytes for found in layer.explain(x, graph).candidates}
    most, least = max(peaks, key=peaks.__getitem__), min(peaks.values())
    yield lambda: layer(x, graph, variant=most, memory_limit=least)
    raised = peaks[most]
    yield lambda: (
        layer(x, graph, variant=most, memory_limit=raised),
        layer(x, graph, memory_limit=least),
    )


@case(
    "every variant needs more than the limit of {} bytes: the smallest, {}, needs {}; "
    "raise memory_limit to at least that"
)
def a_limit_for_none(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    yield lambda: layer(x, graph, memory_limit=1)
    least = re.findall(r"needs (\d+);", said_by(lambda: layer(x, graph, memory_limit=1)))[0]
    yield lambda: layer(x, graph, memory_limit=int(least))


@case("the result of {} may be wrong: {}")
def features_that_outgrow_float32(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    name, huge = layer.variants[0], torch.full_like(x, 3e38)
    yield lambda: layer(huge, graph, variant=name)
    yield lambda: layer(huge / 1e30, graph, variant=name)


@case("memory_limit={}: give an integer of bytes, or None")
def a_limit_that_is_no_number(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    yield lambda: layer(x, graph, memory_limit="1 GB")
    yield lambda: (layer(x, graph, memory_limit=2**30), layer(x, graph, memory_limit=None))


@case("expected_runs={}: give a positive number")
def runs_that_are_none(x, edges, graph):
    yield lambda: compile_layer(nn.RGCN(8, 8, 3), expected_runs=0)
    yield lambda: run(compile_layer(nn.RGCN(8, 8, 3), backend="torch", expected_runs=0.5), x, graph)


@case("graph is a {}: give a HeteroGraph, as hetune.load, generate and from_pyg make them")
def no_graph_to_choose_for(x, edges, graph):
    selector = hetune.Selector()
    yield lambda: selector.choose("rgcn", edges, 8)
    yield lambda: selector.choose("rgcn", graph, 8)


@case("no backend {}: take 'cpp', 'torch' or 'triton'")
def an_unknown_backend(x, edges, graph):
    yield lambda: compile_layer(nn.RGCN(8, 8, 3), backend="c")
    yield lambda: [compile_layer(nn.RGCN(8, 8, 3), backend=b) for b in ("cpp", "torch", "triton")]


@case("{} is no torch.nn.Module: give it a layer")
def no_module(x, edges, graph):
    yield lambda: compile_layer("rgcn")
    yield lambda: run(compiled(nn.RGCN(8, 8, 3)), x, graph)


@case("out is a {}: give a tensor that has memory")
def out_is_no_tensor(x, edges, graph):
    layer = compiled(nn.RGCN(8, 8, 3))
    yield lambda: layer(x, graph, out=[1])
    yield lambda: layer(x, graph, out=torch.empty(50, 8))


@case("out must be a contiguous float32 tensor on {}: allocate it so")
def out_of_another_dtype(x, edges, graph):
    layer = compiled(nn.RGCN(8, 8, 3))
    yield lambda: layer(x, graph, out=torch.empty(8, 50).t())
    yield lambda: layer(x, graph, out=torch.empty(50, 8))


@case(
    "out is a tensor that torch negates as it reads it, or one without memory: allocate it with "
    "torch.empty"
)
def out_is_lazy(x, edges, graph):
    layer = compiled(nn.RGCN(8, 8, 3))
    yield lambda: layer(x, graph, out=torch._neg_view(torch.empty(50, 8)))
    yield lambda: layer(x, graph, out=torch.empty(50, 8))


@case("out has shape {} but the result has {} rows of {}: allocate that many elements")
def out_of_another_shape(x, edges, graph):
    layer = compiled(nn.RGCN(8, 8, 3))
    yield lambda: layer(x, graph, out=torch.empty(50, 7))
    yield lambda: layer(x, graph, out=torch.empty(400))


@case("out shares memory with {}, which is read while out is written: give a tensor of its own")
def out_is_the_input(x, edges, graph):
    layer = compiled(nn.RGCN(8, 8, 3))
    yield lambda: layer(x, graph, out=x)
    yield lambda: layer(x, graph, out=torch.empty_like(x))


@case(
    "the module is on {} but x and the graph are on {}: move them to one device, and "
    "compile the module there"
)
def a_module_elsewhere(x, edges, graph):
    layer = compiled(nn.RGCN(8, 8, 3))
    layer.to("meta")
    yield lambda: layer(x, graph)
    layer.to_empty(device="cpu")
    yield lambda: layer(x, graph, variant=hetune.compile(layer).variants[0])


@case("{} is on {} but the graph is on {}: move one of them")
def features_elsewhere(x, edges, graph):
    layer = compiled(nn.RGCN(8, 8, 3))
    yield lambda: layer.module(x.to("meta"), graph)
    yield lambda: run(layer, x, graph)


@case(
    "{} has flow='target_to_source', which no layer of hetune.nn has: turn the edges "
    "round, and make it with flow='source_to_target'"
)
def a_reversed_layer_of_the_package(x, edges, graph):
    theirs = geometric.RGCNConv(8, 8, 3, flow="target_to_source")
    yield lambda: nn.from_pyg(theirs)
    forward = geometric.RGCNConv(8, 8, 3, flow="source_to_target")
    forward.load_state_dict(theirs.state_dict())
    expected = theirs(x, *edges)
    turned = edges[0].flip(0), edges[1]
    yield lambda: torch.testing.assert_close(nn.from_pyg(forward)(x, *turned), expected)


@case("give num_bases or num_blocks, not both")
def bases_and_blocks(x, edges, graph):
    yield lambda: nn.RGCN(8, 8, 3, num_bases=2, num_blocks=2)
    yield lambda: [nn.RGCN(8, 8, 3, num_bases=2), nn.RGCN(8, 8, 3, num_blocks=2)]


@case("{} is {}: give an integer of at least {}")
def a_width_of_nothing(x, edges, graph):
    yield lambda: nn.RGCN(0, 8, 3)
    yield lambda: nn.RGCN(1, 8, 3)


@case(
    "metadata is {}: give names of node types and (source type, relation, destination "
    "type) of edge types, as HeteroGraph.metadata() does"
)
def metadata_of_nothing(x, edges, graph):
    yield lambda: nn.HGT(8, 8, (["a"], ["r"]))
    yield lambda: run(compiled(nn.HGT(8, 8, graph.metadata())), x, graph)
