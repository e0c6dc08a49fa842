"""Requests that one run answers: identical to their own runs, or not joined at all."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import httpx
import pytest
import torch

from hetune import nn
from hetune.clients import Client
from hetune.costmodel.selector import Selector
from hetune.service.core.inference import batching, joined
from hetune.service.core.inference.run_request import RunRequest
from hetune.service.core.models.stack import describe
from hetune.service.core.service import Service
from hetune.service.server.app import application
from hetune.variants.errors import InputError, MalformedError
from hetune.variants.testing.graphs import typed_graph

from ._serving import serving, tiny_features, tiny_graph
from .test_metrics import value

WIDTH = 64  # products of 16 columns and less round by their place
RELATIONS = [(0, 1), (1, 0), (0, 0)]
SIDES = ["src", "src+scores-src", "src+weights-first"]
SIZE, SUM = "hetune_batch_requests_count", "hetune_batch_requests_sum"


def draw(nodes, edges, seed=0):
    return typed_graph(nodes, [(s, t, n) for (s, t), n in zip(RELATIONS, edges, strict=True)], seed)


GRAPHS = {
    "some edges": draw((40, 30), (90, 60, 30), 1),
    "other edges": draw((25, 35), (40, 10, 55), 2),
    "isolated nodes": draw((200, 60), (5, 3, 2), 3),
    "no edges": draw((4, 3), (0, 0, 0)),
    "no nodes": draw((0, 0), (0, 0, 0)),
}


def layers():
    """One of each kind, with activations that round and that do not."""
    metadata = GRAPHS["some edges"].metadata()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return [
            nn.RGCN(WIDTH, WIDTH, len(RELATIONS)),
            torch.nn.ReLU(),
            nn.HGT(WIDTH, WIDTH, metadata, heads=2),
            torch.nn.Tanh(),
            nn.RGAT(WIDTH, WIDTH, len(RELATIONS)),
        ]


def opened(folder, **options):
    """A service with compiled kernels that joins whatever it may, at once."""
    options = {"batch_requests": 4, **options}
    service = Service.open(folder, selector=Selector(), store=folder / "store.db", **options)
    service.batching.joined.after, service.batching.joined.gain = 1, 0.0
    service.models.add("deep", 1, *describe(layers()))
    choose = service.selection.layers

    def fixed(model, graphs, runs, *, variants=None, **options):
        """The same variants for every graph, as is usual for graphs that are alike."""
        wanted = variants or [
            next(v for v in compiled.variants if v.rpartition("/")[0] in SIDES)
            for compiled in model.compiled
        ]
        return choose(model, graphs, runs, variants=wanted, **options)

    service.selection.layers = fixed
    return service


@pytest.fixture
def compiled(tmp_path):
    return opened(tmp_path / "data")


def asked(service, name="some edges", seed=0, **options):
    """Reads a request on a graph, with features of its own."""
    graph = GRAPHS[name]
    x = torch.randn(graph.num_nodes, WIDTH, generator=torch.Generator().manual_seed(seed))
    return RunRequest(service.graphs.add(graph), x, **options)


def alone(service, request, model="deep"):
    return service.inference.run(
        model, request.graph, request.features, outputs=request.outputs, nodes=request.nodes
    )


def together(service, reads, model="deep", size=0):
    """Answers, or errors, of requests that wait at the same time and have their turns in order."""
    found = []
    with ExitStack() as stack:
        waiting = [
            stack.enter_context(service.batching.waiting(model, read, size)) for read in reads
        ]
        for one in waiting:
            try:
                found.append(service.batching.answer(one))
            except Exception as error:
                found.append(error)
    return found


def given(requests):
    return [lambda request=request: request for request in requests]


def joined_with(answers):
    return [answer.report.batch and answer.report.batch.requests for answer in answers]


def check(service, requests, answers):
    """Each is what its own run gives, bit by bit."""
    for request, answer in zip(requests, answers, strict=True):
        own = alone(service, request)
        assert answer.outputs.keys() == own.outputs.keys()
        for number, rows in own.outputs.items():
            found = answer.outputs[number]
            if isinstance(rows, torch.Tensor):
                assert joined._same_bits(found, rows)
            else:
                assert found.keys() == rows.keys()
                assert all(joined._same_bits(found[name], rows[name]) for name in rows)
        assert answer.report.graph == own.report.graph
        for layer, other in zip(answer.report.layers, own.report.layers, strict=True):
            assert layer.measured_seconds > 0
            assert layer.variant == other.variant
            assert layer.predicted_seconds == other.predicted_seconds


# What is joined has the same bits.


@pytest.mark.parametrize("name", GRAPHS)
def test_copies_of_a_graph(compiled, name):
    requests = [asked(compiled, name, seed) for seed in range(4)]
    answers = together(compiled, given(requests))
    assert joined_with(answers) == [4] * 4
    assert answers[0].report.batch.nodes == 4 * GRAPHS[name].num_nodes
    assert answers[0].report.batch.edges == 4 * GRAPHS[name].num_edges
    check(compiled, requests, answers)


@pytest.mark.parametrize(
    "names", [("some edges", "other edges"), tuple(GRAPHS)[:4], ("no nodes", "no edges")]
)
def test_several_graphs(compiled, names):
    requests = [asked(compiled, name, seed) for seed, name in enumerate(names)]
    answers = together(compiled, given(requests))
    assert joined_with(answers) == [len(names)] * len(names)
    check(compiled, requests, answers)


def test_features_by_type_and_other_outputs(compiled):
    plain = [asked(compiled, seed=seed) for seed in range(3)]
    graph = GRAPHS["some edges"]
    first, second = plain[1].features.split([40, 30])
    requests = [
        replace(plain[0], outputs=[0, 2]),
        replace(plain[1], features=dict(zip(graph.ntype_names, (first, second), strict=True))),
        plain[2],
        asked(compiled, seed=7, outputs=[1]),
    ]
    answers = together(compiled, given(requests))
    assert joined_with(answers) == [4] * 4
    check(compiled, requests, answers)


@pytest.mark.parametrize("jumping", ["cat", "max"])
def test_jumping_connections(compiled, jumping):
    description, weights = describe(layers())
    compiled.models.add("deep", 2, description.model_copy(update={"jumping": jumping}), weights)
    requests = [asked(compiled, seed=seed) for seed in range(2)]
    answers = together(compiled, given(requests))
    assert joined_with(answers) == [2, 2]
    check(compiled, requests, answers)


def test_threads_at_the_same_time(compiled):
    requests = [asked(compiled, seed=seed) for seed in range(8)]

    def ask(request):
        with compiled.batching.waiting("deep", lambda: request, 0) as waiting:
            return compiled.batching.answer(waiting)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, requests))
    check(compiled, requests, answers)


# Who is joined.


def test_nothing_is_by_default(service):
    request = RunRequest(service.graphs.add(tiny_graph()), tiny_features())
    service.batching.joined.after, service.batching.joined.gain = 1, 0.0
    assert joined_with(together(service, given([request] * 4), "m")) == [None] * 4
    assert value(service, SIZE) == 0


@pytest.mark.parametrize(("waiting", "expected"), [(1, [None]), (3, [2, 2, None]), (5, [4] * 4)])
def test_a_power_of_two_up_to_the_most(compiled, waiting, expected):
    requests = [asked(compiled, seed=seed) for seed in range(waiting)]
    assert joined_with(together(compiled, given(requests)))[: len(expected)] == expected
    assert value(compiled, SUM) == waiting


def test_copies_come_before_others(compiled):
    names = ["some edges", "other edges", "some edges", "other edges"]
    requests = [asked(compiled, name, seed) for seed, name in enumerate(names)]
    answers = together(compiled, given(requests))
    assert joined_with(answers) == [2] * 4
    assert [answer.report.batch.nodes for answer in answers] == [140, 120] * 2
    check(compiled, requests, answers)


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": torch.tensor([1])},
        {"variants": [None] * 3},
        {"memory_limit": 1 << 30},
        {"explain": True},
        {"deadline": 1e12},
        {"graph": GRAPHS["some edges"]},
        {"version": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_who_asks_for_something_of_its_own_is_answered_alone(compiled, change):
    compiled.models.add("deep", 2, *describe([nn.RGCN(WIDTH, 8, len(RELATIONS))]))
    requests = [asked(compiled, seed=seed, version=2) for seed in range(3)]
    if "variants" in change:
        change = {"variants": [None]}
    requests.insert(1, replace(requests[0], **change))
    assert joined_with(together(compiled, given(requests))) == [2, None, 2, None]


def test_what_is_large_is_left_alone(compiled, monkeypatch):
    requests = [asked(compiled, seed=seed) for seed in range(4)]
    assert (
        joined_with(together(compiled, given(requests), size=batching.MOST_BYTES + 1)) == [None] * 4
    )
    monkeypatch.setattr(batching, "MOST_SIZE", 3 * 250)
    assert joined_with(together(compiled, given(requests))) == [2] * 4
    monkeypatch.setattr(batching, "MOST_SIZE", 250 + 249)
    assert joined_with(together(compiled, given(requests))) == [None] * 4


def test_another_choice_is_not_joined(compiled, monkeypatch):
    fixed = compiled.selection.layers

    def other(model, graphs, runs, **options):
        if graphs[0].num_edges == GRAPHS["other edges"].num_edges:
            options["variants"] = [compiled.variants[0] for compiled in model.compiled]
        return fixed(model, graphs, runs, **options)

    monkeypatch.setattr(compiled.selection, "layers", other)
    requests = [asked(compiled, "some edges"), asked(compiled, "other edges")]
    assert joined_with(together(compiled, given(requests))) == [None, None]


# Only where it pays, and changes nothing.


def test_graphs_have_to_come_together_repeatedly(compiled):
    compiled.batching.joined.after = 3
    requests = [asked(compiled, seed=seed) for seed in range(2)]
    found = [joined_with(together(compiled, given(requests))) for _ in range(4)]
    assert found == [[None, None]] * 2 + [[2, 2]] * 2


def test_what_would_be_slower_is_not_joined(compiled):
    compiled.batching.joined.gain = float("inf")
    requests = [asked(compiled, seed=seed) for seed in range(2)]
    assert joined_with(together(compiled, given(requests))) == [None, None]


def test_what_would_have_other_bits_is_not_joined(compiled, monkeypatch):
    apart = joined._alone
    monkeypatch.setattr(
        joined, "_alone", lambda *args: [torch.nextafter(x, x + 1) for x in apart(*args)]
    )
    requests = [asked(compiled, seed=seed) for seed in range(2)]
    assert joined_with(together(compiled, given(requests))) == [None, None]
    check(compiled, requests, together(compiled, given(requests)))


def test_relations_keep_their_sides():
    few_sources = typed_graph((2, 30), [(0, 1, 30)])
    few_targets = typed_graph((60, 2), [(0, 1, 60)])
    alike = typed_graph((3, 40), [(0, 1, 40)])
    without = typed_graph((3, 3), [(0, 1, 0)])

    def agree(*graphs):
        return joined._same_sides(graphs, joined.block_diagonal(graphs).graph)

    assert agree(few_sources, alike)
    assert agree(few_sources, few_sources)
    assert agree(few_sources, without)
    assert not agree(few_sources, few_targets)


def test_what_does_not_fit_the_memory_is_not_joined(tmp_path):
    service = opened(tmp_path / "data")
    requests = [asked(service, seed=seed) for seed in range(4)]
    most = max(layer.peak_bytes for layer in alone(service, requests[0]).report.layers)
    nodes = GRAPHS["some edges"].num_nodes
    limits = replace(service.limits, run_bytes=max(most, nodes * 3 * WIDTH * 4))
    small = opened(tmp_path / "small", limits=limits)
    requests = [asked(small, seed=seed) for seed in range(4)]
    assert joined_with(together(small, given(requests))) == [None] * 4


# Nobody's error is another one's.


@pytest.mark.parametrize("position", [0, 1, 3])
def test_a_request_that_is_wrong_fails_alone(compiled, position):
    requests = [asked(compiled, seed=seed) for seed in range(4)]
    wrong = replace(requests[position], features=torch.zeros(3, 3))

    def unreadable():
        raise MalformedError("no request")

    for read, error in ((lambda: wrong, InputError), (unreadable, MalformedError)):
        reads = given(requests)
        reads[position] = read
        answers = together(compiled, reads)
        assert isinstance(answers.pop(position), error)
        others = requests[:position] + requests[position + 1 :]
        assert sorted(joined_with(answers), key=str) == [2, 2, None]
        check(compiled, others, answers)


@pytest.mark.parametrize("error", [InputError("no"), RuntimeError("no")])
def test_a_run_that_fails_leaves_everybody_alone(compiled, monkeypatch, error):
    def fail(parts):
        raise error

    monkeypatch.setattr(compiled.batching.joined, "run", fail)
    requests = [asked(compiled, seed=seed) for seed in range(3)]
    answers = together(compiled, given(requests))
    assert joined_with(answers) == [None] * 3
    check(compiled, requests, answers)


def test_numbers_that_outgrow_float32_separate_requests(compiled):
    requests = [asked(compiled, seed=seed) for seed in range(4)]
    assert joined_with(together(compiled, given(requests))) == [4] * 4
    requests[2] = replace(requests[2], features=torch.full_like(requests[2].features, 1e38))
    answers = together(compiled, given(requests))
    assert joined_with(answers) == [None] * 4
    assert answers[2].report.layers[0].uncompiled is not None
    check(compiled, requests[:2], answers[:2])


def test_who_has_left_is_not_waited_for(compiled):
    requests = [asked(compiled, seed=seed) for seed in range(2)]
    with compiled.batching.waiting("deep", lambda: requests[0], 0) as first:
        with compiled.batching.waiting("deep", lambda: requests[1], 0):
            pass
        assert compiled.batching.answer(first).report.batch is None


@pytest.mark.parametrize(("requests", "delay"), [(0, 0.0), (2, -1.0), (2, float("inf"))])
def test_numbers_out_of_range(tmp_path, requests, delay):
    with pytest.raises(InputError, match="cannot be joined"):
        Service.open(
            tmp_path, selector=Selector(), batch_requests=requests, batch_delay=delay, store=""
        )


# Waiting for others.


def test_a_request_waits_for_others(tmp_path):
    service = opened(tmp_path / "data", batch_requests=2, batch_delay=60)
    first, second = (asked(service, seed=seed) for seed in range(2))
    begun = threading.Event()

    def read():
        begun.set()
        return first

    with ThreadPoolExecutor(1) as pool, service.batching.waiting("deep", read, 0) as one:
        answer = pool.submit(service.batching.answer, one)
        assert begun.wait(60)
        with service.batching.waiting("deep", lambda: second, 0) as other:
            answers = [answer.result(60), service.batching.answer(other)]
    assert joined_with(answers) == [2, 2]
    check(service, [first, second], answers)


def test_over_http(tmp_path):
    service = opened(tmp_path / "data", batch_requests=4, batch_delay=60)
    requests = [asked(service, seed=seed) for seed in range(4)]
    with serving(application(service)) as url, ExitStack() as stack:
        clients = [stack.enter_context(Client(url)) for _ in requests]

        def ask(client, request):
            return client.infer("deep", request.graph, request.features)

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(ask, clients, requests))
    assert joined_with(answers) == [4] * 4
    check(service, requests, answers)
    assert value(service, SIZE) == 1
    assert value(service, SUM) == 4


# Over the Open Inference Protocol.

V2, LENGTH = "/v2/models/deep", "Inference-Header-Content-Length"


def protocol(http, request, **parameters):
    """Asks for a run over the protocol; its answer's parameters, and its rows or status."""
    rows = request.features
    given = {"binary_data_size": rows.nbytes}
    tensor = {"name": "x", "shape": list(rows.shape), "datatype": "FP32", "parameters": given}
    parameters |= {"graph_id": request.graph, "binary_data_output": True}
    text = json.dumps({"inputs": [tensor], "parameters": parameters}).encode()
    content = text + rows.numpy().tobytes()
    found = http.post(f"{V2}/infer", content=content, headers={LENGTH: str(len(text))})
    if found.status_code != 200:
        return found.json(), found.status_code
    head = int(found.headers[LENGTH])
    out = torch.frombuffer(bytearray(found.content[head:]), dtype=torch.float32)
    return json.loads(found.content[:head])["parameters"], out.view(len(rows), -1)


