"""`hetune worker`: measuring what jobs ask for."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from hetune.clients.cli import console
from hetune.clients.cli.models import StoreUrl
from hetune.profiling.jobs.worker import JobWorker
from hetune.profiling.store.store import Store
from hetune.profiling.supervisor import Supervisor


def worker(
    store: StoreUrl = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when there is nothing to do.")] = False,
) -> None:
    """Measure what profiling jobs ask for, until it is interrupted.

    A problem that is being measured then is given back, and measured by whoever comes next.
    """
    # As Ctrl-C does: what is claimed is given back on the way out.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Store.open(store) as opened, Supervisor() as supervisor:
            console.out().print(f"working on jobs in {opened.place}", markup=False, soft_wrap=True)
            console.flush()
            JobWorker(opened, supervisor).run(threading.Event().wait, until_idle=once)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)
