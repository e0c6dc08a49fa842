"""Advice that is about a layer."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn.utils import parametrize

import hetune
from hetune import nn

from ._advice import by_type, case, compiled, run

geometric = pytest.importorskip("torch_geometric.nn")


@case(
    "weights are parametrized: torch.nn.utils.parametrize.remove_parametrizations makes "
    "them parameters again"
)
def parametrized(x, edges, graph):
    layer = nn.RGCN(8, 8, 3)
    parametrize.register_parametrization(layer, "weight", torch.nn.Identity())
    made = []
    yield lambda: made.append(compiled(layer))
    yield lambda: (parametrize.remove_parametrizations(layer, "weight"), run(made[0], x, graph))


@case("{} has dropout={}, which no layer of hetune.nn has: call eval() for inference")
def dropout(x, edges, graph):
    layer = geometric.RGATConv(8, 8, 3, dropout=0.5)
    yield lambda: nn.from_pyg(layer)
    yield lambda: run(compiled(nn.from_pyg(layer.eval())), x, graph)


@case("{} is {}, and was {} when it was compiled: compile it anew")
def option_changed(x, edges, graph):
    layer = compiled(geometric.RGATConv(8, 8, 3))
    layer.negative_slope = 0.9
    yield lambda: layer(x, *edges)
    yield lambda: run(hetune.compile(layer), x, *edges)


@case("{} was replaced: compile it anew")
def part_replaced(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    layer.aggr_module = copy.deepcopy(layer.aggr_module)
    yield lambda: layer(x, *edges)
    yield lambda: run(hetune.compile(layer), x, *edges)


@case("{} was {}: compile it anew")
def bias_removed(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    layer.bias = None
    yield lambda: layer(x, *edges)
    yield lambda: run(hetune.compile(layer), x, *edges)


@case("its module was replaced: compile it anew")
def module_replaced(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    layer.module = geometric.RGATConv(8, 8, 3)
    yield lambda: layer(x, *edges)
    yield lambda: run(hetune.compile(layer), x, *edges)


PLAIN = (
    "{} is a plain tensor, not a parameter: assign a torch.nn.Parameter, or register it as a buffer"
)


@case(PLAIN)
def plain_tensor_to_parameter(x, edges, graph):
    layer, made = geometric.RGCNConv(8, 8, 3), []
    weight = layer.weight.detach()
    del layer.weight
    layer.weight = weight
    yield lambda: made.append(compiled(layer))
    del layer.weight
    layer.weight = torch.nn.Parameter(weight)
    yield lambda: run(made[0], x, *edges)


@case(PLAIN)
def plain_tensor_to_buffer(x, edges, graph):
    layer, made = geometric.RGCNConv(8, 8, 3), []
    weight = layer.weight.detach()
    del layer.weight
    layer.weight = weight
    yield lambda: made.append(compiled(layer))
    del layer.weight
    layer.register_buffer("weight", weight)
    yield lambda: run(made[0], x, *edges)


@case("lazy parameters are not initialized yet: call the module once")
def lazy(x, edges, graph):
    layer, made = geometric.HGTConv(-1, 8, graph.metadata()), []
    yield lambda: made.append(compiled(layer))
    yield lambda: (made[0](*by_type(x, graph)), run(made[0], *by_type(x, graph)))


@case("{} is {}, not float32")
def another_dtype(x, edges, graph):
    made = []
    yield lambda: made.append(compiled(geometric.RGCNConv(8, 8, 3).double()))
    yield lambda: (made[0].float(), run(made[0], x, *edges))


@case("hooks are registered on {} ({})")
def hooked(x, edges, graph):
    layer, made = geometric.RGCNConv(8, 8, 3), []
    handle = layer.register_forward_hook(lambda *given: None)
    yield lambda: made.append(compiled(layer))
    yield lambda: (handle.remove(), run(made[0], x, *edges))


@case("gradients are needed, and {}: torch.no_grad() is for inference")
def gradients(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    layer.module.register_full_backward_hook(lambda *_: None)
    yield lambda: torch.enable_grad()(layer)(x, *edges)
    yield lambda: run(layer, x, *edges)


@case("{} cannot be honored, for the call runs in the original module: {}")
def demands(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    layer.double()
    yield lambda: layer(x, *edges, memory_limit=10**9)
    layer.float()
    yield lambda: (layer(x, *edges, memory_limit=10**9), run(layer, x, *edges))


@case("this call runs in the original module: {}")
def nothing_to_explain(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    layer.double()
    yield lambda: layer.explain(x, *edges)
    layer.float()
    yield lambda: layer.explain(x, *edges)


@case(
    "{} has no layer that passes messages, but {}: give a layer of hetune.nn or PyG, or a model "
    "with such layers"
)
def no_layer(x, edges, graph):
    yield lambda: hetune.compile(torch.nn.Sequential(torch.nn.Linear(8, 8)))
    yield lambda: run(hetune.compile(geometric.RGCNConv(8, 8, 3), backend="torch"), x, *edges)
