"""Chunks hold each row once, with those of its type, and few of them are terms."""

import numpy as np
import pytest

from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.type_chunks import (
    edgewise_chunks,
    most_chunks,
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


def test_wide_sums_have_fewer_terms():
    assert [most_chunks(width) for width in (1, 64 * 64, 1 << 17, 1 << 30)] == [128, 128, 32, 16]
