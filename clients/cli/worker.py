"""`hetune worker`: measuring what jobs ask for."""

from __future__ import annotations

import math
import signal
import time
from contextlib import ExitStack
from random import uniform
from typing import TYPE_CHECKING, Annotated

import typer

from hetune.clients.cli import console
from hetune.clients.cli.models import StoreUrl
from hetune.clients.cli.options import importing_the_service
from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.records import Trains
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.store.store import Store
from hetune.profiling.workers.job_worker import JobWorker
from hetune.profiling.workers.training_process import TrainingProcess
from hetune.profiling.workers.work_source import Retry
from hetune.variants.errors import InputError

if TYPE_CHECKING:
    from hetune.clients.http.leases import HttpLeases

_POLL_SECONDS = 1.0
_POLL_HTTP_SECONDS = 5.0


def worker(
    store: StoreUrl = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Of a service whose jobs to work on, in place of a store; its key is that of "
            "HETUNE_API_KEY."
        ),
    ] = None,
    train: Annotated[
        bool,
        typer.Option(
            "--train/--no-train",
            help="Train the cost models of a store's jobs, too; it does by default.",
        ),
    ] = True,
    once: Annotated[bool, typer.Option("--once", help="Stop when there is nothing to do.")] = False,
) -> None:
    """Measure what profiling jobs ask for, until it is interrupted.

    A problem that is being measured then is given back, and measured by whoever comes next.
    """
    if url is not None and store is not None:
        raise InputError("work is that of a store or of a service: give --store or --url")
    # As Ctrl-C does: what is claimed is given back on the way out.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            supervisor = stack.enter_context(Supervisor())
            if url is None:
                opened = stack.enter_context(_opened(store, wait=not once))
                place, poll_seconds = opened.place, _POLL_SECONDS
                leases = Leases(opened, trains=Trains.OWN if train else Trains.NOTHING)
                found = JobWorker(leases, supervisor, train=TrainingProcess(store))
            else:
                remote = stack.enter_context(_remote(url))
                place, poll_seconds = remote.place, _POLL_HTTP_SECONDS
                found = JobWorker(remote, supervisor)
            console.out().print(f"working on jobs in {place}", markup=False, soft_wrap=True)
            console.flush()
            found.run(_wait, until_idle=once, poll_seconds=poll_seconds)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _opened(url: str | None, *, wait: bool) -> Store:
    """The store; one that is away is waited for, if asked."""
    patience = Retry(_wait, math.inf if wait else 0.0)
    return patience(lambda: Store.open(url), "the worker waits for its store")


def _remote(url: str) -> HttpLeases:
    with importing_the_service("hetune worker --url"):
        from hetune.clients.http.leases import HttpLeases
    return HttpLeases(url)


def _wait(seconds: float) -> bool:
    """Never stops it; many workers do not ask all at once."""
    time.sleep(seconds * uniform(0.5, 1.5))  # noqa: S311 (nothing secret)
    return False
