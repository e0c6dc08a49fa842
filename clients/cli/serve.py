"""`hetune serve`: the service on this machine."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from hetune.clients.cli import console
from hetune.clients.cli.models import StoreUrl
from hetune.clients.cli.options import MemoryLimit, Threads, importing_the_service, use_threads
from hetune.service.http.logs import LogStyle, configure
from hetune.variants.errors import FolderError, InputError, StoreError

_log = logging.getLogger(__name__)
_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

Config = Annotated[
    Path | None,
    typer.Option(envvar="HETUNE_CONFIG", help="TOML file of settings.", show_default=False),
]
Data = Annotated[
    Path | None, typer.Option(help="Folder of graphs, models and keys; the user's by default.")
]


def serve(
    config: Config = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; 127.0.0.1 by default.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 8000 by default, 0 takes a free one.")
    ] = None,
    data: Data = None,
    quota: Annotated[
        str | None,
        typer.Option(help="Keep at most so much of graphs and features on disk, such as 50GB."),
    ] = None,
    max_body: Annotated[
        str | None, typer.Option(help="Accept bodies of at most so much, such as 2GB.")
    ] = None,
    memory_limit: MemoryLimit = None,
    store: StoreUrl = None,
    worker: Annotated[
        bool | None,
        typer.Option(
            "--worker/--no-worker",
            help="Measure what profiling jobs ask for, too, in a process of its own; it does by "
            "default. Cost models are trained in any case.",
        ),
    ] = None,
    insecure: Annotated[
        bool | None, typer.Option("--insecure", help="Let other machines in without a key.")
    ] = None,
    regret_samples: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Share of runs, 0 to 1, of which a layer is run again by other variants while "
            "the service is idle, for the metric hetune_regret_sample; 0 by default.",
        ),
    ] = None,
    tracing: Annotated[
        bool | None,
        typer.Option(
            "--tracing/--no-tracing",
            help="Send traces over OTLP; by default if OTEL_* variables say where to.",
            show_default=False,
        ),
    ] = None,
    log: Annotated[
        LogStyle | None, typer.Option(help="How the log is written; text by default.")
    ] = None,
    threads: Threads = None,
    device: Annotated[
        str | None, typer.Option(help="Where layers run: cpu, which is the default, cuda, cuda:1.")
    ] = None,
) -> None:
    """Serve graphs, models, inference and profiling jobs over HTTP, until it is interrupted.

    Options go before the environment (HETUNE_PORT, ...), and that before the file of settings.
    """
    with importing_the_service():
        from hetune.profiling.store.connect import SECONDS_VARIABLE, held
        from hetune.profiling.workers.activity import Activity
        from hetune.profiling.workers.service_worker import ServiceWorker
        from hetune.service.core.keys.access import weakness
        from hetune.service.core.keys.keys import FILE, Keys
        from hetune.service.core.models.engine import Engine
        from hetune.service.core.service import Service
        from hetune.service.server import server
        from hetune.service.server import tracing as traces
        from hetune.service.server.app import application
        from hetune.service.settings import Settings

    settings = Settings.load(
        config,
        host=host,
        port=port,
        service_data=data,
        quota=quota,
        max_body=max_body,
        memory_limit=memory_limit,
        store=store,
        worker=worker,
        insecure=insecure,
        regret_samples=regret_samples,
        tracing=tracing,
        log=log,
        threads=threads,
        device=device,
    )
    use_threads(settings.threads)
    os.environ[SECONDS_VARIABLE] = str(settings.store_seconds)  # for processes of its own, too
    key = settings.root_key()
    is_local = server.is_loopback(settings.host)
    with _is_input():
        is_open = key is None and not Keys(settings.service_data / FILE).all()
    if is_open and not is_local and not settings.insecure:
        raise InputError(
            f"{settings.host} can be reached from other machines: make keys with `hetune keys "
            "create`, set HETUNE_API_KEY to one that clients have to send, or give --insecure to "
            "let everybody in"
        )
    weak = weakness(key)
    if weak is not None and not is_local:
        raise InputError(weak)
    limits = settings.limits()
    engine = Engine.on(
        settings.device, cuda_graph=settings.cuda_graph, most_bytes=limits.device_bytes
    )
    stopping = threading.Event()
    with ExitStack() as stack:
        with _is_input():
            stack.enter_context(held(settings.store))
        tracer = None
        if traces.is_wanted(settings.tracing, os.environ):
            provider = traces.open_tracing(os.environ)
            stack.callback(provider.shutdown)
            tracer = provider.get_tracer("hetune")
        listener = stack.enter_context(server.bind(settings.host, settings.port))
        configure(settings.log)
        if weak is not None:
            _log.warning("%s", weak)
        with _is_input():
            service = Service.open(
                settings.service_data,
                limits=limits,
                engine=engine,
                store=settings.store,
                regret_rate=settings.regret_samples,
                warm=settings.warm or (),
                prepares=False,
                large_graphs=settings.large_graphs,
                ray=settings.ray,
            )
        activity = Activity() if settings.worker else None
        workers = [ServiceWorker(settings.store)]
        if activity is not None:
            workers.append(ServiceWorker(settings.store, activity, poll_seconds=1.0))
        for each in workers:
            stack.enter_context(each)
        for each in workers:
            stack.callback(each.end)  # all of them, before the first is waited for
        hosts = _OWN_NAMES | {settings.host.lower()} if is_open and is_local else None
        app = application(
            service, key=key, hosts=hosts, stopping=stopping, activity=activity, tracer=tracer
        )
        url = server.url_of(listener)
        server.run_until_told(
            server.Server(app, grace=settings.grace_seconds, stopping=stopping),
            listener,
            lambda: console.out().print(
                f"hetune serves on {url} (pages: {url}/ API: {url}/v1/openapi.json)",
                markup=False,
                soft_wrap=True,
            ),
        )
    server.leave_threads()


@contextmanager
def _is_input() -> Iterator[None]:
    """What is wrong with a place that was named is wrong with the settings."""
    try:
        yield
    except (FolderError, StoreError) as error:
        raise InputError(str(error)) from error
