"""Models that score triples: put by the client, asked over HTTP and the protocol, as in-process."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tests.clients._both import KINDS, connected

import hetune
from hetune.errors import DeadlineError, InputError, TooLargeError, VariantError
from hetune.kge import ScoreModel, scores, top_k
from hetune.service.core.formats.message import MEDIA_TYPE, pack, unpack
from hetune.service.core.inference import deadline, triple_scores
from hetune.service.core.inference.triple_scores import top_entities
from hetune.service.core.models.triple_scores import describe_scores
from hetune.service.server.app import application
from hetune.variants.graph.edge_batch import EdgeBatch
from hetune.variants.runtime.ranking import BYTES_A_SCORE

from ._serving import client_of, make_service, serving

N, R, WIDTH, NAME = 9, 3, 4, "rescal"
HEADS, RELS, TAILS = (torch.tensor(ids) for ids in ([0, 8, 3, 3], [2, 0, 1, 1], [1, 8, 0, 5]))
ASKED = {"heads": HEADS.tolist(), "rels": RELS.tolist(), "tails": TAILS.tolist()}
QUERIES = {"nodes": HEADS.tolist(), "rels": RELS.tolist()}
KNOWN = hetune.HeteroGraph(HEADS, TAILS, RELS, num_nodes=N, num_etypes=R)


@pytest.fixture(scope="module")
def tables():
    random = torch.Generator().manual_seed(0)
    shapes = {"entity": (N, WIDTH), "r": (R, WIDTH, WIDTH)}
    return {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def model(tables, tmp_path_factory):
    """Of a file."""
    path = tmp_path_factory.mktemp("model") / "rescal.safetensors"
    scores[NAME].model(**tables).save(path)
    return ScoreModel.load(path)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """It compiles kernels, and keeps another model, m."""
    return make_service(tmp_path_factory.mktemp("data"), "cpp")


@pytest.fixture(scope="module")
def url(service):
    with serving(application(service)) as url:
        yield url


@pytest.fixture(scope="module", params=KINDS)
def client(url, model, request):
    with connected(request.param, url) as client:
        client.put_model(NAME, model)
        yield client


@pytest.fixture
def http(client, url):
    with client_of(url) as http:
        yield http


def in_process(model, variant):
    """What a variant gives here."""
    names = {param.name for param in model.program.params if param.role == "weight"}
    weights = {name: model.tables[name] for name in names}
    layer = hetune.compile(model.program, weights=weights)
    batch = EdgeBatch(HEADS, TAILS, RELS, num_nodes=N, num_etypes=R)
    with torch.no_grad():
        return layer(model.tables["entity"], batch, variant=variant).flatten()


def test_scores_have_the_bits_of_those_in_process(client, http, model):
    answer = http.post(f"/v1/models/{NAME}/score", json=ASKED | {"explain": True}).json()
    (layer,) = answer["layers"]
    assert layer["layer"] == NAME
    assert layer["measured_seconds"] > 0
    assert layer["explanation"]
    want = in_process(model, layer["variant"])
    assert torch.equal(torch.tensor(answer["scores"]), want)
    assert torch.equal(client.score(NAME, HEADS, RELS.int(), TAILS.tolist()), want)
    found = client.score(NAME, HEADS, RELS, TAILS, variant=layer["variant"], version=1)
    assert torch.equal(found, want)
    assert client.score(NAME, [], [], []).shape == (0,)
    metrics = http.get("/metrics").text
    assert 'hetune_request_seconds_count{route="POST /v1/models/{name}/score"' in metrics
    assert f'hetune_compute_seconds_count{{layer="{NAME}"}}' in metrics


def test_the_protocol_gives_them_too(http, model):
    tensors = ("edge_index", [2, 4], [*ASKED["heads"], *ASKED["tails"]]), ("edge_type", [4], RELS)
    inputs = [
        {"name": name, "shape": shape, "datatype": "INT64", "data": torch.as_tensor(ids).tolist()}
        for name, shape, ids in tensors
    ]
    answer = http.post(f"/v2/models/{NAME}/infer", json={"inputs": inputs}).json()
    found = torch.tensor(answer["outputs"][0]["data"])
    assert torch.equal(found, in_process(model, answer["parameters"]["variants"]))
    metadata = http.get(f"/v2/models/{NAME}").json()
    assert "x" not in [tensor["name"] for tensor in metadata["inputs"]]


@pytest.mark.parametrize("side", ["head", "tail"])
def test_the_best_entities_are_those_of_all_scores(side, client, http, tables):
    nodes, others = (HEADS, TAILS) if side == "tail" else (TAILS, HEADS)
    everyone = scores[NAME].all(nodes, RELS, side=side, **tables)
    for i, (node, rel) in enumerate(zip(nodes.tolist(), RELS.tolist(), strict=True)):
        everyone[i, others[(nodes == node) & (rel == RELS)]] = -torch.inf
    want, order = everyone.sort(dim=1, descending=True)
    known = torch.stack((HEADS, RELS, TAILS), 1)
    id = client.upload_graph(KNOWN)
    for found in (
        top_k(scores[NAME], nodes, RELS, k=3, side=side, known=known, memory_limit=1, **tables),
        client.top_k(NAME, nodes, RELS, k=3, side=side, known=id),
        client.top_k(NAME, nodes, RELS, k=3, side=side, known=KNOWN),
    ):
        torch.testing.assert_close(found.scores, want[:, :3])
        assert torch.equal(found.entities, order[:, :3])
    all_left = client.top_k(NAME, nodes, RELS, k=50, side=side, known=id)
    assert torch.equal(all_left.entities == -1, want.isneginf())
    queries = {"nodes": nodes.tolist(), "rels": RELS.tolist(), "side": side, "k": N, "known": id}
    answer = http.post(f"/v1/models/{NAME}/top-k", json=queries).json()
    for i, entities in enumerate(answer["entities"]):
        left = int(want[i].isfinite().sum())
        assert entities == order[i, :left].tolist()
        assert len(answer["scores"][i]) == left
    inline = {"src": HEADS.tolist(), "dst": TAILS.tolist(), "etype": RELS.tolist()}
    inline |= {"num_nodes": N, "num_etypes": R}
    again = http.post(f"/v1/models/{NAME}/top-k", json=queries | {"known": inline}).json()
    assert again == answer
    assert client.top_k(NAME, [], [], k=2).entities.shape == (0, 2)


def test_what_does_not_fit_is_refused(client, http, service):
    with pytest.raises(InputError, match="m scores no triples"):
        client.score("m", HEADS, RELS, TAILS)
    with pytest.raises(InputError, match=r"tails\[1\] is 9: there are 9 entities"):
        client.score(NAME, [0, 0], [0, 0], [0, 9])
    with pytest.raises(InputError, match="2 heads, 1 rels and 2 tails"):
        client.score(NAME, [0, 0], [0], [0, 1])
    with pytest.raises(VariantError):
        client.score(NAME, HEADS, RELS, TAILS, variant="none")
    with pytest.raises(InputError, match="a ScoreFunction is no model"):
        client.put_model("function", scores[NAME])
    with pytest.raises(InputError, match=r"nodes\[1\] is -1: there are 9 entities"):
        client.top_k(NAME, [0, -1], [0, 0], side="head")
    with pytest.raises(InputError, match="2 nodes and 1 rels"):
        client.top_k(NAME, [0, 0], [0])
    with pytest.raises(InputError, match=r"rels\[0\] is 3"):
        client.top_k(NAME, [0], [3])
    with pytest.raises(InputError, match="the graph has 1 edge type but"):
        client.top_k(NAME, [0], [0], known=hetune.HeteroGraph(HEADS, TAILS, num_nodes=N))
    with pytest.raises(DeadlineError):
        top_entities(
            service.limits,
            service.models.get(NAME),
            HEADS,
            RELS,
            k=1,
            side="tail",
            known=None,
            deadline=0.0,
        )
    small = replace(service.limits, run_bytes=N * 16)
    with pytest.raises(TooLargeError, match="bytes for scores of all entities"):
        top_entities(small, service.models.get(NAME), HEADS, RELS, k=1, side="tail", known=None)
    for path, body in (
        ("score", QUERIES),
        ("score", ASKED | {"k": 1}),
        ("score", ASKED | {"heads": [[0]]}),
        ("score", ASKED | {"heads": [0.5] * 4}),
        ("top-k", QUERIES | {"side": "both"}),
        ("top-k", QUERIES | {"k": 0}),
    ):
        assert http.post(f"/v1/models/{NAME}/{path}", json=body).status_code == 400, body


def test_batches_of_queries_fit_the_limit_and_end_at_the_deadline(client, service, monkeypatch):
    sizes, score = [], ScoreModel.all

    def scored(model, nodes, *args, **kwargs):
        sizes.append(len(nodes))
        return score(model, nodes, *args, **kwargs)

    monkeypatch.setattr(ScoreModel, "all", scored)
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: float(len(sizes))))
    model, answer = service.models.get(NAME), len(HEADS) * 12
    given = {"k": 1, "side": "tail", "known": None}
    nearly = replace(service.limits, run_bytes=answer + 2 * 3 * N * BYTES_A_SCORE - 1)
    top_entities(nearly, model, HEADS, RELS, **given)
    assert sizes == [1, 2, 2]  # the first says how many entities there are
    monkeypatch.setattr(triple_scores, "MEMORY_LIMIT", 3 * N * BYTES_A_SCORE)
    sizes.clear()
    top_entities(service.limits, model, HEADS, RELS, **given)
    assert sizes == [1, 3, 1]
    sizes.clear()
    with pytest.raises(DeadlineError):
        top_entities(service.limits, model, HEADS, RELS, deadline=2.0, **given)
    assert sizes == [1, 3]


def test_containers_are_checked(http):
    ids = {"heads": HEADS, "rels": RELS, "tails": TAILS}
    form = {"Content-Type": MEDIA_TYPE}
    path = f"/v1/models/{NAME}/score"
    answer = http.post(path, content=pack("{}", ids), headers=form)
    assert unpack(answer.content).tensors["scores"].shape == (4,)
    for wrong in ({"heads": HEADS, "rels": RELS}, ids | {"known/src": HEADS}):
        assert http.post(path, content=pack("{}", wrong), headers=form).status_code == 400
    floats = ids | {"heads": HEADS.float()}
    assert http.post(path, content=pack("{}", floats), headers=form).status_code == 422
    for part in ({"known": HEADS}, {"known/src": HEADS}, {"nodes/a": HEADS}):
        body = pack("{}", {"nodes": HEADS, "rels": RELS} | part)  # no document says what is known
        answer = http.post(f"/v1/models/{NAME}/top-k", content=body, headers=form)
        assert answer.status_code == 400, part
    body = pack('{"known": {}}', {"nodes": HEADS, "rels": RELS})
    answer = http.post(f"/v1/models/{NAME}/top-k", content=body, headers=form)
    assert answer.status_code == 400
    assert "give known/src" in answer.json()["detail"]
    beside = pack("{}", ids | {"heads/a": HEADS})
    assert http.post(path, content=beside, headers=form).status_code == 400


def test_a_model_without_entities_is_refused(tables):
    empty = scores[NAME].model(entity=tables["entity"][:0], r=tables["r"])
    with pytest.raises(InputError, match="cannot be served"):
        describe_scores(empty)


def test_tables_of_any_shape_come_back(service):
    random = torch.Generator().manual_seed(1)
    entity, r = (torch.randn(n, 2, 3, generator=random) for n in (N, R))
    bias = torch.randn(N, generator=random)

    @hetune.kge.score
    def gated(h, r, t):
        return (h[0] * r * t[0]).sum() + h[1] - t[1]

    model = gated.model(entity=(entity, bias), r=r)
    service.models.add("gated", 1, *describe_scores(model))
    found = service.models.get("gated").scores
    assert found.program == model.program
    for name, table in model.tables.items():
        assert torch.equal(found.tables[name], table)
