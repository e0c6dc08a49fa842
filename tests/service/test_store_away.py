"""A database that hangs, and a file that is deleted, under a service that runs."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest
from tests.profiling._server import own_server

from hetune.service.core.jobs.jobs import Jobs
from hetune.service.core.jobs.measurements import Measurements
from hetune.service.server.app import application

from ._serving import LIMITS, asking, client_of, serving
from .test_http import is_problem
from .test_jobs_http import CAMPAIGN, JOBS

REQUESTS = 20
MOST_SECONDS = 10.0
"""Of requests together that each may take 1 s to find out; the machine may be busy."""


def with_store(service, url):
    measurements = Measurements(url)
    return replace(
        service, measurements=measurements, jobs=Jobs(measurements, LIMITS, service.models)
    )


@pytest.mark.postgresql
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "new"])
def test_a_database_that_hangs_is_not_waited_for(service, monkeypatch, is_known):
    monkeypatch.setenv("HETUNE_STORE_SECONDS", "1")
    with ExitStack() as stack:
        server = stack.enter_context(own_server())
        app = application(with_store(service, server.url))
        client = stack.enter_context(asking(app, timeout=60))
        if is_known:
            assert client.get(JOBS).status_code == 200
        with server.frozen(), ThreadPoolExecutor(REQUESTS) as pool:
            begun = time.monotonic()
            answers = list(pool.map(lambda _: client.get(JOBS), range(REQUESTS)))
            answers.append(client.post(JOBS, json={"campaign": CAMPAIGN}))
            assert time.monotonic() - begun < MOST_SECONDS
            assert client.get("/readyz").status_code == 200  # inference goes on
        for answer in answers:
            is_problem(answer, 503, "StoreError")
        time.sleep(1.1)  # it is not asked again at once
        assert client.get(JOBS).status_code == 200


@pytest.mark.postgresql
def test_a_stop_does_not_wait_for_a_database_that_hangs(service, monkeypatch):
    monkeypatch.setenv("HETUNE_STORE_SECONDS", "1")
    with own_server() as server, ThreadPoolExecutor(1) as pool, ExitStack() as running:
        url = running.enter_context(serving(application(with_store(service, server.url))))
        with client_of(url) as client:
            assert client.get(JOBS).status_code == 200
            with server.frozen():
                waiting = pool.submit(client.get, JOBS)
                time.sleep(0.2)  # it waits for the database by now
                begun = time.monotonic()
                running.close()
                assert time.monotonic() - begun < MOST_SECONDS
                assert waiting.result().status_code == 503


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_a_file_that_is_deleted_is_said(service, ending):
    with asking(application(service), timeout=60) as client:
        assert client.post(JOBS, json={"campaign": CAMPAIGN}).status_code == 201
        assert client.get("/readyz").status_code == 200
        (service.folder.root / f"measurements.db{ending}").unlink()
        for answer in (
            client.post(JOBS, json={"campaign": CAMPAIGN}),
            client.get(JOBS),
            client.get("/readyz"),
        ):
            is_problem(answer, 503, "StoreError")
        assert client.get("/healthz").status_code == 200
