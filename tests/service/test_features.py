"""Features that are kept with a graph: what is kept, for how long, and what runs take."""

import pytest
import torch

import hetune
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.graphs import graph_files
from hetune.service.core.graphs.features import FeatureStore
from hetune.service.core.graphs.graphs import GraphStore
from hetune.service.core.graphs.rows import features_of, rows_by_type
from hetune.service.core.storage import folder
from hetune.variants.errors import InputError, MalformedError, NotFoundError, TooLargeError

from ._serving import tiny_features, tiny_graph

NOBODY = "0" * 32
X = tiny_features()
BY_TYPE = {"author": X[:3], "paper": X[3:]}


def ring(nodes: int) -> hetune.HeteroGraph:
    """A ring, whose file takes some 16 bytes a node, and a few hundred more."""
    ids = torch.arange(nodes)
    return hetune.HeteroGraph(ids, ids.roll(1), num_nodes=nodes)


def opened(root, **limits):
    """Stores over a folder."""
    limit = ServiceLimits(**limits)
    graphs = GraphStore(root / "graphs", limit)
    return graphs, FeatureStore(graphs, limit)


@pytest.fixture
def stores(tmp_path):
    return opened(tmp_path)


@pytest.fixture
def kept(stores, graph):
    """The stores, and a graph's id."""
    graphs, features = stores
    return graphs, features, graphs.add(graph)


def test_what_is_kept_is_on_the_disk_with_its_folder(kept, monkeypatch):
    graphs, features, id = kept
    synced = []
    monkeypatch.setattr(folder, "sync_folder", synced.append)
    features.put(id, "base", X)
    root = graphs.files.folder.root
    assert synced == [root / f"{id}.features", root]


def test_what_is_deleted_is_gone_from_the_disk(kept, monkeypatch):
    graphs, features, id = kept
    features.put(id, "base", X)
    synced = []
    monkeypatch.setattr(graph_files, "sync_folder", synced.append)
    features.remove(id, "base")
    graphs.remove(id)
    root = graphs.files.folder.root
    assert synced == [root / f"{id}.features", root]


def test_rows_of_different_widths_are_padded_once(kept, graph):
    _, features, id = kept
    widths = {"author": 2, "paper": X.shape[1]}
    features.put(id, "base", {"author": X[:3, :2], "paper": X[3:]})
    given = features.get(id, "base")
    assert given["author"].shape == (3, 2)
    joined = features_of(given, graph, X.shape[1], widths)
    assert joined.data_ptr() == features_of(given, graph, X.shape[1], widths).data_ptr()
    assert torch.equal(joined, features_of(dict(given), graph, X.shape[1], widths))
    assert features_of(given, graph, 9, widths).shape == (graph.num_nodes, 9)
    with pytest.raises(InputError, match="author"):
        features_of(given, graph, X.shape[1], {"author": 3})


def test_no_rows_fit_any_width(stores):
    graphs, features = stores
    graph = hetune.HeteroGraph(
        *torch.zeros(3, 0, dtype=torch.long),
        torch.ones(3, dtype=torch.long),
        ntype_names=["author", "paper"],
    )
    given = {"author": torch.empty(0, 1), "paper": torch.ones(3, 8)}
    assert features.put(graphs.add(graph), "base", given)[0].width == 8


@pytest.mark.parametrize("given", [X, BY_TYPE, dict(reversed(BY_TYPE.items()))], ids=range(3))
def test_what_is_kept_is_what_was_given(kept, tmp_path, given):
    _, features, id = kept
    described, is_new = features.put(id, "base", given)
    is_typed = isinstance(given, dict)
    assert is_new
    assert (described.name, described.nodes, described.width) == ("base", 7, 4)
    assert described.by_type is is_typed
    for store in (features, opened(tmp_path)[1]):
        found = store.get(id, "base")
        assert isinstance(found, dict) is is_typed
        for name in given if is_typed else ():
            assert torch.equal(found[name], given[name])
        assert is_typed or torch.equal(found, given)
        assert store.all(id) == (described,)
        assert store.describe(id, "base") == described
    [path] = tmp_path.rglob("base.safetensors")
    assert described.bytes == path.stat().st_size


