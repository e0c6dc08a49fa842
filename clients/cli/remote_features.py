"""`hetune remote features`: features that a service keeps with its graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hetune.clients.cli import console
from hetune.clients.cli.service import Url, connected, read_features, remember_here

app = typer.Typer(
    no_args_is_help=True, help="The features that a service keeps with its graphs, by name."
)
app.callback()(remember_here)

Graph = Annotated[str, typer.Argument(metavar="GRAPH", help="Id of a graph that is kept.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of features.")]


@app.command("put")
def put_features(
    graph: Graph,
    name: Name,
    features: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help=".npy, .npz or .safetensors: one array [N, width], or one per node type.",
        ),
    ],
    url: Url = None,
) -> None:
    """Send features to the service, to be kept with a graph in place of others of that name."""
    rows = read_features(features)
    with connected(url) as client, console.progress_bar("bytes sent") as update:
        found = client.put_features(graph, name, rows, progress=update)
    typer.echo(found.digest)


@app.command("list")
def list_features(graph: Graph, url: Url = None) -> None:
    """List the features that the service keeps with a graph."""
    with connected(url) as client:
        found = client.features(graph)
    rows = console.table("features", "width", "by type", "MB", left=("features", "by type"))
    for each in found:
        by_type = "yes" if each.by_type else "no"
        rows.add_row(each.name, str(each.width), by_type, f"{each.bytes / 1e6:.1f}")
    if found:
        console.out().print(rows)
    console.out().print(console.counted(len(found), "set"))


@app.command("delete")
def delete_features(
    graph: Graph,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of features.")],
    url: Url = None,
) -> None:
    """Delete features from the service."""
    with connected(url) as client:
        for name in names:
            client.delete_features(graph, name)
