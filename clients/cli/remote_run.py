"""`hetune remote run`: a model on a kept graph, part by part."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from hetune.clients.cli import console
from hetune.clients.cli.files import check_writable, replacing
from hetune.clients.cli.service import Url, connected
from hetune.variants.errors import InputError, ServiceError

_LOOK_SECONDS = 0.5


def run(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of a model.")],
    graph: Annotated[
        str, typer.Argument(metavar="GRAPH", help="Id of a kept graph, or name of a large one.")
    ],
    features: Annotated[
        str, typer.Argument(metavar="FEATURES", help="Name of features that are kept with it.")
    ],
    out: Annotated[Path, typer.Option(help="The .npy file to write.")],
    version: Annotated[
        int | None, typer.Option(help="Of the model; the latest by default.")
    ] = None,
    url: Url = None,
) -> None:
    """Run a model part by part between a service's requests, wait, and write its rows.

    The run goes on where this is interrupted; the same command waits for it again. It is deleted
    from the service in the end, unless it was there before this command.
    """
    if out.suffix != ".npy":
        raise InputError(f"--out: {out} is no .npy file: name one")
    check_writable(out)
    with connected(url) as client, console.progress_bar("edges", left=True) as update:
        known = {run.id for run in client.runs.list().runs}
        found = client.runs.submit(model, graph, features, version=version)
        while found.finished is None:
            update(found.edges_done, found.edges)
            time.sleep(_LOOK_SECONDS)
            found = client.runs.get(found.id)
        if found.error:
            raise ServiceError(f"the run {found.id} has failed: {found.error}")
        with replacing(out) as file:
            client.runs.save_rows(found.id, file)
        if found.id not in known:
            client.runs.delete(found.id)
    shape = [found.nodes, found.width]
    console.out().print(f"wrote {shape} float32 to {out}", markup=False, soft_wrap=True)