def test_requests_of_both_protocols_are_joined(tmp_path):
    service = opened(tmp_path / "data", batch_requests=4, batch_delay=60)
    requests = [asked(service, seed=seed) for seed in range(4)]
    with (
        serving(application(service)) as url,
        Client(url) as client,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
        ThreadPoolExecutor(4) as pool,
    ):
        native = [
            pool.submit(client.infer, "deep", request.graph, request.features)
            for request in requests[:2]
        ]
        others = [pool.submit(protocol, http, request) for request in requests[2:]]
        answers = [future.result(60) for future in native]
        found = [future.result(60) for future in others]
        stats = http.get(f"{V2}/stats").json()["model_stats"][0]
    check(service, requests[:2], answers)
    assert joined_with(answers) == [4, 4]
    for request, (parameters, rows) in zip(requests[2:], found, strict=True):
        assert parameters["batch"] == 4
        assert torch.equal(rows, alone(service, request).out)
    assert stats["inference_count"] == stats["inference_stats"]["success"]["count"] == 2
    assert stats["execution_count"] == sum(
        batch["compute_infer"]["count"] for batch in stats["batch_stats"]
    )
    assert stats["execution_count"] in (0, 1)  # the run may have been a request's over /v1
    assert value(service, SUM) == 4


def test_the_protocol_counts_a_run_once(tmp_path):
    service = opened(tmp_path / "data", batch_requests=2, batch_delay=60)
    requests = [asked(service, seed=seed) for seed in range(2)]
    with (
        serving(application(service)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
        ThreadPoolExecutor(2) as pool,
    ):
        found = list(pool.map(lambda request: protocol(http, request), requests))
        timed = protocol(http, requests[0], timeout=60_000_000)
        wrong = protocol(http, replace(requests[0], features=torch.zeros(3, 3)), timeout=10**9)
        stats = http.get(f"{V2}/stats").json()["model_stats"][0]
    assert [parameters["batch"] for parameters, _ in found] == [2, 2]
    assert "batch" not in timed[0]  # who has a deadline runs alone
    assert torch.equal(timed[1], found[0][1])
    assert wrong[1] == 400
    assert (stats["inference_count"], stats["execution_count"]) == (3, 2)
    assert [batch["batch_size"] for batch in stats["batch_stats"]] == [1, 2]
    assert stats["inference_stats"]["fail"]["count"] == 1
    assert all(
        stats["inference_stats"][part]["count"] == 3 and stats["inference_stats"][part]["ns"] > 0
        for part in ("queue", "compute_input", "compute_infer", "compute_output")
    )
