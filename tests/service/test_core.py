"""The core, called in-process: stores, checks before memory is taken, and inference."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import hetune
from hetune import nn
from hetune.costmodel.selection.selector import Selector
from hetune.service.core.formats import message
from hetune.service.core.formats.documents import parse
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.graphs import graphs
from hetune.service.core.graphs.document import GraphHeader, arrays_of, graph_of, header_of
from hetune.service.core.graphs.graph_files import GraphFiles
from hetune.service.core.graphs.graphs import GraphStore, statistics
from hetune.service.core.models.description import ModelDescription
from hetune.service.core.models.models import ModelStore
from hetune.service.core.models.stack import describe, modules_of
from hetune.service.core.service import Service
from hetune.variants.errors import (
    ConflictError,
    FolderError,
    GraphError,
    InputError,
    MalformedError,
    MemoryLimitError,
    NotFoundError,
    RegistryError,
    TooLargeError,
    VariantError,
)

from ._serving import files_left

SMALL = ServiceLimits(nodes=100, edges=100, types=10)


# Messages.


def test_a_container_holds_a_document_and_tensors(tmp_path):
    tensors = {"x": torch.randn(2, 3), "ids": torch.arange(4)}
    content = message.pack('{"a": 1}', tensors)
    (tmp_path / "file").write_bytes(content)
    for found in (message.unpack(content), message.read(tmp_path / "file")):
        assert found.document == '{"a": 1}'
        assert {name: t.tolist() for name, t in found.tensors.items()} == {
            name: t.tolist() for name, t in tensors.items()
        }


CONTENT = message.pack("{}", {"x": torch.ones(8)})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        b"not safetensors at all",
        CONTENT[:-1],
        CONTENT[:20],
        CONTENT.replace(b"[8]", b"[9]"),
        CONTENT.replace(b"F32", b"Q32"),
        CONTENT.replace(b"[0,32]", b"[0,99]"),
        b"\x02\0\0\0\0\0\0\0[]",
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
    ],
    ids=range(10),
)
def test_damaged_containers_are_refused(content, tmp_path):
    with pytest.raises(MalformedError, match="no safetensors container"):
        message.unpack(content)
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(MalformedError, match="no safetensors container"):
        message.read(tmp_path / "file")


# Graphs.


def test_a_graph_survives_header_and_arrays(graph):
    again = graph_of(header_of(graph), arrays_of(graph), SMALL)
    assert again.fingerprint == graph.fingerprint


IDS = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("header", "arrays", "kind"),
    [
        ({"num_nodes": 101}, {}, TooLargeError),
        ({"num_etypes": 11}, {}, TooLargeError),
        ({"num_ntypes": 11}, {}, TooLargeError),
        ({"etype_names": tuple(map(str, range(11)))}, {}, TooLargeError),
        ({}, {"src": torch.tensor([0, 2**62])}, TooLargeError),
        ({}, {"etype": torch.tensor([0, 2**40])}, TooLargeError),
        ({}, {"ntype": torch.tensor([0, 2**40])}, TooLargeError),
        ({}, {"src": torch.zeros(101).long(), "dst": torch.zeros(101).long()}, TooLargeError),
        ({}, {"src": torch.tensor([0, -1])}, GraphError),
        ({"num_nodes": 2}, {"src": torch.tensor([0, 5])}, GraphError),
        ({}, {"src": torch.tensor([0.0, 1.0])}, GraphError),
        ({}, {"src": torch.zeros(2, 1).long()}, GraphError),
        ({}, {"src": torch.zeros(3).long()}, GraphError),
        ({}, {"weights": IDS}, MalformedError),
    ],
    ids=range(14),
)
def test_graphs_are_checked_before_memory_is_taken(header, arrays, kind):
    with pytest.raises(kind):
        graph_of(GraphHeader(**header), {"src": IDS, "dst": IDS, **arrays}, SMALL)


def test_a_graph_without_edges_arrays_is_malformed():
    with pytest.raises(MalformedError, match="src is missing"):
        graph_of(GraphHeader(), {}, SMALL)


def test_graphs_are_kept_by_content_across_restarts(tmp_path, graph):
    store = GraphStore(tmp_path, SMALL)
    key = store.add(graph)
    assert (key, store.add(graph)) == (graph.fingerprint, key)
    again = GraphStore(tmp_path, SMALL)
    assert again.get(key).fingerprint == key
    assert [stored.id for stored in again.all()] == [key]
    again.remove(key)
    for other in (store, again):
        with pytest.raises(NotFoundError):
            other.get(key)
    with pytest.raises(NotFoundError):
        again.remove(key)
    assert (tmp_path.stat().st_mode & 0o777) == 0o700


@pytest.mark.parametrize("key", ["../../etc/passwd", "", "g" * 32, "A" * 32, "0" * 31, "0" * 33])
def test_ids_that_are_none_lead_nowhere(tmp_path, key):
    with pytest.raises(NotFoundError, match="no id of a graph"):
        GraphStore(tmp_path, SMALL).get(key)


@pytest.mark.parametrize("damage", [lambda c: c[:-4], lambda c: c[:-4] + b"\2\0\0\0"])
def test_a_damaged_graph_is_put_aside(tmp_path, graph, damage):
    key = GraphStore(tmp_path, SMALL).add(graph)
    path = tmp_path / f"{key}.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    store = GraphStore(tmp_path, SMALL)
    with pytest.raises(NotFoundError, match="damaged"):
        store.get(key)
    assert path.with_suffix(".damaged").exists()
    assert store.add(graph) == key
    assert store.get(key).num_edges == graph.num_edges
    assert not path.with_suffix(".damaged").exists()


def test_a_graph_that_cannot_be_read_is_not_damaged(tmp_path, graph):
    key = GraphStore(tmp_path, SMALL).add(graph)
    store = GraphStore(tmp_path, SMALL)
    with files_left(0), pytest.raises(FolderError, match="Too many open files"):
        store.get(key)
    with files_left(1):  # less than the safetensors library opens
        assert store.get(key).fingerprint == key


def test_a_damaged_graph_may_be_gone_when_it_is_to_be_put_aside(tmp_path, graph, monkeypatch):
    def damaged(path, **_):
        path.unlink()
        raise MalformedError("damaged")

    key = GraphStore(tmp_path, SMALL).add(graph)
    monkeypatch.setattr(graphs, "read", damaged)
    with pytest.raises(NotFoundError, match="damaged"):
        GraphStore(tmp_path, SMALL).get(key)


def test_a_graph_that_goes_while_it_is_given_again_is_written_again(tmp_path, graph):
    store = GraphStore(tmp_path, SMALL)
    path = tmp_path / f"{store.add(graph)}.safetensors"
    with ThreadPoolExecutor(1) as pool:
        with store.files.folder.locked():
            adding = pool.submit(store.add, graph)
            wait([adding], 0.3)
            path.unlink()
        assert store.get(adding.result(60)).num_edges == graph.num_edges


def test_a_graph_that_is_used_while_others_go_stays(tmp_path, monkeypatch):
    one, two, three = (hetune.HeteroGraph(IDS, IDS, num_nodes=n) for n in (2, 3, 4))
    size = GraphStore(tmp_path / "one", SMALL)
    size.add(three)
    store = GraphStore(tmp_path / "two", replace(SMALL, stored_bytes=2 * size.all()[0].bytes))
    keys = [store.add(one), store.add(two)]
    list_all = GraphFiles.all

    def use_then(files):
        found = list_all(files)
        if len(found) == 3:  # when one of them has to go
            os.utime(files.path(keys[0]))
        return found

    monkeypatch.setattr(GraphFiles, "all", use_then)
    keys.append(store.add(three))
    monkeypatch.undo()
    assert {stored.id for stored in store.all()} == {keys[0], keys[2]}


def test_graphs_used_longest_ago_go_first(tmp_path):
    graphs = [hetune.HeteroGraph(IDS, IDS, num_nodes=n) for n in (2, 3, 4)]
    keys = [g.fingerprint for g in graphs]
    size = GraphStore(tmp_path / "one", SMALL)
    size.add(graphs[2])
    store = GraphStore(tmp_path / "two", replace(SMALL, stored_bytes=2 * size.all()[0].bytes))
    store.add(graphs[0])
    store.add(graphs[1])
    store.get(keys[0])
    store.add(graphs[2])
    assert {stored.id for stored in store.all()} == {keys[0], keys[2]}
    with pytest.raises(NotFoundError):
        store.get(keys[1])


def test_a_graph_over_the_quota_is_refused(tmp_path, graph):
    with pytest.raises(TooLargeError):
        GraphStore(tmp_path, replace(SMALL, stored_bytes=10)).add(graph)


def test_a_folder_that_is_none(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match="cannot create"):
        GraphStore(tmp_path / "file", SMALL)


def test_statistics(graph):
    found = statistics(graph)
    assert (found.num_nodes, found.num_edges) == (7, 9)
    assert [(t.name, t.nodes) for t in found.ntypes] == [("author", 3), ("paper", 4)]
    assert [(t.name, t.edges) for t in found.etypes] == [("writes", 5), ("reads", 4)]
    assert (found.largest_degree, found.nodes_without_edges) == (3, 1)
    assert found.mean_degree == pytest.approx(9 / 7)


# Models.

RGCN = {"layer": "rgcn", "out_channels": 4}
STACK = {"in_channels": 4, "num_relations": 2, "layers": [RGCN]}


def test_models_are_described_and_made_again(layers, graph, x):
    description, weights = describe(layers)
    text = description.model_dump_json()
    first, second = modules_of(parse(ModelDescription, text), weights)
    with torch.no_grad():
        expected = layers[2](torch.relu(layers[0](x, graph)), graph)
        assert torch.equal(second(torch.relu(first(x, graph)), graph), expected)


def normalized(width: int) -> list[torch.nn.Module]:
    """Normalizations that have learned something."""
    found = [torch.nn.LayerNorm(width), torch.nn.BatchNorm1d(width)]
    for module in found:
        torch.nn.init.normal_(module.weight)
        torch.nn.init.normal_(module.bias)
    found[1](torch.randn(32, width) * 3 + 1)
    return [module.eval() for module in found]


def test_normalizations_are_served_and_dropout_is_left_out(service, graph, x):
    first, second = nn.RGAT(4, 2, graph.num_etypes, heads=2), nn.RGCN(4, 3, graph.num_etypes)
    layer, _ = normalized(4)
    _, batch = normalized(3)
    dropout = torch.nn.Dropout(0.5)
    modules = [dropout, first, layer, torch.nn.GELU(), dropout, second, batch]
    description, weights = describe(modules)
    assert [given.normalization for given in description.layers] == ["layer", "batch"]
    again = parse(ModelDescription, description.model_dump_json())
    assert again == description
    service.models.add("normalized", 1, description, weights)
    with torch.no_grad():
        middle = torch.nn.functional.gelu(layer(first(x, graph)))
        expected = batch(second(middle, graph))
    found = service.inference.run("normalized", graph, x, outputs=[0, 1]).outputs
    torch.testing.assert_close(found[0], middle)
    torch.testing.assert_close(found[1], expected)


def test_what_only_looks_like_a_normalization_is_refused():
    typed = pytest.importorskip("torch_geometric.nn").HeteroBatchNorm

    class Own(torch.nn.LayerNorm):
        def forward(self, x):
            return x

    class Softer(torch.nn.ReLU):
        def forward(self, x):
            return x.sqrt()

    for module in (Own(4), Softer(), typed(4, 2)):
        with pytest.raises(InputError, match="cannot be served: take LayerNorm"):
            describe([nn.RGCN(4, 4, 2), module])


def test_normalizations_without_parameters_of_their_own(graph):
    plain = torch.nn.LayerNorm(4, elementwise_affine=False)
    _, weights = describe([nn.RGCN(4, 4, 2), plain])
    assert torch.equal(weights["0.normalization.weight"], torch.ones(4))
    assert torch.equal(weights["0.normalization.bias"], torch.zeros(4))


def test_descriptions_without_normalizations_are_written_as_they_always_were():
    assert "normalization" not in parse(ModelDescription, json.dumps(STACK)).model_dump_json()


def test_options_of_every_layer_survive(graph):
    relations = graph.num_etypes
    modules = [
        nn.RGCN(4, 4, relations, aggr="add", num_bases=2, bias=False, residual=True),
        torch.nn.Tanh(),
        nn.RGAT(4, 2, relations, heads=2, softmax="within", negative_slope=0.1, self_loop=True),
        torch.nn.ELU(),
        nn.HGT(4, 4, graph.metadata(), heads=2),
        torch.nn.GELU(),
    ]
    description, weights = describe(modules)
    assert [layer.activation for layer in description.layers] == ["tanh", "elu", "gelu"]
    again = modules_of(parse(ModelDescription, description.model_dump_json()), weights)
    assert [m.program() for m in again] == [m.program() for m in modules[::2]]


@pytest.mark.parametrize(
    ("modules", "text"),
    [
        ([], "without layers"),
        ([torch.nn.ReLU()], "follows no layer"),
        ([nn.RGCN(4, 4, 2), torch.nn.ReLU(), torch.nn.ReLU()], "follows relu: put it right"),
        ([nn.RGCN(4, 4, 2), torch.nn.ReLU(), torch.nn.LayerNorm(4)], "follows relu: put it right"),
        ([nn.RGCN(4, 4, 2), torch.nn.ELU(0.5)], "cannot be served"),
        ([nn.RGCN(4, 4, 2), torch.nn.LayerNorm(4, eps=1e-3)], "cannot be served"),
        ([nn.RGCN(4, 4, 2), torch.nn.LayerNorm(8)], "rows are 4 wide: make it as wide"),
        ([nn.RGCN(4, 4, 2), *[torch.nn.LayerNorm(4)] * 2], "another normalization"),
        ([nn.RGCN(4, 4, 2), nn.RGCN(4, 4, 3)], "same graphs"),
    ],
    ids=range(9),
)
def test_what_makes_no_model(modules, text):
    with pytest.raises(InputError, match=text):
        describe(modules)


@pytest.mark.parametrize(
    "change",
    [
        {"layers": []},
        {"layers": [RGCN] * 65},
        {"in_channels": 0},
        {"in_channels": 2**40},
        {"num_relations": -1},
        {"num_relations": 2.0},
        {"extra": 1},
        {"layers": [{"layer": "gcn", "out_channels": 4}]},
        {"layers": [RGCN | {"activation": "__import__"}]},
        {"layers": [RGCN | {"heads": 2}]},
        {"layers": [{"layer": "hgt", "out_channels": 4}]},
        {"metadata": {"ntypes": ["a"], "etypes": [["a", "r", "a"]]}},
    ],
    ids=range(12),
)
def test_descriptions_that_are_none(change):
    with pytest.raises(MalformedError) as caught:
        parse(ModelDescription, json.dumps(STACK | change))
    assert "; " not in str(caught.value)  # nothing that only follows from it


def test_deep_json_is_refused():
    with pytest.raises(MalformedError):
        parse(ModelDescription, '{"layers":' + "[" * 10_000 + "]" * 10_000 + "}")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda w: w.pop("0.bias"), "1 weights are missing: 0.bias"),
        (lambda w: w.update({"0.more": torch.ones(1)}), "1 weights are unknown: 0.more"),
        (lambda w: w.update({"0.bias": torch.ones(5)}), "needs torch.float32"),
        (lambda w: w.update({"0.bias": torch.ones(4).double()}), "torch.float64"),
        (lambda w: w.pop("0.normalization.bias"), r"missing: 0\.normalization\.bias"),
        (lambda w: w.update({"0.normalization.bias": torch.ones(5)}), r"float32 \[4\]"),
    ],
    ids=range(6),
)
def test_weights_are_checked(change, text):
    description, weights = describe([nn.RGCN(4, 4, 2), torch.nn.LayerNorm(4)])
    change(weights)
    with pytest.raises(InputError, match=text):
        modules_of(description, weights)


def test_a_model_of_terabytes_takes_no_memory():
    layers = [{"layer": "rgcn", "out_channels": 65536}]
    huge = {"in_channels": 65536, "num_relations": 1_000_000, "layers": layers}
    with pytest.raises(InputError, match="weights are missing"):
        modules_of(parse(ModelDescription, json.dumps(huge)), {})


def test_versions_never_change(service, layers, tmp_path):
    description, weights = describe(layers)
    assert service.models.add("m", 1, description, weights) is False
    with pytest.raises(ConflictError, match="next number"):
        service.models.add("m", 1, *describe([nn.RGCN(4, 4, 2)]))
    assert service.models.add("m", 12, description, weights) is True
    assert service.models.versions("m") == (1, 12)
    assert service.models.get("m").version == 12
    service.models.remove("m", 12)
    assert service.models.get("m").version == 1
    again = Service.open(tmp_path / "data", selector=Selector(), backend="torch")
    assert again.models.names() == ("m",)
    service.models.remove("m", 1)
    assert service.models.names() == ()
    for do in (lambda: again.models.get("m"), lambda: again.models.remove("m", 1)):
        with pytest.raises(NotFoundError):
            do()


def test_a_latest_version_that_goes_meanwhile_is_not_asked_for(service, layers, monkeypatch):
    service.models.add("m", 2, *describe(layers))
    files = ModelStore._files

    def listed(store, name):
        found = files(store, name)
        monkeypatch.setattr(ModelStore, "_files", files)
        Path(found[2].path).unlink()  # by another process
        return found

    monkeypatch.setattr(ModelStore, "_files", listed)
    assert service.models.get("m").version == 1
    with pytest.raises(NotFoundError, match="no version 2"):
        service.models.get("m", 2)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../m", "a/b", "a\\b", "a\0", "a\n", "-a", "é", "a" * 65, "lock/.."]
)
def test_names_that_are_none(service, name):
    for do in (service.models.get, service.models.versions, lambda n: service.models.remove(n, 1)):
        with pytest.raises(MalformedError, match="no name of a model"):
            do(name)


def test_names_cannot_meet_the_folder_s_own_files(service, layers):
    for name in ("lock", "staging", "model-"):
        assert service.models.add(name, 1, *describe(layers))
    assert service.models.names() == ("lock", "m", "model-", "staging")


@pytest.mark.parametrize("version", [0, -1, 2**31])
def test_versions_that_are_none(service, version):
    with pytest.raises(MalformedError, match="no version"):
        service.models.get("m", version)


def test_a_damaged_model_is_an_error_of_the_service(service, tmp_path):
    path = tmp_path / "data" / "models" / "model-m" / "1.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FolderError, match="damaged"):
        service.models.get("m")


# Inference.


def reference(layers, x, graph):
    with torch.no_grad():
        first = torch.relu(layers[0](x, graph))
        return first, layers[2](first, graph)


def test_a_model_runs_on_a_graph(service, graph, layers, x):
    hidden, expected = reference(layers, x, graph)
    key = service.graphs.add(graph)
    answer = service.inference.run("m", key, x, outputs=[0, 1], explain=True)
    assert torch.allclose(answer.outputs[0], hidden, atol=1e-6)
    assert torch.allclose(answer.out, expected, atol=1e-6)
    report = answer.report
    assert (report.model, report.version, report.graph) == ("m", 1, key)
    assert [layer.layer for layer in report.layers] == ["rgcn", "rgat"]
    for layer in report.layers:
        assert layer.predicted_seconds > 0
        assert layer.measured_seconds > 0
        assert layer.explanation.launches
        assert layer.variant in {c.variant for c in layer.explanation.candidates}


def test_rows_by_node_type_and_of_some_nodes(service, graph, x):
    run = service.inference.run
    whole = run("m", graph, x).out
    by_type = run("m", graph, {"author": x[:3], "paper": x[3:]}).out
    assert {name: rows.tolist() for name, rows in by_type.items()} == {
        "author": whole[:3].tolist(),
        "paper": whole[3:].tolist(),
    }
    some = run("m", graph, x, nodes=torch.tensor([6, 0, 0])).out
    assert torch.equal(some, whole[[6, 0, 0]])
    papers = run("m", graph, x, nodes={"paper": torch.tensor([1])}).out
    assert torch.equal(papers["paper"], whole[4:5])
    assert list(papers) == ["paper"]


def test_a_variant_can_be_asked_for(service, graph, x):
    report = service.selection.select("m", graph, explain=True)
    other = report.layers[0].explanation.candidates[-1].variant
    answer = service.inference.run("m", graph, x, variants=[other, None])
    assert [layer.variant for layer in answer.report.layers] == [other, report.layers[1].variant]
    assert answer.report.layers[0].reason == "as asked for"


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"model": "other"}, NotFoundError, "no model other"),
        ({"version": 2}, NotFoundError, "no version 2"),
        ({"graph": "0" * 32}, NotFoundError, "no graph"),
        ({"features": torch.ones(7, 5)}, InputError, "give .7, 4."),
        ({"features": torch.ones(6, 4)}, InputError, "give .7, 4."),
        ({"features": torch.ones(7, 4).double()}, InputError, "float64"),
        ({"features": {"author": torch.ones(3, 4)}}, InputError, "'paper' are missing"),
        ({"features": {"cat": torch.ones(3, 4)}}, InputError, "no node type 'cat'"),
        ({"nodes": torch.tensor([7])}, InputError, "7 is no id"),
        ({"nodes": torch.tensor([-1])}, InputError, "-1 is no id"),
        ({"nodes": torch.tensor([0.5])}, InputError, "list of integers"),
        ({"nodes": {"paper": torch.tensor([4])}}, InputError, "4 is no id"),
        ({"nodes": {"cat": torch.tensor([0])}}, InputError, "no node type"),
        ({"outputs": [2]}, InputError, "no output 2"),
        ({"outputs": [-1]}, InputError, "no output -1"),
        ({"outputs": []}, InputError, "empty"),
        ({"variants": ["none", None]}, VariantError, "no variant 'none'"),
        ({"variants": [None]}, InputError, "1 variants for 2 layers"),
        ({"memory_limit": 1}, MemoryLimitError, "limit of 1 bytes"),
    ],
    ids=range(19),
)
def test_what_cannot_run(service, graph, x, change, kind, text):
    asked = {"model": "m", "graph": graph, "features": x} | change
    with pytest.raises(kind, match=text):
        service.inference.run(**asked)


def test_a_graph_with_other_edge_types_is_refused(service, x):
    other = hetune.HeteroGraph(IDS, IDS, num_nodes=7, num_etypes=3)
    with pytest.raises(InputError, match="3 edge types"):
        service.selection.select("m", other)


def test_outputs_over_the_limit_are_refused_before_anything_runs(tmp_path, graph, layers, x):
    service = Service.open(tmp_path, limits=replace(SMALL, run_bytes=300), selector=Selector())
    service.models.add("m", 1, *describe(layers))
    with pytest.raises(TooLargeError, match="features and outputs"):
        service.inference.run("m", graph, x)


def test_copies_of_a_layer_s_rows_count(tmp_path, graph, x):
    rows = 7 * 4 * 4
    least = {(): 3, (torch.nn.LayerNorm(4),): 4, (torch.nn.LayerNorm(4), torch.nn.GELU()): 5}
    for number, (follow, count) in enumerate(least.items()):
        for size in (count * rows, count * rows - 1):
            limits = replace(SMALL, run_bytes=size)
            service = Service.open(tmp_path / f"{number} {size}", limits=limits)
            service.models.add("m", 1, *describe([nn.RGCN(4, 4, 2), *follow]))
            if size == count * rows:
                service.inference.run("m", graph, x)
            else:
                with pytest.raises(TooLargeError, match="features and outputs"):
                    service.inference.run("m", graph, x)


@pytest.mark.parametrize(
    "nodes", [torch.zeros(40, dtype=torch.int16), {"paper": IDS.new_zeros(40)}]
)
def test_rows_count_as_often_as_they_are_asked_for(tmp_path, graph, layers, x, nodes):
    service = Service.open(tmp_path, limits=replace(SMALL, run_bytes=1500), selector=Selector())
    service.models.add("m", 1, *describe(layers))
    service.inference.run("m", graph, x)
    with pytest.raises(TooLargeError, match="features and outputs"):
        service.inference.run("m", graph, x, nodes=nodes)


def test_what_is_no_matter_of_the_folder_stays_what_it_is(tmp_path):
    folder = GraphStore(tmp_path, SMALL).files.folder
    with pytest.raises(RegistryError, match="others"), folder.io("write", may_miss=False):
        raise RegistryError("others can write there")


def test_a_lock_that_cannot_be_taken_is_told(tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(FolderError, match="cannot lock the folder"):
        GraphStore(tmp_path, SMALL)


def test_many_threads_add_and_read_at_once(tmp_path):
    graphs = [hetune.HeteroGraph(IDS, IDS, num_nodes=n) for n in range(2, 8)]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            store = GraphStore(tmp_path, SMALL)
            for g in graphs:
                assert store.get(store.add(g)).fingerprint == g.fingerprint
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(GraphStore(tmp_path, SMALL).all()) == len(graphs)
    assert not list((tmp_path / "staging").iterdir())