def test_their_digest_is_that_of_their_content(kept):
    _, features, id = kept
    digests = [
        features.put(id, "base", given)[0].digest
        for given in (X, X.clone(), X + 1, BY_TYPE, torch.nn.functional.pad(X, (0, 1)))
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


def test_the_order_of_types_is_no_content(kept):
    _, features, id = kept
    wide = {"author": X[:3, :2], "paper": X[3:]}
    turned = dict(reversed(wide.items()))
    assert features.put(id, "base", wide)[0] == features.put(id, "base", turned)[0]
    for name, rows in features.get(id, "base").items():
        assert torch.equal(rows, wide[name])


def test_a_few_wide_rows_take_no_more_memory_than_a_body(tmp_path):
    graphs, features = opened(tmp_path, body_bytes=7 * 300 * 4)
    id = graphs.add(tiny_graph())
    for width, is_kept in ((300, True), (301, False)):
        given = {"author": torch.ones(1, width).expand(3, width), "paper": X[3:, :1]}
        if is_kept:
            assert features.put(id, "base", given)[0].width == width
            continue
        with pytest.raises(TooLargeError, match="as wide as the widest"):
            features.put(id, "base", given)


def test_others_of_the_name_take_their_place(kept, tmp_path):
    _, features, id = kept
    features.put(id, "base", X)
    other = opened(tmp_path)[1]
    assert torch.equal(other.get(id, "base"), X)
    described, is_new = features.put(id, "base", X + 1)
    assert not is_new
    for store in (features, other):
        assert torch.equal(store.get(id, "base"), X + 1)
    assert features.all(id) == (described,)


def test_what_is_in_memory_already_is_not_read_again(kept):
    _, features, id = kept
    features.put(id, "base", BY_TYPE)
    first, second = features.get(id, "base"), features.get(id, "base")
    assert first is second


def test_rows_by_type_are_not_copied(graph):
    joined = features_of(rows_by_type(X, graph), graph, 4)
    assert joined.data_ptr() == X.data_ptr()
    assert torch.equal(joined, X)
    for parts in (BY_TYPE | {"paper": X[3:].clone()}, {"author": X[4:], "paper": X[:4]}):
        copied = features_of(parts, graph, 4)
        assert copied.data_ptr() not in (X.data_ptr(), parts["author"].data_ptr())
        assert torch.equal(copied, torch.cat([parts["author"], parts["paper"]]))
    turned = X.t().contiguous().t()
    assert torch.equal(features_of(rows_by_type(turned, graph), graph, 4), X)


@pytest.mark.parametrize("given", [torch.empty(0, 3), {}, {"node": torch.empty(0, 0)}])
def test_a_graph_without_nodes_has_features_of_any_width(stores, given):
    graphs, features = stores
    none = torch.empty(0, dtype=torch.int64)
    id = graphs.add(hetune.HeteroGraph(none, none, num_nodes=0))
    features.put(id, "base", given)
    assert features_of(features.get(id, "base"), graphs.get(id), 5).shape == (0, 5)


@pytest.mark.parametrize(
    "given",
    [
        X.double(),
        X[:6],
        X[0],
        torch.empty(7, 0),
        {"author": X[:3]},
        {"author": X[:3], "paper": X[3:6, :2]},
        BY_TYPE | {"venue": X[:0]},
    ],
    ids=range(7),
)
def test_what_does_not_fit_the_graph_is_refused(kept, given):
    _, features, id = kept
    with pytest.raises(InputError):
        features.put(id, "base", given)
    assert features.all(id) == ()


@pytest.mark.parametrize("name", ["", "..", ".x", "a/b", "a\\b", "x\0", "-x", "x" * 65, "ä"])
def test_names_lead_nowhere_else(kept, name):
    _, features, id = kept
    for do in (lambda: features.put(id, name, X), lambda: features.get(id, name)):
        with pytest.raises(MalformedError, match="no name of features"):
            do()


def test_what_is_not_there(kept):
    _, features, id = kept
    for do in (features.get, features.describe, features.remove):
        with pytest.raises(NotFoundError, match=f"{id} has no features 'base'"):
            do(id, "base")
        with pytest.raises(NotFoundError, match=f"no graph {NOBODY}"):
            do(NOBODY, "base")
    with pytest.raises(NotFoundError):
        features.put(NOBODY, "base", X)
    with pytest.raises(NotFoundError):
        features.all(NOBODY)


def test_a_graph_that_goes_takes_them_along(kept, tmp_path, graph):
    graphs, features, id = kept
    features.put(id, "base", X)
    features.put(id, "more", X)
    features.get(id, "base")
    features.remove(id, "more")
    assert [each.name for each in features.all(id)] == ["base"]
    graphs.remove(id)
    assert not list(tmp_path.rglob("*.safetensors"))
    assert graphs.add(graph) == id
    assert features.all(id) == ()
    with pytest.raises(NotFoundError):
        features.get(id, "base")


# The quota: a ring of 100 and features of width 10 take about 2 and 4 kB.


def test_the_quota_takes_what_was_used_longest_ago(tmp_path):
    graphs, features = opened(tmp_path, stored_bytes=16_000)
    first, second = graphs.add(ring(100)), graphs.add(ring(101))
    features.put(first, "a", torch.ones(100, 10))
    features.put(second, "a", torch.ones(101, 10))
    features.get(first, "a")
    features.put(second, "b", torch.ones(101, 10))
    assert [each.name for each in features.all(second)] == ["b"]
    assert [each.name for each in features.all(first)] == ["a"]
    graphs.add(ring(300))
    graphs.add(ring(301))
    assert first not in [each.id for each in graphs.all()]
    assert sum(each.bytes for each in graphs.all()) <= 16_000
    assert not list(tmp_path.rglob(f"{first}.features/*"))


def test_a_graph_is_used_when_its_features_are(tmp_path):
    graphs, features = opened(tmp_path)
    first, second = graphs.add(ring(100)), graphs.add(ring(101))
    for do in (features.put, lambda *what: features.get(*what[:2])):
        graphs.get(second)
        do(first, "a", torch.ones(100, 10))
        used = [(file.graph, file.features) for file in graphs.files.all()]
        assert used == [(second, None), (first, "a"), (first, None)]


def test_a_graph_s_size_is_with_its_features(tmp_path):
    graphs, features = opened(tmp_path)
    id = graphs.add(ring(100))
    [alone] = graphs.all()
    described, _ = features.put(id, "a", torch.ones(100, 10))
    grown = alone.model_copy(update={"bytes": alone.bytes + described.bytes})
    assert graphs.all() == (grown,)


def test_what_cannot_be_kept_is_refused(tmp_path):
    graphs, features = opened(tmp_path, stored_bytes=9_000)
    id = graphs.add(ring(100))
    with pytest.raises(TooLargeError, match="bytes on disk"):
        features.put(id, "a", torch.ones(100, 23))
    with pytest.raises(TooLargeError, match="have to stay"):  # with their graph
        features.put(id, "a", torch.ones(100, 18))
    features.put(id, "a", torch.ones(100, 10))
    features.put(id, "a", torch.ones(100, 11))  # in place of them
    graphs.pin(id)
    with pytest.raises(TooLargeError, match="unpin one"):
        features.put(id, "b", torch.ones(100, 11))
    with pytest.raises(TooLargeError, match="unpin one"):
        graphs.add(ring(200))
    assert [each.width for each in features.all(id)] == [11]


def test_what_is_in_memory_is_bounded(tmp_path):
    graphs, features = opened(tmp_path, feature_bytes=5_000)
    id = graphs.add(ring(100))
    for name in "ab":
        features.put(id, name, torch.full((100, 10), float(ord(name))))
    first = features.get(id, "a")
    assert features.get(id, "a") is first
    assert features.get(id, "b")[0, 0] == ord("b")
    again = features.get(id, "a")
    assert again is not first
    assert torch.equal(again, first)


@pytest.mark.parametrize("where", [3, 40, -1])
def test_damaged_ones_are_put_aside(kept, tmp_path, where, caplog):
    _, features, id = kept
    features.put(id, "base", X)
    [path] = tmp_path.rglob("base.safetensors")
    content = bytearray(path.read_bytes())
    content[where] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(NotFoundError, match="damaged on disk"):
        opened(tmp_path)[1].get(id, "base")
    assert "put aside" in caplog.text
    assert [p.suffix for p in path.parent.iterdir()] == [".damaged"]
    assert features.put(id, "base", X)[1]
    assert torch.equal(features.get(id, "base"), X)
    assert [p.suffix for p in path.parent.iterdir()] == [".safetensors"]


def test_a_name_needs_a_graph_that_is_kept(service, graph):
    id = service.graphs.add(graph)
    service.features.put(id, "base", X)
    assert torch.equal(service.features.resolve(id, "base"), X)
    assert service.features.resolve(graph, X) is X
    with pytest.raises(InputError, match="give the id of the graph"):
        service.features.resolve(tiny_graph(), "base")
