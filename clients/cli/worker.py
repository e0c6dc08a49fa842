"""`hetune worker`: measuring what jobs ask for."""

from __future__ import annotations

import json
import math
import time
from contextlib import ExitStack
from random import uniform
from typing import Annotated

import typer

from hetune.clients.cli import console
from hetune.clients.cli.models import StoreUrl
from hetune.clients.cli.termination import interrupted_by_sigterm
from hetune.costmodel.fingerprint import this_machine
from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.records import Trains
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.store.store import Store
from hetune.profiling.workers.failures import Retry
from hetune.profiling.workers.job_worker import JobWorker
from hetune.profiling.workers.ray_machine import ray_resources
from hetune.profiling.workers.ray_worker import RayWorker
from hetune.profiling.workers.service_worker import ServiceWorker
from hetune.profiling.workers.training_process import TrainingProcess
from hetune.variants.errors import InputError
from hetune.variants.partition.ray_cluster import ray_cluster


def worker(
    store: StoreUrl = None,
    train: Annotated[
        bool,
        typer.Option(
            "--train/--no-train", help="Train the jobs' cost models, too; it does by default."
        ),
    ] = True,
    ray: Annotated[
        bool,
        typer.Option("--ray", help="Measure on the machines of a Ray cluster, in place of this."),
    ] = False,
    address: Annotated[
        str | None,
        typer.Option(help="Of the Ray cluster; by default as Ray's settings say."),
    ] = None,
    resources: Annotated[
        bool,
        typer.Option(
            "--ray-resources",
            help="Print what `ray start --resources` takes for this machine to measure, and stop.",
        ),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop when there is nothing to do.")] = False,
) -> None:
    """Measure what profiling jobs ask for, until it is interrupted.

    A task at work then is given back, and done by whoever comes next.
    """
    if resources:
        typer.echo(json.dumps(ray_resources(this_machine())))
        return
    if address is not None and not ray:
        raise InputError("--address needs --ray")
    with interrupted_by_sigterm(), ExitStack() as stack:
        opened = stack.enter_context(_opened(store, wait=not once))
        cluster = stack.enter_context(ray_cluster(address)) if ray else None
        console.out().print(f"working on jobs in {opened.place}", markup=False, soft_wrap=True)
        console.flush()
        if cluster is None:
            supervisor = stack.enter_context(Supervisor())
            leases = Leases(opened, trains=Trains.OWN if train else Trains.NOTHING)
            here = JobWorker(leases, supervisor, train=TrainingProcess(store))
            here.run(_wait, until_idle=once)
            return
        if train and not once:
            stack.enter_context(ServiceWorker(store))  # it trains, and measures nothing
        RayWorker(cluster, opened).run(_wait, until_idle=once)
        if train:
            leases = Leases(opened, trains=Trains.ONLY)
            JobWorker(leases, train=TrainingProcess(store)).run(_wait, until_idle=True)


def _opened(url: str | None, *, wait: bool) -> Store:
    """The store; one that is away is waited for, if asked."""
    patience = Retry(_wait, math.inf if wait else 0.0)
    return patience(lambda: Store.open(url), "the worker waits for its store")


def _wait(seconds: float) -> bool:
    """Never stops it; many workers do not ask all at once."""
    time.sleep(seconds * uniform(0.5, 1.5))  # noqa: S311 (nothing secret)
    return False
