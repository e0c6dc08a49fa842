"""The index that torch's operators build is the one that the native routines build."""

import pytest
import torch

from hetune.variants.errors import InputError
from hetune.variants.graph.device_index import DeviceIndex
from hetune.variants.graph.index import GraphIndex
from hetune.variants.testing.graphs import AWKWARD

CPU = torch.device("cpu")
ARRAYS = (
    "edge_id position src dst etype indptr in_degree csc_indptr "
    "dst_pair_of_edge dst_pair_indptr dst_pair_node dst_pair_etype dst_pair_count "
    "node_dst_pair_indptr src_pair_of_edge src_pair_node src_pair_etype src_pair_etype_ptr"
)
COUNTS = ["num_edges", "num_nodes", "num_etypes", "num_dst_pairs", "num_src_pairs"]


@pytest.mark.parametrize("which", [None, (), (0,), (2, 0)], ids=str)
@pytest.mark.parametrize("name", AWKWARD)
def test_every_array_is_equal(name, which):
    graph = AWKWARD[name]()
    if which:
        which = tuple(r for r in which if r < graph.num_etypes)
    native, built = GraphIndex.of(graph, which), DeviceIndex.on(graph, CPU, which)
    for attribute in ARRAYS.split():
        expected, found = getattr(native, attribute), getattr(built, attribute)
        assert found.dtype is expected.dtype, attribute
        assert torch.equal(found, expected), attribute
    for attribute in COUNTS:
        assert getattr(built, attribute) == getattr(native, attribute), attribute
    for attribute in ("edges", "src_pairs", "dst_pairs"):
        expected = getattr(native.relation_stats, attribute)
        assert (getattr(built.relation_stats, attribute) == expected).all()


@pytest.mark.parametrize("end", ["src", "dst"])
def test_nodes_with_and_without_edges(end):
    graph = AWKWARD["isolated nodes"]()
    built = DeviceIndex.on(graph, CPU)
    chosen = built.nodes_with_edges(end)
    assert torch.equal(chosen, GraphIndex.of(graph).nodes_with_edges(end))
    both = torch.cat((chosen, built.nodes_without_edges(end)))
    assert torch.equal(both.sort().values, torch.arange(graph.num_nodes, dtype=torch.int32))
    with pytest.raises(InputError, match="no end 'all'"):
        built.nodes_with_edges("all")


def test_it_is_built_once_and_knows_its_graph():
    graph = AWKWARD["one relation"]()
    built = DeviceIndex.on(graph, CPU, (0,))
    assert DeviceIndex.on(graph, CPU, (0, 0)) is built
    assert built.whole is DeviceIndex.on(graph, CPU)
    assert built.graph is graph
    assert not built.build_seconds
    assert built.num_src_pairs
    assert built.build_seconds.keys() == {"src_pairs"}
