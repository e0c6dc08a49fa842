"""A tiny graph, a model on it, and services over temporary folders, also on a port."""

import asyncio
import faulthandler
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import torch

import hetune
from hetune import nn
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.costmodel.selection.selector import Selector
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.jobs.measurements import Measurements
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.stack import describe
from hetune.service.core.service import Service
from hetune.service.http.asgi import App
from hetune.service.server.server import Server, bind, url_of

LIMITS = ServiceLimits(json_bytes=20_000, body_bytes=200_000, nodes=1000, edges=5000, types=100)


def tiny_graph() -> hetune.HeteroGraph:
    """7 nodes of two types, 9 edges of two types."""
    return hetune.HeteroGraph(
        torch.tensor([0, 1, 2, 0, 1, 2, 2, 0, 1]),
        torch.tensor([3, 4, 5, 4, 5, 3, 4, 3, 5]),
        torch.tensor([0, 0, 0, 1, 1, 1, 1, 0, 0]),
        torch.tensor([0, 0, 0, 1, 1, 1, 1]),
        ntype_names=["author", "paper"],
        etype_names=["writes", "reads"],
    )


def tiny_layers() -> list[torch.nn.Module]:
    """Two layers for that graph, with an activation between them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return [nn.RGCN(4, 6, 2), torch.nn.ReLU(), nn.RGAT(6, 2, 2, heads=2)]


def tiny_features() -> torch.Tensor:
    """Features, [7, 4]."""
    return torch.randn(7, 4, generator=torch.Generator().manual_seed(1))


def make_service(
    folder: Path, backend: str = "torch", limits: ServiceLimits = LIMITS, **options: Any
) -> Service:
    """A service that keeps the model m."""
    engine = options.get("engine") or Engine(backend)
    service = Service.open(
        folder,
        limits=limits,
        selector=Selector(device=engine.target),
        backend=backend,
        store=folder / "measurements.db",
        registry=ModelRegistry(folder / "registry"),
        **options,
    )
    service.models.add("m", 1, *describe(tiny_layers()))
    return service


@contextmanager
def files_left(count: int) -> Iterator[None]:
    """Meanwhile so many files may be opened, beside those that are open."""
    os.close(lowest := os.open(os.devnull, os.O_RDONLY))
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + count, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


def note_who_asks(monkeypatch) -> list[str]:
    """Names of the threads that ask databases from now on."""
    names, ask = [], Measurements._open

    def noted(measurements: Measurements):
        names.append(threading.current_thread().name)
        return ask(measurements)

    monkeypatch.setattr(Measurements, "_open", noted)
    return names


@contextmanager
def serving(app: App) -> Iterator[str]:
    """An application on a loopback port of its own; gives its URL."""
    server = Server(app, grace=5)
    with bind("127.0.0.1", 0) as listener:
        thread = threading.Thread(
            target=lambda: asyncio.run(server.serve([listener])), name="serving"
        )
        thread.start()
        deadline = time.monotonic() + 60
        while not server.started and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.005)
        assert server.started
        try:
            yield url_of(listener)
        finally:
            server.should_exit = True
            thread.join(60)
            if thread.is_alive():
                faulthandler.dump_traceback(sys.__stderr__)  # what it waits for
        assert not thread.is_alive()


def client_of(url: str, timeout: float = 60, **options: Any) -> httpx.Client:
    """A plain client of a service, which knows no proxy."""
    return httpx.Client(base_url=url, trust_env=False, timeout=timeout, **options)


@contextmanager
def asking(app: App, **options: Any) -> Iterator[httpx.Client]:
    """A plain client of an application that is served meanwhile."""
    with serving(app) as url, client_of(url, **options) as client:
        yield client
