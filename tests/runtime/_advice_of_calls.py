"""Advice that is about what a layer is called with."""

from __future__ import annotations

import pytest
import torch

import hetune
from hetune import nn
from hetune.variants.graph.convert.edge_index_dict import to_edge_index_dict

from ._advice import by_type, case, compiled, run

geometric = pytest.importorskip("torch_geometric.nn")


@case("{} is {}: {}")
def features_of_another_dtype(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    yield lambda: layer(x.double(), graph, variant=layer.variants[0])
    yield lambda: run(layer, x.double().float(), *edges)


@case("{} is a nested tensor: {}")
def nested_features(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    nested = torch.nested.nested_tensor(list(x.split(1)), layout=torch.jagged)
    yield lambda: layer(nested, graph, variant=layer.variants[0])
    yield lambda: run(layer, nested.values(), *edges)


@case("edge_type is {}: only tensors of {} are supported")
def no_edge_types(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    yield lambda: layer(x, edges[0], variant=layer.variants[0])
    yield lambda: run(layer, x, *edges)


@case("{} is {}: only tensors [2, E] of {} are supported")
def edges_that_are_no_integers(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    yield lambda: layer(x, edges[0].float(), edges[1], variant=layer.variants[0])
    yield lambda: run(layer, x, *edges)


@case("x is a tensor but the edges are {}: give a HeteroGraph")
def a_tensor_with_a_dictionary(x, edges, graph):
    layer = compiled(geometric.HGTConv(8, 8, graph.metadata()))
    yield lambda: layer(x, to_edge_index_dict(graph))
    yield lambda: run(layer, x, graph)


@case(
    "edge_index_dict has its edge types in another order than the layer's metadata, and "
    "HGTConv takes another edge type's weights then: give them in the metadata's order"
)
def edge_types_in_another_order(x, edges, graph):
    metadata = graph.metadata()
    layer = compiled(geometric.HGTConv(8, 8, metadata))
    rows, edge_dict = by_type(x, graph)
    yield lambda: layer(rows, dict(reversed(edge_dict.items())))
    yield lambda: run(layer, rows, {key: edge_dict[key] for key in metadata[1]})


@case("edge_type is missing: give a type for each edge, or a HeteroGraph")
def an_own_layer_without_edge_types(x, edges, graph):
    layer = compiled(nn.RGCN(8, 8, 3))
    yield lambda: layer.module(x, edges[0])
    yield lambda: (run(layer, x, *edges), run(layer, x, graph))


@case(
    "the original module takes no HeteroGraph: give it the edge tensors, or meet the "
    "reason that the warning names"
)
def a_graph_for_the_original(x, edges, graph):
    layer = compiled(geometric.HGTConv(8, 8, graph.metadata()))
    rows, edge_dict = by_type(x, graph)
    layer.double()
    yield lambda: layer(x.double(), graph)
    layer({name: each.double() for name, each in rows.items()}, edge_dict)
    layer.float()
    yield lambda: run(layer, rows, graph)


RELATIONS = (
    "the graph has {} edge types but the layer was made for {}: make it with num_relations={}"
)


@case(RELATIONS)
def a_graph_of_more_relations(x, edges, graph):
    more = hetune.HeteroGraph(graph.src, graph.dst, graph.etype, num_etypes=5, num_nodes=50)
    yield lambda: compiled(geometric.RGCNConv(8, 8, 3))(x, more)
    yield lambda: run(compiled(geometric.RGCNConv(8, 8, num_relations=5)), x, more)


@case("the graph's {} are not those that the layer is for: it {}; {}")
def a_graph_of_other_types(x, edges, graph):
    named = {"relations": ["likes", "hates", "knows"]}
    layer = hetune.compile(geometric.RGCNConv(8, 8, 3), vocabulary=named)
    columns = graph.src, graph.dst, graph.etype
    other = hetune.HeteroGraph(*columns, etype_names=["knows", "likes", "sees"], num_nodes=50)
    yield lambda: layer(x, other)
    mended = hetune.HeteroGraph(*columns, etype_names=["knows", "likes", "hates"], num_nodes=50)
    yield lambda: run(layer, x, mended)


@case("the graph's relation {} leads from {} to {}, and the layer's from {} to {}: {}")
def a_graph_of_relations_between_other_types(x, edges, graph):
    layer = hetune.compile(geometric.HGTConv(8, 8, graph.metadata()))
    relations = [relation for _, relation, _ in graph.canonical_etypes]
    columns = graph.dst, graph.src, graph.etype, graph.ntype
    named = {"ntype_names": graph.ntype_names, "etype_names": relations}
    yield lambda: layer(x, hetune.HeteroGraph(*columns, **named))
    mended = hetune.HeteroGraph(graph.src, graph.dst, *columns[2:], **named)
    yield lambda: run(layer, x, mended)


@case("the vocabulary has no relations: name the layer's edge types, in order")
def a_vocabulary_without_relations(x, edges, graph):
    layer = geometric.RGCNConv(8, 8, 3)
    yield lambda: hetune.compile(layer, vocabulary={"node_types": ["a"]})
    yield lambda: run(hetune.compile(layer, vocabulary=graph), x, graph)


@case(
    "the vocabulary has {} relations but the layer was made for {}: name all of its edge types, "
    "in order"
)
def a_vocabulary_of_fewer_relations(x, edges, graph):
    layer = geometric.RGCNConv(8, 8, 3)
    yield lambda: hetune.compile(layer, vocabulary={"relations": ["a"]})
    yield lambda: run(hetune.compile(layer, vocabulary=graph), x, graph)


@case(
    "the vocabulary's {} are {} but the layer's metadata has {}: give them in the layer's order, "
    "or leave vocabulary out"
)
def a_vocabulary_in_another_order(x, edges, graph):
    layer = geometric.HGTConv(8, 8, graph.metadata())
    names = graph.vocabulary().as_dict()
    names["canonical_etypes"].reverse()
    yield lambda: hetune.compile(layer, vocabulary=names)
    yield lambda: run(hetune.compile(layer), x, graph)


ROWS = "x has the shape {}: give one row of {} for each of the graph's {} nodes"


@case(ROWS)
def too_few_rows(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    yield lambda: layer(x[1:], graph)
    yield lambda: run(layer, torch.randn(50, 8), graph)


@case("x has {} rows for the node type {} but the graph has {} such nodes: give one row per node")
def too_few_rows_of_a_type(x, edges, graph):
    layer = compiled(geometric.HGTConv(8, 8, graph.metadata()))
    rows, _ = by_type(x, graph)
    first = next(iter(rows))
    yield lambda: layer({**rows, first: rows[first][1:]}, graph)
    yield lambda: run(layer, rows, graph)


@case("x has the shape {} for the node type {}: give rows of {}")
def rows_of_another_width(x, edges, graph):
    layer = compiled(geometric.HGTConv(8, 8, graph.metadata()))
    rows, edge_dict = by_type(x, graph)
    first = next(iter(rows))
    yield lambda: layer({**rows, first: rows[first][:, 1:]}, edge_dict)
    yield lambda: run(layer, rows, edge_dict)


# Edges in the words of PyG's calls.

END = "{}[{}, {}] is {}, but {} has {} rows: {}"
ETYPE = "edge_type[{}] is {}, but the layer was made for {} relations (types 0..{}): {}"


@case(ETYPE)
def a_type_too_many(x, edges, graph):
    edge_type = edges[1].clone()
    edge_type[7] = 4
    yield lambda: compiled(geometric.RGCNConv(8, 8, 3))(x, edges[0], edge_type)
    yield lambda: run(compiled(geometric.RGCNConv(8, 8, num_relations=5)), x, edges[0], edge_type)


@case(ETYPE)
def a_type_below_zero(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    yield lambda: layer(x, edges[0], edges[1] - 1)
    yield lambda: run(layer, x, *edges)


@case("edge_type has shape {} but edge_index has {} edges: give one type for each edge, shape [{}]")
def a_type_too_few(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    yield lambda: layer(x, edges[0], edges[1][1:])
    yield lambda: run(layer, x, *edges)


@case(END)
def an_edge_to_no_row(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    yield lambda: layer(x, edges[0] + 1, edges[1])
    yield lambda: run(layer, torch.randn(51, 8), edges[0] + 1, edges[1])


@case(END)
def an_edge_below_zero(x, edges, graph):
    layer = compiled(geometric.RGCNConv(8, 8, 3))
    yield lambda: layer(x, edges[0] - 50, edges[1])
    yield lambda: run(layer, x, *edges)


@case(END)
def an_edge_of_a_type_to_no_row(x, edges, graph):
    layer = compiled(geometric.HGTConv(8, 8, graph.metadata()))
    rows, edge_dict = by_type(x, graph)
    wrong = {key: ids + 30 for key, ids in edge_dict.items()}
    yield lambda: layer(rows, wrong)
    more = {name: torch.randn(part.shape[0] + 30, 8) for name, part in rows.items()}
    yield lambda: run(layer, more, wrong)


@case(
    "edge_index_dict has the key {}, but the layer was made for the edge types {}: leave "
    "it out, or make the layer with metadata that has it"
)
def edges_of_an_unknown_type(x, edges, graph):
    ntypes, etypes = graph.metadata()
    rows, edge_dict = by_type(x, graph)
    layer = compiled(geometric.HGTConv(8, 8, (ntypes, etypes[1:])))
    yield lambda: layer(rows, edge_dict)
    known = {key: edge_dict[key] for key in etypes[1:]}
    anew = compiled(geometric.HGTConv(8, 8, (ntypes, etypes)))
    yield lambda: (run(layer, rows, known), run(anew, rows, edge_dict))


@case("out= is for rows that a program returns, and torch makes others of them: leave it out")
def memory_for_what_torch_makes(x, edges, graph):
    layer = compiled(geometric.MixHopConv(8, 8, [0, 1]))
    yield lambda: layer(x, edges[0], out=torch.empty(len(x), 16))
    yield lambda: run(layer, x, edges[0])
