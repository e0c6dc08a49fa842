"""What is known to be brief is computed in the event loop, and answered as beside it."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import httpx
import pytest
import torch
from safetensors.torch import load
from starlette.responses import JSONResponse

from hetune.costmodel.following import Given
from hetune.costmodel.selector import Selector
from hetune.service.core import brief
from hetune.service.core.brief import BRIEF_SECONDS, Experience, Times
from hetune.service.core.engine import Engine
from hetune.service.core.message import MEDIA_TYPE, Pieces, grouped
from hetune.service.core.stack import describe
from hetune.service.http import inference
from hetune.service.http.app import application
from hetune.service.http.asgi import UNDER_WAY
from hetune.service.http.body import Media
from hetune.service.http.computer import Computer
from hetune.service.http.work import Work
from hetune.variants.errors import DeadlineError

from ._ground import NotedGround
from ._serving import asking, make_service, serving, tiny_layers

PATH = "/v1/models/m/infer"
BESIDE, HERE = "beside", "here"
SETTLED = 4
"""Requests after which those of their kind are brief."""


class Asked:
    """A service that is asked; where each request was computed."""

    def __init__(self, service, http, id, x):
        self.service, self.http, self.id, self.x = service, http, id, x
        self.places: list[str] = []

    def __call__(self, path=PATH, **demands):
        """One request; gives where it was computed, and the answer."""
        features = None if "features" in demands else self.x
        document = {"graph": self.id} | demands
        nodes = document.pop("nodes", None)
        body = Pieces(json.dumps(document), grouped("x", features) | grouped("nodes", nodes))
        answer = self.http.post(path, content=b"".join(body), headers={"Content-Type": MEDIA_TYPE})
        assert answer.status_code == 200, answer.text
        return self.places[-1], answer

    def settled(self, **demands):
        """Where it is computed in the end."""
        return [self(**demands)[0] for _ in range(SETTLED)][-1]


@pytest.fixture(params=["torch"])
def asked(request, tmp_path, graph, x, monkeypatch):
    """Everything is brief that may be."""
    monkeypatch.setattr(brief, "BRIEF_SECONDS", float("inf"))
    engine = Engine("torch", NotedGround()) if request.param == "elsewhere" else None
    backend = "torch" if engine else request.param
    service = make_service(tmp_path / "data", backend, engine=engine)
    run = type(service.inference).run

    def noted(*args, **kwargs):
        name = threading.current_thread().name
        found.places.append(BESIDE if name.startswith("hetune-compute") else HERE)
        return run(*args, **kwargs)

    monkeypatch.setattr(type(service.inference), "run", noted)
    with asking(application(service)) as http:
        found = Asked(service, http, service.graphs.add(graph), x)
        yield found


@pytest.mark.parametrize("asked", ["torch", "cpp"], indirect=True)
def test_the_first_are_computed_beside_the_loop_and_later_ones_in_it_with_the_same_bits(asked):
    asks = [asked() for _ in range(SETTLED)]
    assert (asks[0][0], asks[-1][0]) == (BESIDE, HERE)
    outputs = [load(answer.content)["out/1"] for _, answer in asks]
    assert all(torch.equal(out, outputs[0]) for out in outputs)


@pytest.mark.parametrize("asked", ["elsewhere"], indirect=True)
def test_what_another_device_computes_stays_beside(asked):
    assert asked.settled() == BESIDE


@pytest.mark.parametrize(
    "demands",
    [
        {"nodes": torch.tensor([1])},
        {"variants": [None, None]},
        {"memory_limit": 10**9},
        {"explain": True},
    ],
)
def test_what_may_take_longer_each_time_stays_beside(asked, demands):
    assert asked.settled() == HERE
    assert asked.settled(**demands) == BESIDE


def test_graphs_that_come_along_and_long_bodies_stay_beside(asked, monkeypatch):
    run = {"graph": {"src": [0], "dst": [1]}, "features": [[1.0] * 4] * 2}
    asked.service.models.add("one", 1, *describe([tiny_layers()[0]]))
    run["graph"]["num_etypes"] = 2
    for _ in range(SETTLED):
        assert asked.http.post("/v1/models/one/infer", json=run).status_code == 200
    assert set(asked.places) == {BESIDE}
    monkeypatch.setattr(inference, "_SHORT", dict.fromkeys(Media, 10))
    assert asked.settled() == BESIDE


def test_other_widths_of_answers_and_features_by_name_are_kinds_of_their_own(asked, x):
    assert asked.settled() == HERE
    assert asked(outputs=[0, 1])[0] == BESIDE
    asked.service.features.put(asked.id, "base", x)
    assert asked.settled(features="base") == HERE
    asked.service.features.put(asked.id, "base", x + 1)
    assert asked(features="base")[0] == BESIDE


def over_the_protocol(asked, *more, **parameters):
    rows = {"name": "x", "shape": [7, 4], "datatype": "FP32", "data": asked.x.flatten().tolist()}
    body = {"inputs": [rows, *more], "parameters": {"graph_id": asked.id} | parameters}
    answer = asked.http.post("/v2/models/m/infer", json=body)
    assert answer.status_code == 200, answer.text
    return asked.places[-1], answer.json()["outputs"]


def test_the_protocol_s_requests_may_be_brief_too(asked):
    asks = [over_the_protocol(asked) for _ in range(SETTLED)]
    assert (asks[0][0], asks[-1][0]) == (BESIDE, HERE)
    assert all(outputs == asks[0][1] for _, outputs in asks)
    nodes = {"name": "nodes", "shape": [1], "datatype": "INT64", "data": [2]}
    assert {over_the_protocol(asked, nodes)[0] for _ in range(SETTLED)} == {BESIDE}
    asked.service.batching._requests, asked.service.batching._delay = 2, 1e-3
    assert over_the_protocol(asked)[0] == BESIDE


def changed_version(asked):
    asked.service.models.add("m", 2, *describe(tiny_layers()))


def unloaded(asked):
    asked.service.models.unload("m")


def another_selector(asked):
    object.__setattr__(asked.service, "following", Given(Selector()))


@pytest.mark.parametrize("change", [changed_version, unloaded, another_selector])
def test_what_has_to_be_read_or_chosen_anew_is_beside_until_it_is_known(asked, change):
    assert asked.settled() == HERE
    change(asked)
    assert asked()[0] == BESIDE
    assert asked.settled() == HERE


def test_requests_that_wait_for_others_are_beside(asked):
    assert asked.settled() == HERE
    asked.service.batching._requests, asked.service.batching._delay = 2, 1e-3
    assert asked.settled() == BESIDE


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([], False),
        ([0.0], True),
        ([1.0], False),
        ([BRIEF_SECONDS], False),
        ([1.0, 0.0], True),
        ([0.0, 1.0], True),
        ([0.0, 1.0, 1.0], False),
        ([1.0, 1.0, 0.0], True),
    ],
)
def test_two_long_ones_in_a_row_are_not_brief(seconds, expected):
    known = {}
    for each in seconds:
        Times(known, "kind").note(each)
    assert Times(known, "kind").are_brief is expected
    assert not Times(known, "another").are_brief


def test_kinds_are_remembered_by_the_number_of_threads_and_not_without_end():
    known, threads = {}, torch.get_num_threads()
    Times(known, "kind").note(0.0)
    try:
        torch.set_num_threads(threads + 1)
        assert not Times(known, "kind").are_brief
    finally:
        torch.set_num_threads(threads)
    for number in range(1000):
        Times(known, number).note(0.0)
    assert len(known) < 100


def among(others):
    """A request that has come with so many others."""
    return SimpleNamespace(scope={"state": {UNDER_WAY: set(range(1 + others))}})


ALONE = among(others=0)
BRIEF = SimpleNamespace(are_brief=True, note=lambda seconds: None)


@pytest.fixture
def work(service):
    found = Work.of(service)
    yield found
    found.close()


def place():
    return BESIDE if threading.current_thread().name.startswith("hetune-compute") else HERE


def test_nothing_is_computed_in_the_loop_while_the_thread_is_at_work(work):
    held = threading.Event()

    async def ask():
        assert await work.compute(place, times=BRIEF) == HERE
        before = asyncio.ensure_future(work.between(held.wait))
        await asyncio.sleep(0)
        assert not work.is_idle_for(ALONE)
        after = asyncio.ensure_future(work.compute(place, times=BRIEF))
        await asyncio.sleep(0)
        held.set()
        await before
        assert await after == BESIDE
        assert await work.compute(place, times=BRIEF) == HERE

    asyncio.run(ask())


def test_nothing_is_computed_in_the_loop_while_others_have_come(work):
    assert work.is_idle_for(ALONE)
    assert not work.is_idle_for(among(others=1))
    with work.watching.entered():
        assert work.is_idle_for(among(others=1))
        assert not work.is_idle_for(among(others=2))
    assert work.is_idle_for(SimpleNamespace(scope={}))  # another server than ours


def test_a_server_tells_how_many_requests_are_under_way():
    released = threading.Event()

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            for what in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{what}.complete"})
            return
        under_way = scope["state"][UNDER_WAY]
        while scope["path"] == "/wait" and not (released.is_set() and len(under_way) == 1):
            await asyncio.sleep(0.01)  # the last that was answered may not have left yet
        await JSONResponse(len(under_way))(scope, receive, send)

    with serving(app) as url, ThreadPoolExecutor(1) as beside:
        assert httpx.get(f"{url}/", timeout=60).json() == 1
        waits = beside.submit(httpx.get, f"{url}/wait", timeout=60)
        while httpx.get(f"{url}/", timeout=60).json() == 1:
            assert not waits.done()
        released.set()
        assert waits.result().json() == 1


def test_deadlines_and_the_wait_count_in_the_loop_too(work):
    count = "hetune_queue_seconds_count"
    waits = work.service.metrics.registry.get_sample_value

    async def late():
        await work.compute(place, time.monotonic() - 1, BRIEF)

    before = waits(count)
    assert asyncio.run(work.compute(place, time.monotonic() + 60, BRIEF)) == HERE
    assert waits(count) == before + 1
    with pytest.raises(DeadlineError):
        asyncio.run(late())


def test_a_computer_is_idle_again_whatever_became_of_what_it_was_given():
    computer, held = Computer(), threading.Event()
    waits = computer.submit(held.wait)
    fails = computer.submit(lambda: 1 / 0)
    dropped = computer.submit(lambda: None)
    assert not computer.is_idle
    assert dropped.cancel()
    held.set()
    assert waits.result(60)
    with pytest.raises(ZeroDivisionError):
        fails.result(60)
    computer.close()
    until = time.monotonic() + 60
    while not computer.is_idle and time.monotonic() < until:
        time.sleep(0.001)
    assert computer.is_idle


def test_who_builds_on_a_graph_keeps_nobody_from_asking(service, graph):
    """Or the event loop would wait for an index of a large graph."""
    id = service.graphs.add(graph.unindexed())
    service.models.get("m")
    begun, held = threading.Event(), threading.Event()

    def build():
        begun.set()
        return held.wait(60)

    with ThreadPoolExecutor(2) as pool:
        pool.submit(service.graphs.get(id).cached, "slow", build)
        assert begun.wait(60)
        asked = pool.submit(Experience(service).times_of, "m", None, id, None, "kind")
        try:
            assert asked.result(30) is not None
        finally:
            held.set()
