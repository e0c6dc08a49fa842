"""HeteroGraph: what it accepts, what it refuses, what it derives."""

import copy
import io
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hetune.variants.errors import GraphError
from hetune.variants.graph import HeteroGraph
from hetune.variants.graph.state import GraphSlot

MINE, OTHERS = GraphSlot[str, object](), GraphSlot[str, object]()
NUMBERS = GraphSlot[None, float]()


def ids(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def library() -> HeteroGraph:
    """Two people, three books; "likes" joins people to both."""
    return HeteroGraph(
        ids(0, 1, 0, 1),
        ids(2, 4, 1, 3),
        ids(0, 0, 1, 1),
        ids(0, 0, 1, 1, 1),
        ntype_names=["person", "book"],
        etype_names=["wrote", "likes"],
    )


@st.composite
def graphs(draw: st.DrawFn) -> HeteroGraph:
    types = draw(st.integers(1, 4))
    ntype = sorted(draw(st.lists(st.integers(0, types - 1), max_size=12)))
    relations = draw(st.integers(1, 5))
    edges = draw(st.integers(0, 30)) if ntype else 0
    nodes = st.integers(0, max(0, len(ntype) - 1))

    def column(values: st.SearchStrategy[int]) -> torch.Tensor:
        return ids(*draw(st.lists(values, min_size=edges, max_size=edges)))

    return HeteroGraph(
        column(nodes),
        column(nodes),
        column(st.integers(0, relations - 1)),
        ids(*ntype),
        num_etypes=relations,
        num_ntypes=types,
    )


def edge_set(graph: HeteroGraph) -> list[tuple[int, int, int]]:
    columns = (graph.src, graph.dst, graph.etype)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_counts_names_and_arrays():
    g = library()
    assert (g.num_nodes, g.num_edges, g.num_ntypes, g.num_etypes) == (5, 4, 2, 2)
    assert g.node_offsets == (0, 2, 5)
    assert all(a.dtype == torch.int32 and a.is_contiguous() for a in (g.src, g.dst, g.etype))
    assert g.ntype_names == ("person", "book")
    assert repr(g) == "HeteroGraph(num_nodes=5, num_edges=4, num_ntypes=2, num_etypes=2)"


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("convert", [lambda t: t, lambda t: t.numpy()], ids=["torch", "numpy"])
def test_accepts_every_integer_dtype(dtype: torch.dtype, convert: Callable):
    g = HeteroGraph(convert(ids(0, 3).to(dtype)), convert(ids(1, 2).to(dtype)))
    assert g.src.tolist() == [0, 3]
    assert g.num_nodes == 4
    assert g.ntype_names == ("node",)
    assert g.etype_names == ("0",)


def test_strided_read_only_and_byte_swapped_arrays():
    edges = np.array([[0, 1], [1, 2], [2, 0]])
    edges.setflags(write=False)
    swapped = edges[:, 1].astype(">i4")
    g = HeteroGraph(edges[:, 0], swapped)
    assert edge_set(g) == [(0, 1, 0), (1, 2, 0), (2, 0, 0)]
    columns = torch.from_numpy(edges.copy())
    assert edge_set(HeteroGraph(columns[:, 0], columns[:, 1])) == edge_set(g)


def test_later_writes_do_not_reach_the_graph():
    src = torch.tensor([0, 1], dtype=torch.int32)
    g = HeteroGraph(src, src)
    src.fill_(1_000_000)
    assert g.src.tolist() == [0, 1]
    g.validate()


def test_empty_graph_is_a_graph():
    g = HeteroGraph(ids(), ids())
    assert (g.num_nodes, g.num_edges, g.node_offsets) == (0, 0, (0, 0))
    assert g.metadata() == (["node"], [("node", "0", "node")])
    assert g.add_inverse().add_self_loops().canonicalize().num_etypes == 3
    assert len(g.fingerprint) == 32


BAD: dict[str, tuple[Callable[[], HeteroGraph], str]] = {
    "list": (lambda: HeteroGraph([0], ids(0)), r"src is a list: .*torch\.as_tensor\(src"),
    "float": (lambda: HeteroGraph(ids(0), torch.zeros(1)), r"dst has dtype torch\.float32: .*\.to"),
    "numpy float": (lambda: HeteroGraph(np.zeros(1), ids(0)), r"float64: .*src\.astype"),
    "bool": (lambda: HeteroGraph(torch.zeros(1, dtype=torch.bool), ids(0)), "torch.bool"),
    "rank": (lambda: HeteroGraph(ids(0)[None], ids(0)), r"shape \[1, 1\].*src=edge_index\[0\]"),
    "sparse": (lambda: HeteroGraph(ids(0, 1).to_sparse(), ids(0)), "src is a sparse tensor"),
    "negative": (
        lambda: HeteroGraph(ids(0, -3, -1), ids(0, 0, 0)),
        r"src\[1\] is -3, but the graph has 1 nodes \(ids 0\.\.0\): number them from 0",
    ),
    "too large": (
        lambda: HeteroGraph(ids(0, 0), ids(7, 9), num_nodes=8),
        r"dst\[1\] is 9, but the graph has 8 nodes \(ids 0\.\.7\): pass num_nodes=10 or more",
    ),
    "no nodes": (lambda: HeteroGraph(ids(0), ids(0), num_nodes=0), "the graph has 0 nodes: pass"),
    "wraps int32": (
        lambda: HeteroGraph(ids(2**32), ids(0), num_nodes=5),
        r"src\[0\] is 4294967296",
    ),
    "huge": (lambda: HeteroGraph(ids(2**40), ids(0)), "1099511627777 nodes.*number them"),
    "etype": (
        lambda: HeteroGraph(ids(0), ids(0), ids(2), etype_names=["a", "b"]),
        r"etype\[0\] is 2, but the graph has 2 edge types",
    ),
    "ntype range": (
        lambda: HeteroGraph(ids(0), ids(0), None, ids(0, 5), num_ntypes=2),
        r"ntype\[1\] is 5",
    ),
    "ntype order": (
        lambda: HeteroGraph(ids(0), ids(0), None, ids(0, 1, 0)),
        r"ntype\[2\] is 0 after 1: .*relabel nodes by type",
    ),
    "dst length": (
        lambda: HeteroGraph(ids(0), ids(0, 0)),
        "dst has 2 entries but src has 1: give one per edge",
    ),
    "etype length": (lambda: HeteroGraph(ids(0), ids(0), ids(0, 0)), "etype has 2 entries"),
    "ntype length": (
        lambda: HeteroGraph(ids(0), ids(0), None, ids(0), num_nodes=2),
        "ntype has 1 entries but num_nodes is 2",
    ),
    "names": (
        lambda: HeteroGraph(ids(0), ids(0), etype_names=["a"], num_etypes=2),
        "etype_names has 1 names but num_etypes is 2",
    ),
    "double name": (
        lambda: HeteroGraph(ids(0), ids(0), ntype_names=["a", "b", "a"]),
        "ntype_names holds 'a' twice",
    ),
    "count type": (lambda: HeteroGraph(ids(0), ids(0), num_nodes=2.0), "num_nodes is a float"),
    "negative count": (lambda: HeteroGraph(ids(), ids(), num_nodes=-1), "num_nodes is -1"),
    "triple": (
        lambda: HeteroGraph(ids(0), ids(0), canonical_etypes=["abc"]),
        r"canonical_etypes\[0\] is 'abc': give \(source type, relation, destination type\)",
    ),
    "triple count": (
        lambda: HeteroGraph(ids(0), ids(0), num_etypes=2, canonical_etypes=[("node", "a", "node")]),
        "canonical_etypes has 1 triples but there are 2 edge types",
    ),
    "triple type": (
        lambda: HeteroGraph(ids(0), ids(0), canonical_etypes=[("node", "a", "nod")]),
        r"canonical_etypes\[0\] names the node type 'nod'",
    ),
    "triple disagrees": (
        lambda: HeteroGraph(
            ids(0), ids(1), None, ids(0, 1), ntype_names=["a", "b"], canonical_etypes=["bra"]
        ),
        "canonical_etypes",
    ),
    "triple contradicts": (
        lambda: HeteroGraph(
            ids(0),
            ids(1),
            None,
            ids(0, 1),
            ntype_names=["a", "b"],
            canonical_etypes=[("b", "r", "a")],
        ),
        r"is \('b', 'r', 'a'\), but an edge of type 0 goes from 'a' to 'b'",
    ),
    "triple twice": (
        lambda: HeteroGraph(ids(0), ids(0), canonical_etypes=[("node", "a", "node")] * 2),
        "holds a triple twice",
    ),
    "node far away": (lambda: HeteroGraph(ids(0), ids(2**31 - 2)), "2147483647 nodes.*num_nodes"),
    "type far away": (
        lambda: HeteroGraph(ids(0), ids(0), ids(2**31 - 2)),
        "2147483647 edge types.*num_etypes",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses(case: str):
    build, message = BAD[case]
    with pytest.raises(GraphError, match=message):
        build()


def test_unvalidated_graph_can_be_validated_later():
    bad = HeteroGraph(ids(0), ids(9), num_nodes=2, validate=False)
    with pytest.raises(GraphError, match=r"dst\[0\] is 9"):
        bad.validate()


def test_an_etype_of_several_pairs_must_be_split():
    g = library()
    assert not g.is_canonical
    message = r"edge type 1 \('likes'\).*person -> person and person -> book: call canonicalize"
    with pytest.raises(GraphError, match=message):
        g.metadata()
    split = g.canonicalize()
    assert split.etype_names == ("wrote", "person|likes|person", "person|likes|book")
    assert split.canonical_etypes == (
        ("person", "wrote", "book"),
        ("person", "likes", "person"),
        ("person", "likes", "book"),
    )
    assert split.etype.tolist() == [0, 0, 1, 2]
    assert split.etype_src_ntype.tolist() == [0, 0, 0]
    assert split.etype_dst_ntype.tolist() == [1, 0, 1]
    assert split.canonicalize() is split


def test_names_that_spell_out_their_types_are_read():
    g = HeteroGraph(
        ids(0), ids(1), None, ids(0, 1), ntype_names=["a", "b"], etype_names=["a|x|y|b"]
    )
    assert g.canonical_etypes == (("a", "x|y", "b"),)


def test_relations_without_edges_keep_their_types():
    names = {"ntype_names": ["a", "b"], "etype_names": ["r", "b|s|a", "t"]}
    g = HeteroGraph(ids(0), ids(1), None, ids(0, 1), **names)
    assert g.canonical_etypes == (("a", "r", "b"), ("b", "s", "a"), ("a", "t", "a"))
    given_types = [("a", "r", "b"), ("b", "s", "a"), ("b", "t", "b")]
    g = HeteroGraph(ids(0), ids(1), None, ids(0, 1), canonical_etypes=given_types, **names)
    assert g.metadata() == (["a", "b"], given_types)
    assert g.add_inverse().canonical_etypes[-1] == ("b", "inv_t", "b")


def test_triples_stay_distinct_when_names_collide():
    g = HeteroGraph(
        ids(0, 0), ids(1, 1), ids(0, 1), ids(0, 1), ntype_names="ab", etype_names=["r", "a|r|b"]
    )
    assert g.canonical_etypes == (("a", "r", "b"), ("a", "a|r|b", "b"))


@given(graphs())
def test_canonicalize_only_splits(g: HeteroGraph):
    split = g.canonicalize()
    split.validate()
    assert split.is_canonical
    assert torch.equal(split.src, g.src)
    assert torch.equal(split.dst, g.dst)
    old_of_new: dict[int, int] = {}
    for new, old in zip(split.etype.tolist(), g.etype.tolist(), strict=True):
        assert old_of_new.setdefault(new, old) == old
    for e in range(g.num_edges):
        source, _, target = split.canonical_etypes[split.etype[e]]
        assert source == g.ntype_names[g.ntype[g.src[e]]]
        assert target == g.ntype_names[g.ntype[g.dst[e]]]


@given(graphs())
def test_inverse_and_loops(g: HeteroGraph):
    both = g.add_inverse()
    both.validate()
    assert (both.num_edges, both.num_etypes) == (2 * g.num_edges, 2 * g.num_etypes)
    mirrored = [(d, s, r + g.num_etypes) for s, d, r in edge_set(g)]
    assert edge_set(both) == edge_set(g) + mirrored
    assert both.etype_names[g.num_etypes :] == tuple(f"inv_{name}" for name in g.etype_names)
    if g.is_canonical:
        ends = [(d, f"inv_{rel}", s) for s, rel, d in g.canonical_etypes]
        assert list(both.canonical_etypes[g.num_etypes :]) == ends
    loops = both.add_self_loops()
    loops.validate()
    kinds = ["self"] if g.num_ntypes == 1 else [f"self_{name}" for name in g.ntype_names]
    assert loops.etype_names[both.num_etypes :] == tuple(kinds)
    added = edge_set(loops)[both.num_edges :]
    types = g.ntype.tolist()
    assert added == [(v, v, both.num_etypes + types[v]) for v in range(g.num_nodes)]


def test_repeated_inverses_and_loops_get_fresh_names():
    g = library().canonicalize().add_inverse().add_inverse().add_self_loops().add_self_loops()
    g.validate()
    assert len(set(g.etype_names)) == g.num_etypes == 3 * 4 + 4


def test_fingerprint_is_of_the_content():
    g = library()
    assert g.fingerprint == library().fingerprint
    assert (
        g.fingerprint
        == HeteroGraph(
            g.src, g.dst, g.etype, g.ntype, ntype_names=g.ntype_names, etype_names=g.etype_names
        )
        .to("cpu")
        .fingerprint
    )
    others = [
        g.add_inverse(),
        g.canonicalize(),
        HeteroGraph(g.src.flip(0), g.dst.flip(0), g.etype.flip(0), g.ntype),
        HeteroGraph(g.dst, g.src, g.etype, g.ntype),
        HeteroGraph(g.src, g.dst, g.etype, g.ntype),
        HeteroGraph(g.src, g.dst, g.etype, g.ntype, num_etypes=3),
        HeteroGraph(g.src, g.dst, g.etype, num_nodes=5),
        HeteroGraph(g.src, g.dst, g.etype, num_nodes=6),
    ]
    assert len({other.fingerprint for other in [g, *others]}) == len(others) + 1


def test_fingerprint_is_the_same_in_another_process():
    code = (
        "import torch; from hetune.variants.graph import HeteroGraph;"
        "print(HeteroGraph(torch.tensor([0, 1]), torch.tensor([1, 2])).fingerprint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == HeteroGraph(ids(0, 1), ids(1, 2)).fingerprint
    assert done.stdout.strip() == "ea6101c9b12ca7c9ad28b0bb29a8999e"


def test_an_unindexed_graph_is_equal_and_shares_no_cache():
    g = library().canonicalize()
    kept = g.state.of(MINE, "mine", object)
    bare = g.unindexed()
    assert bare.fingerprint == g.fingerprint
    assert bare.canonical_etypes == g.canonical_etypes
    assert (bare.etype_names, bare.num_etypes) == (g.etype_names, g.num_etypes)
    assert bare.state.of(MINE, "mine", object) is not kept


def test_state_builds_once_whatever_the_threads():
    g = library()
    calls: list[int] = []
    start = threading.Barrier(8)
    results: list[object] = []

    def build() -> object:
        calls.append(1)
        return g.state.of(MINE, "inner", object)

    def ask() -> None:
        start.wait()
        results.append(g.state.of(OTHERS, "inner", build))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert all(result is g.state.of(MINE, "inner", object) for result in results)


def test_a_failed_build_is_tried_again():
    g = library()
    with pytest.raises(ZeroDivisionError):
        g.state.of(NUMBERS, None, lambda: 1 // 0)
    assert g.state.of(NUMBERS, None, lambda: 2) == 2


def test_immutable():
    g = library()
    with pytest.raises(AttributeError):
        g.src = ids(0)  # type: ignore[misc]
    assert copy.deepcopy(g) is g
    assert g == g
    assert g != library()
    assert g.to("cpu") is g


@given(graphs())
def test_pickled_and_back(g: HeteroGraph):
    g.state.of(MINE, "lock", threading.Lock)
    file = io.BytesIO()
    torch.save(g, file)
    file.seek(0)
    for back in (pickle.loads(pickle.dumps(g)), torch.load(file, weights_only=False)):
        assert back.fingerprint == g.fingerprint
        assert (back.num_etypes, back.ntype_names) == (g.num_etypes, g.ntype_names)
        assert back.is_canonical == g.is_canonical
        assert not g.is_canonical or back.metadata() == g.metadata()
        back.validate()


def test_moves_to_another_device():
    g = library()
    assert g.fingerprint
    assert g.node_offsets == (0, 2, 5)
    moved = g.to("meta")
    assert moved.device.type == "meta"
    assert moved.src.shape == g.src.shape
    assert moved.node_offsets == (0, 2, 5)
    assert moved.fingerprint == g.fingerprint
    assert repr(moved).endswith("device='meta')")


def test_a_device_that_is_not_here_is_said():
    with pytest.raises(GraphError, match=r"device is 'nosuch': .*; take 'cpu'$"):
        library().to("nosuch")


def test_mixed_devices_are_refused():
    with pytest.raises(GraphError, match=r"etype is on meta but src is on cpu: move it"):
        HeteroGraph(ids(0), ids(0), ids(0).to("meta"), num_etypes=1)
