"""Samples of regret: off by default, one at a time, only when nothing else is to be done."""

import asyncio
import threading
import time

import httpx
import pytest

from hetune.service.core.inference.regret import RegretSamples
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.server.app import application
from hetune.service.server.background import sample_regret
from hetune.variants.errors import InputError

from ._serving import serving, tiny_features, tiny_graph
from .test_metrics import value

X = tiny_features()
COUNT = "hetune_regret_sample_count"


def counted(service):
    return sum(value(service, COUNT, layer=layer) for layer in ("rgcn", "rgat"))


@pytest.fixture
def id(service):
    """A graph that the service keeps, and on which the model has run."""
    found = service.graphs.add(tiny_graph())
    service.inference.run("m", found, X)
    return found


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_the_rate_is_a_share(service, rate):
    with pytest.raises(InputError, match="0 to 1"):
        RegretSamples(rate, service.follower, service.engine, service.limits, service.metrics)


def test_nothing_is_sampled_by_default(service, id):
    assert service.regret.rate == 0
    service.inference.run("m", id, X)
    assert not service.regret.is_waiting
    asyncio.run(asyncio.wait_for(sample_regret(Dispatcher.of(service)), 60))


def test_a_sample_compares_the_chosen_variant_with_the_next_ones(service, id):
    service.regret.rate = 1.0
    report = service.inference.run("m", id, X).report
    service.inference.run("m", id, X)
    sample = service.regret.take()
    assert not service.regret.is_waiting
    [layer] = [layer for layer in report.layers if layer.layer == sample.layer]
    assert sample.variants[0] == layer.variant
    assert len(set(sample.variants)) == 3
    assert all(sample.run(variant) > 0 for variant in sample.variants)
    chosen, second, third = sample.variants
    seconds = {chosen: [1.0, 9.0, 3.0], second: [2.0, 2.0, 0.1], third: [5.0, 5.0, 5.0]}
    assert service.regret.record(sample, seconds) == 1.5
    assert value(service, "hetune_regret_sample_sum", layer=sample.layer) == 1.5


@pytest.mark.parametrize("how", ["inline graph", "variant asked for", "memory limited"])
def test_what_was_not_chosen_for_a_kept_graph_is_not_sampled(service, id, how):
    service.regret.rate = 1.0
    if how == "inline graph":
        service.inference.run("m", tiny_graph(), X)
    elif how == "memory limited":
        service.inference.run("m", id, X, memory_limit=1 << 30)
    else:
        service.inference.run("m", id, X, variants=[None, None])
    assert not service.regret.is_waiting


def test_what_would_keep_requests_waiting_is_left_out(service, id, monkeypatch):
    monkeypatch.setattr("hetune.service.core.inference.regret._MOST_SECONDS", 0.0)
    service.regret.rate = 1.0
    service.inference.run("m", id, X)
    assert service.regret.take() is None


def test_an_idle_service_samples_and_answers_stay_the_same(service, id):
    before = service.inference.run("m", id, X).out
    service.regret.rate = 1.0
    asked = {"graph": id, "x": X.tolist()}
    with serving(application(service)) as url, httpx.Client(base_url=url, timeout=60) as http:
        answer = http.post("/v1/models/m/infer", json=asked).json()
        deadline = time.monotonic() + 60
        while counted(service) == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
    assert answer["outputs"]["1"] == before.tolist()
    assert counted(service) == 1
    assert value(service, "hetune_queue_seconds_count") == 1


def test_nothing_is_sampled_while_a_request_is_under_way(service, id, monkeypatch):
    monkeypatch.setattr("hetune.service.server.background.SAMPLE_SECONDS", 0.001)
    service.regret.rate = 1.0
    looked = threading.Event()
    take = service.regret.take
    monkeypatch.setattr(service.regret, "take", lambda: (looked.set(), take())[1])
    service.inference.run("m", id, X)

    async def scenario():
        work = Dispatcher.of(service)
        task = asyncio.create_task(sample_regret(work))
        service.runs._done["a run in parts"] = 0
        with work.computing.entered():
            await asyncio.sleep(0.1)
            assert not looked.is_set()
        await asyncio.sleep(0.05)
        assert not looked.is_set()
        service.runs._done.clear()
        await asyncio.to_thread(looked.wait, 60)
        task.cancel()
        work.close()

    asyncio.run(scenario())
    assert looked.is_set()


def test_a_request_ends_the_sample_that_is_under_way(service, id, monkeypatch):
    monkeypatch.setattr("hetune.service.server.background.SAMPLE_SECONDS", 0.001)
    service.regret.rate = 1.0
    service.inference.run("m", id, X)

    async def scenario():
        work = Dispatcher.of(service)
        gate, runs = work.computing.entered(), []
        taken = service.regret.take()
        kind = type(taken)
        run = kind.run

        def running(sample, variant):
            runs.append(variant)
            if len(runs) == 2:
                gate.__enter__()
            return run(sample, variant)

        monkeypatch.setattr(kind, "run", running)
        monkeypatch.setattr(service.regret, "take", lambda: taken)
        service.inference.run("m", id, X)
        task = asyncio.create_task(sample_regret(work))
        deadline = time.monotonic() + 60
        while len(runs) < 2 and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        task.cancel()
        gate.__exit__(None, None, None)
        return runs

    assert len(asyncio.run(scenario())) == 2
    assert counted(service) == 0
