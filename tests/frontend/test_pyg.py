"""Adapted PyG layers: their programs in float64 against PyG itself, and what is refused."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch._subclasses import FakeTensorMode

from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Adapter, Unsupported
from hetune.variants.graph import from_edge_index_dict
from hetune.variants.program.interpret import interpret

from .conftest import METADATA, NUM_RELATIONS

geometric = pytest.importorskip("torch_geometric.nn")
RGCNConv, FastRGCNConv = geometric.RGCNConv, geometric.FastRGCNConv
RGATConv, HGTConv = geometric.RGATConv, geometric.HGTConv

TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}


def double_adapter(conv) -> Adapter:
    """Adapts a float32 module, then makes it float64 with parameters that are nowhere trivial."""
    adapter = adapt(conv)
    assert isinstance(adapter, Adapter), adapter
    draw = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in conv.double().parameters():
            values = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
            parameter.copy_(values / 2)
    return adapter


def check_flat(conv, graph):
    adapter = double_adapter(conv)
    assert adapter.signature == "flat"
    assert adapter.num_relations == NUM_RELATIONS
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(graph.num_nodes, 8, generator=draw, dtype=torch.float64)
    edge_index = torch.stack([graph.src.long(), graph.dst.long()])
    if adapter.is_reversed:
        edge_index = edge_index.flip(0)
    with torch.no_grad():
        expected = conv(x, edge_index, graph.etype.long())
    rows = x.view(-1, *adapter.program.type_of("x").shape)
    found = interpret(adapter.program, {**adapter.weights(), "x": rows}, graph)
    torch.testing.assert_close(found.flatten(1), expected, **TOLERANCE)


RGCN_OPTIONS = [
    {"aggr": "mean"},
    {"aggr": "add"},
    {"aggr": "sum", "root_weight": False},
    {"bias": False},
    {"root_weight": False, "bias": False},
    {"num_bases": 3},
    {"num_bases": 3, "aggr": "add"},
    {"num_blocks": 2},
    {"num_blocks": 4, "aggr": "add", "bias": False},
    {"num_blocks": 1},
    {"flow": "target_to_source"},
    {"in_channels": (8, 8)},
]


@pytest.mark.parametrize("conv", [RGCNConv, FastRGCNConv])
@pytest.mark.parametrize("options", RGCN_OPTIONS, ids=str)
def test_rgcn(conv, options, graph):
    check_flat(conv(**{"in_channels": 8, "out_channels": 4, **options, "num_relations": 5}), graph)


RGAT_OPTIONS = [
    {"attention_mechanism": mechanism, "heads": heads, **more}
    for (mechanism, heads), more in itertools.product(
        itertools.product(("across-relation", "within-relation"), (1, 2, 4)),
        ({}, {"num_bases": 2, "bias": False}, {"num_blocks": 2, "negative_slope": 0.5}),
    )
] + [{"concat": False}, {"flow": "target_to_source", "heads": 2}, {"dropout": 0.5}]


@pytest.mark.parametrize("options", RGAT_OPTIONS, ids=str)
def test_rgat(options, graph):
    check_flat(RGATConv(8, 4, NUM_RELATIONS, **options).eval(), graph)


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("width", [8, 4], ids=["skip", "no_skip"])
def test_hgt(heads, width, typed_graph):
    x_dict, edge_index_dict = typed_graph
    conv = HGTConv(8, width, METADATA, heads=heads)
    adapter = double_adapter(conv)
    assert (adapter.signature, adapter.metadata) == ("hetero", METADATA)
    with torch.no_grad():
        expected = conv(x_dict, edge_index_dict)
    graph = from_edge_index_dict(edge_index_dict, x_dict=x_dict, metadata=METADATA)
    x = torch.cat([x_dict[name] for name in graph.ntype_names])
    found = interpret(adapter.program, {**adapter.weights(), "x": x}, graph).split(
        [x_dict[name].shape[0] for name in graph.ntype_names]
    )
    found = dict(zip(graph.ntype_names, found, strict=True))
    assert set(adapter.result_types) == set(expected)
    for name in adapter.result_types:
        torch.testing.assert_close(found[name], expected[name], **TOLERANCE)


def test_hgt_returns_what_edges_lead_to():
    metadata = (["a", "b"], [("a", "to", "b")])
    adapter = adapt(HGTConv(8, 8, metadata))
    assert adapter.result_types == ("b",)


class OwnRGCN(RGCNConv):
    """May compute anything."""


def hooked():
    conv = RGCNConv(4, 4, 2)
    conv.register_forward_hook(lambda *_: None)
    return conv


def replaced():
    conv = RGCNConv(4, 4, 2)
    conv.message = lambda x_j: x_j
    return conv


def with_part(conv, name, part):
    """The layer, with a part of it replaced."""
    owner, _, own_name = name.rpartition(".")
    setattr(conv.get_submodule(owner), own_name, part)
    return conv


def plain(conv, name):
    """The layer, with a plain tensor in place of a parameter."""
    owner, _, own_name = name.rpartition(".")
    part = conv.get_submodule(owner)
    weight = getattr(part, own_name).detach()
    delattr(part, own_name)
    setattr(part, own_name, 2 * weight)
    return conv


def own_method(name, part=""):
    conv = HGTConv(4, 4, METADATA)
    setattr(conv.get_submodule(part), name, lambda *_: None)
    return conv


LINS = "kqv_lin.lins.paper"
MULTIPLICATIVE = "multiplicative-self-attention"
REFUSED = [
    (lambda: torch.nn.Linear(3, 3), "modules of type torch.nn.modules.linear.Linear are not"),
    (lambda: OwnRGCN(4, 4, 2), "it is traced by its first call"),
    (lambda: RGCNConv(4, 4, 2, aggr="max"), "aggr='max': 'add' and 'mean' are supported"),
    (lambda: RGCNConv((4, 3), 4, 2), "in_channels=(4, 3): source and destination widths differ"),
    (lambda: RGCNConv(4, 0, 2), "out_channels=0: widths of at least 1 are supported"),
    (lambda: FastRGCNConv((0, 0), 4, 2), "in_channels=0: widths of at least 1 are supported"),
    (lambda: RGATConv(0, 4, 2), "in_channels=0: widths of at least 1 are supported"),
    (lambda: RGCNConv(4, 4, 2).double(), "weight is float64, not float32"),
    (lambda: RGCNConv(4, 4, 2, decomposed_layers=2), "decomposed_layers=2"),
    (hooked, "hooks are registered on it (_forward_hooks)"),
    (replaced, "its method 'message' was replaced"),
    (
        lambda: RGATConv(4, 4, 2, attention_mode=MULTIPLICATIVE),
        f"attention_mode='{MULTIPLICATIVE}'",
    ),
    (lambda: RGATConv(4, 4, 2, attention_mode=MULTIPLICATIVE, dim=2), "attention_mode="),
    (lambda: RGATConv(4, 4, 2, mod="additive"), "mod='additive'"),
    (lambda: RGATConv(4, 4, 2, edge_dim=3), "edge_dim=3: edge features are not supported"),
    (lambda: RGATConv(4, 4, 2, heads=2, concat=False), "concat=False with heads=2"),
    (lambda: RGATConv(4, 4, 2, dropout=1.5), "dropout=1.5"),
    (lambda: RGATConv(4, 4, 2, aggr="mean"), "aggr='mean': only 'add' is supported"),
    (lambda: HGTConv(-1, 4, METADATA), "lazy parameters are not initialized yet: call the module"),
    (
        lambda: HGTConv({"paper": 40, "author": 4, "venue": 2}, 4, METADATA),
        "in_channels={'paper': 40, 'author': 4, 'venue': 2}: widths differ much between node types",
    ),
    (lambda: HGTConv(4, 4, METADATA, flow="target_to_source"), "flow='target_to_source'"),
    (
        lambda: with_part(RGCNConv(4, 4, 2), "aggr_module", geometric.MaxAggregation()),
        "aggr_module is a MaxAggregation: only a MeanAggregation is supported",
    ),
    (
        lambda: with_part(RGCNConv(4, 4, 2, aggr="add"), "aggr_module", None),
        "aggr_module is a NoneType: only a SumAggregation is supported",
    ),
    (
        lambda: with_part(RGATConv(4, 4, 2), "aggr_module", geometric.MeanAggregation()),
        "aggr_module is a MeanAggregation: only a SumAggregation is supported",
    ),
    (
        lambda: with_part(HGTConv(4, 4, METADATA), "aggr_module", geometric.MinAggregation()),
        "aggr_module is a MinAggregation: only a SumAggregation is supported",
    ),
    (
        lambda: with_part(
            HGTConv(4, 4, METADATA), LINS, torch.nn.Sequential(torch.nn.Linear(4, 12))
        ),
        f"{LINS} is a Sequential: only a Linear is supported",
    ),
    (
        lambda: with_part(HGTConv(4, 4, METADATA), LINS, torch.nn.Linear(4, 12, bias=False)),
        f"{LINS} has no bias: give it one",
    ),
    (
        lambda: with_part(HGTConv(4, 4, METADATA), "kqv_lin", torch.nn.Identity()),
        "kqv_lin is a Identity: only a HeteroDictLinear is supported",
    ),
    (
        lambda: with_part(HGTConv(4, 4, METADATA), "v_rel", geometric.HeteroLinear(4, 4, 5)),
        "v_rel has a bias",
    ),
    (lambda: plain(RGCNConv(4, 4, 2), "weight"), "weight is a plain tensor, not a parameter"),
    (lambda: plain(HGTConv(4, 4, METADATA), f"{LINS}.bias"), f"{LINS}.bias is a plain tensor"),
    (lambda: own_method("propagate"), "its method 'propagate' was replaced"),
    (lambda: own_method("forward", LINS), f"the forward() of {LINS} was replaced"),
]


@pytest.mark.parametrize(("make", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_refused(make, reason):
    found = adapt(make())
    assert isinstance(found, Unsupported)
    assert found.reason.startswith(reason)


def test_a_change_of_mode_is_noticed_later():
    conv = RGATConv(4, 4, 2, dropout=0.5).eval()
    adapter = adapt(conv)
    assert adapter.refusal() is None
    assert adapter.mode_refusal() is None
    assert adapt(conv.train()).dropout == {"mask": 0.5}
    assert adapter.mode_refusal().kind == ("mode", 0.5)
    conv.eval().half()
    assert adapter.refusal().endswith("is float16, not float32")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda conv: plain(conv, "k_rel.weight"), "k_rel.weight is a plain tensor, not a param"),
        (lambda conv: plain(conv, f"{LINS}.bias"), f"{LINS}.bias is a plain tensor, not a param"),
        (
            lambda conv: setattr(conv.get_submodule(LINS), "bias", None),
            f"{LINS}.bias was removed: compile it anew",
        ),
        (
            lambda conv: setattr(conv.get_submodule(LINS), "forward", torch.relu),
            f"the forward() of {LINS} was replaced",
        ),
        (lambda conv: setattr(conv, "propagate", None), "its method 'propagate' was replaced"),
    ],
    ids=["weight", "bias", "removed", "forward", "propagate"],
)
def test_a_change_of_what_it_consists_of_is_noticed_later(change, reason):
    conv = HGTConv(4, 4, METADATA)
    adapter = adapt(conv)
    change(conv)
    assert adapter.refusal().startswith(reason)


def test_a_layer_that_was_explained_is_taken_again():
    conv = RGCNConv(4, 4, 2)
    adapter = adapt(conv)
    conv.explain = True
    assert adapter.refusal() == adapt(conv).reason == "explain mode is on"
    conv.explain = False
    assert "propagate" in vars(conv)
    assert adapter.refusal() is None
    assert isinstance(adapt(conv), Adapter)


def test_lazy_layers_are_taken_once_they_know_their_width():
    conv = HGTConv(-1, 4, METADATA)
    x_dict = {name: torch.randn(3, 6) for name in METADATA[0]}
    edges = {key: torch.zeros(2, 1, dtype=torch.long) for key in METADATA[1]}
    conv(x_dict, edges)
    assert adapt(conv).program.type_of("x").shape == (6,)


def test_weights_share_memory_where_layouts_agree():
    conv = RGATConv(8, 4, 3, heads=2)
    weights = adapt(conv).weights()
    assert weights["w"].data_ptr() == weights["w_flat"].data_ptr() == conv.weight.data_ptr()
    assert not any(weight.requires_grad for weight in weights.values())
    assert all(weight.is_contiguous() for weight in weights.values())


def test_parameters_version_changes_with_every_write_and_replacement():
    conv = RGCNConv(4, 4, 2)
    adapter = adapt(conv)
    seen = [adapter.parameters_version()]
    assert adapter.parameters_version() == seen[0]
    with torch.no_grad():
        conv.weight.add_(1)
    seen.append(adapter.parameters_version())
    conv.weight = torch.nn.Parameter(torch.ones_like(conv.weight))
    seen.append(adapter.parameters_version())
    conv.bias.data = torch.ones(4)
    seen.append(adapter.parameters_version())
    conv.load_state_dict(conv.state_dict())
    seen.append(adapter.parameters_version())
    conv.root.data = conv.root.data.t()
    seen.append(adapter.parameters_version())
    assert len(set(seen)) == 6
    assert adapter.parameters_version() == seen[-1]
    conv(torch.ones(2, 4), torch.zeros(2, 1, dtype=torch.long), torch.zeros(1, dtype=torch.long))
    assert adapter.parameters_version() == seen[-1]


def test_node_types_without_a_width_are_refused():
    metadata = (["a", "b"], [("a", "x", "a")])
    found = adapt(HGTConv({"a": 4}, 4, metadata, 2))
    assert found.reason == "in_channels has no width for the node types b"
    assert adapt(RGATConv(4, 4, 3, negative_slope=math.inf)).reason == "negative_slope=inf"


def test_an_aggregation_that_is_replaced_is_noticed():
    conv = RGCNConv(4, 4, 2)
    adapter = adapt(conv)
    assert adapter.refusal() is None
    conv.aggr_module = geometric.aggr.SumAggregation()
    assert adapter.refusal() == "aggr_module was replaced: compile it anew"


def test_parts_and_methods_that_are_replaced_are_noticed():
    def adapted():
        conv = HGTConv(4, 4, METADATA, 2)
        return conv, adapt(conv)

    conv, adapter = adapted()
    assert adapter.refusal() is None
    name = METADATA[0][0]
    conv.out_lin.lins[name] = geometric.Linear(4, 4)
    assert adapter.refusal() == f"out_lin.lins.{name} was replaced: compile it anew"
    conv, adapter = adapted()
    conv.kqv_lin = geometric.HeteroDictLinear(dict.fromkeys(METADATA[0], 4), 12)
    assert adapter.refusal() == "kqv_lin was replaced: compile it anew"
    conv, adapter = adapted()
    conv.message = lambda **_: None
    assert adapter.refusal() == "its method 'message' was replaced"


def test_parameters_without_memory_are_refused():
    conv = RGCNConv(4, 4, 2)
    with FakeTensorMode(allow_non_fake_inputs=True):
        conv.bias = torch.nn.Parameter(torch.zeros(4))
    assert adapt(conv) == Unsupported("a parameter is a FakeTensor, which has no memory")


def test_parameters_of_inference_mode_are_compared_whole():
    with torch.inference_mode():
        conv = RGCNConv(4, 4, 2)
    adapter = adapt(conv)
    seen = adapter.parameters_version()
    assert adapter.parameters_version() is seen
    with torch.inference_mode():
        conv.weight[1, 2, 3] += 1
        assert adapter.parameters_version() is not seen
