"""`hetune serve`: the service on this machine."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import platformdirs
import typer

from hetune.clients.cli import console
from hetune.clients.cli.models import StoreUrl
from hetune.clients.cli.options import MemoryLimit, Threads, size_of, use_threads
from hetune.service.http.logs import LogStyle, configure
from hetune.variants.errors import InputError

KEY_VARIABLE = "HETUNE_API_KEY"
MISSING = "this command needs more packages: pip install 'hetune[service]'"
_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    data: Annotated[
        Path | None, typer.Option(help="Folder of graphs and models; the user's by default.")
    ] = None,
    quota: Annotated[
        str | None, typer.Option(help="Keep at most so much of graphs on disk, such as 50GB.")
    ] = None,
    max_body: Annotated[
        str | None, typer.Option(help="Accept bodies of at most so much, such as 2GB.")
    ] = None,
    memory_limit: MemoryLimit = None,
    store: StoreUrl = None,
    worker: Annotated[
        bool,
        typer.Option(
            "--worker/--no-worker", help="Work on profiling jobs, too, in a process of its own."
        ),
    ] = True,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines in without a key.")
    ] = False,
    log: Annotated[
        LogStyle, typer.Option(help="How the log is written.", envvar="HETUNE_LOG")
    ] = LogStyle.text,
    threads: Threads = None,
) -> None:
    """Serve graphs, models, inference and profiling jobs over HTTP, until it is interrupted."""
    try:
        from hetune.profiling.jobs.activity import Activity
        from hetune.profiling.jobs.keeper import Keeper
        from hetune.service.core.keys import FILE, Keys
        from hetune.service.core.limits import Limits
        from hetune.service.core.service import Service
        from hetune.service.http import server
        from hetune.service.http.app import application
    except ModuleNotFoundError as error:
        raise InputError(f"{MISSING} ({error.name} is missing)") from error

    use_threads(threads)
    key = os.environ.get(KEY_VARIABLE) or None
    folder = data or own_folder()
    is_local = server.is_loopback(host)
    is_open = key is None and not Keys(folder / FILE).all()
    if is_open and not is_local and not insecure:
        raise InputError(
            f"{host} can be reached from other machines: make keys with `hetune keys create`, set "
            f"{KEY_VARIABLE} to one that clients have to send, or give --insecure to let everybody "
            "in"
        )
    sizes = {
        "stored_bytes": size_of(quota, "--quota"),
        "body_bytes": size_of(max_body, "--max-body"),
        "run_bytes": size_of(memory_limit, "--memory-limit"),
    }
    limits = Limits(**{name: size for name, size in sizes.items() if size is not None})
    stopping = threading.Event()
    with ExitStack() as stack:
        listener = stack.enter_context(server.bind(host, port))
        configure(log)
        service = Service.open(folder, limits=limits, store=store)
        activity = None
        if worker:
            activity = Activity.create()
            stack.callback(activity.close)
            stack.enter_context(Keeper(activity, store))
        hosts = _OWN_NAMES | {host.lower()} if is_open and is_local else None
        app = application(service, key=key, hosts=hosts, stopping=stopping, activity=activity)
        url = server.url_of(listener)
        server.run_until_told(
            server.Server(app, stopping=stopping),
            listener,
            lambda: console.out().print(
                f"hetune serves on {url} (pages: {url}/ API: {url}/v1/openapi.json)",
                markup=False,
                soft_wrap=True,
            ),
        )


def own_folder() -> Path:
    """Where the service of this user keeps things, unless it is told otherwise."""
    return Path(platformdirs.user_data_dir("hetune")) / "service"
