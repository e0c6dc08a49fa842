"""Chunks hold each row once, with those of its type, and few of them are terms."""

import numpy as np
import pytest
import torch

from hetune.variants.graph import type_chunks
from hetune.variants.graph.cuts import row_groups
from hetune.variants.graph.edge_batch import BatchIndex, EdgeBatch
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.row_groups import cut_by_type
from hetune.variants.graph.type_chunks import (
    edgewise_chunks,
    most_chunks,
    most_terms,
    node_chunks,
    num_terms,
)
from hetune.variants.kernel.nodes import Rows
from hetune.variants.program.nodes import Space
from hetune.variants.runtime.domain import Domain
from hetune.variants.testing.graphs import AWKWARD

EDGEWISE = ("edge", "src_pair", "dst_pair")


def check(chunks, types, num_types, counted, most):
    rows, ptr, etype, _ = (array.numpy() for array in chunks.groups)
    assert np.array_equal(np.sort(rows), np.arange(len(types)))
    assert np.array_equal(np.repeat(etype, np.diff(ptr)), types[rows])
    of_type = np.diff(chunks.type_ptr.numpy())
    assert np.array_equal(of_type, np.bincount(etype, minlength=num_types))
    is_term = of_type[etype] > 1
    terms = chunks.terms.numpy()
    assert np.array_equal(terms >= 0, is_term)
    assert np.array_equal(terms[is_term], np.arange(is_term.sum()))
    assert is_term.sum() == num_terms(counted, most)
    assert counted.sum() == len(types)


@pytest.mark.parametrize("by_type", [True, False])
@pytest.mark.parametrize(
    "name", ["no nodes", "hub of thousands of edges", "thousands of relations"]
)
def test_chunks(name, by_type):
    graph = AWKWARD[name]()
    index, domain, most = GraphIndex.of(graph), Domain(graph), most_chunks(1 << 20)
    for space in EDGEWISE:
        types = (index.etype if space == "edge" else getattr(index, f"{space}_etype")).numpy()
        counted = domain.rows_by_type(Rows(Space(space)), Space.ETYPE if by_type else Space.SHARED)
        count = graph.num_etypes if by_type else 1
        chunks = edgewise_chunks(index, space, by_type, most)
        check(chunks, types if by_type else types * 0, count, counted, most)
    types = graph.ntype.numpy()
    counted = domain.rows_by_type(Rows(Space.NODE), Space.NTYPE if by_type else Space.SHARED)
    chunks = node_chunks(graph, by_type, most)
    check(
        chunks, types if by_type else types * 0, graph.num_ntypes if by_type else 1, counted, most
    )


@pytest.mark.parametrize("relations", [1, 3, 2000])
def test_edges_that_are_replaced_are_grouped_by_type_again(relations):
    random = torch.Generator().manual_seed(0)
    types = torch.randint(relations, (700,), generator=random)
    ends = torch.zeros(700, dtype=torch.int64)
    batch = EdgeBatch(ends, ends, types, num_nodes=1, num_etypes=relations)
    index = BatchIndex.of_batch(batch)
    groups, chunks = row_groups(index, "edge", None), edgewise_chunks(index, "edge", True, 16)
    for now in (types.where(torch.arange(700) % 3 == 0, relations - 1), types.flip(0)):
        assert batch.replace_ids(ends, ends, now)
        assert batch.is_replaceable
        counts = now.bincount(minlength=relations).numpy()
        rows = now.argsort(stable=True).int()
        fresh, terms, type_ptr = type_chunks._cut(rows, counts, 16)
        assert torch.equal(chunks.type_ptr, type_ptr)
        assert torch.equal(chunks.terms[: len(terms)], terms)
        assert (chunks.terms[len(terms) :] == -1).all()
        assert (terms >= 0).sum() <= most_terms(700, 16)
        for found, wanted in ((groups, cut_by_type(rows, counts)), (chunks.groups, fresh)):
            for name, end in (("rows", 0), ("group_ptr", 700), ("group_etype", 0)):
                _check_starts(getattr(found, name), getattr(wanted, name), end)
            _check_starts(found.block_ptr, wanted.block_ptr, wanted.num_groups)


def _check_starts(found, wanted, end):
    assert torch.equal(found[: len(wanted)], wanted)
    assert (found[len(wanted) :] == end).all()


def test_wide_sums_have_fewer_terms():
    assert [most_chunks(width) for width in (1, 64 * 64, 1 << 17, 1 << 30)] == [128, 128, 32, 16]
