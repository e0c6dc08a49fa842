"""`hetune remote`: graphs, models and inference of a service that runs somewhere."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.table import Table
from safetensors.torch import save
from torch import Tensor

import hetune
from hetune.clients.cli import console, remote_features, remote_run
from hetune.clients.cli.files import check_writable, read_arrays, write_atomically
from hetune.clients.cli.nodes import NodesOption, SubsetName, SubsetOption, nodes_of
from hetune.clients.cli.options import (
    GraphName,
    MemoryLimit,
    size_of,
    with_options,
)
from hetune.clients.cli.service import Url, connected, read_features, remember, remember_here
from hetune.clients.cli.sources import GraphSource
from hetune.variants.errors import InputError

if TYPE_CHECKING:
    from hetune.clients import Client
    from hetune.service.core.graphs.rows import Rows
    from hetune.service.core.inference.answers import Answer, LayerReport, RunReport

_ID = re.compile(r"[0-9a-f]{32}")

app = typer.Typer(
    no_args_is_help=True,
    help="Use a service that runs somewhere; its key is that of HETUNE_API_KEY.",
)
app.callback()(remember)
graphs = typer.Typer(no_args_is_help=True, help="The graphs that a service keeps.")
models = typer.Typer(no_args_is_help=True, help="The models that a service keeps.")
graphs.callback()(remember_here)
models.callback()(remember_here)
app.add_typer(graphs, name="graphs")
app.add_typer(models, name="models")
app.add_typer(remote_features.app, name="features")
app.command("run")(remote_run.run)

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="Name of a model.")]
KeptGraph = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH", help="Id of a graph that the service keeps, or a graph to send along."
    ),
]
Version = Annotated[int | None, typer.Option(help="Of the model; the latest by default.")]


@graphs.command("list")
def list_graphs(url: Url = None) -> None:
    """List the ids of the graphs that the service keeps, the one used last first."""
    with connected(url) as client:
        for id in client.graphs():
            typer.echo(id)


@graphs.command("upload")
@with_options
def upload_graph(
    graph: GraphName,
    source: GraphSource,
    url: Url = None,
) -> None:
    """Send a graph to the service, and print its id."""
    with connected(url) as client:
        found = replace(source, name=graph).open()
        with console.progress_bar("bytes sent") as update:
            id = client.upload_graph(found, progress=update)
    typer.echo(id)


@graphs.command("edit")
def edit_graph(
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of a graph.")],
    add: Annotated[
        Path | None,
        typer.Option(help="Edges that come, .npz or .safetensors: ids [2, n] for each edge type."),
    ] = None,
    remove: Annotated[Path | None, typer.Option(help="Edges that go: a file of that kind.")] = None,
    add_nodes: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE=COUNT", help="Nodes that come; may be given several times."),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Of parallel edges only as many go as are named.")
    ] = False,
    url: Url = None,
) -> None:
    """Change a graph of the service, which keeps it, too, and print the id of the new one."""
    with connected(url) as client:
        typer.echo(
            client.edit_graph(
                id,
                add=None if add is None else read_arrays(add),
                remove=None if remove is None else read_arrays(remove),
                add_nodes=dict(map(_type_and_count, add_nodes or ())),
                parallel="each" if each else "all",
            )
        )


@graphs.command("delete")
def delete_graphs(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of graphs.")],
    url: Url = None,
) -> None:
    """Delete graphs from the service."""
    with connected(url) as client:
        for id in ids:
            client.delete_graph(id)


@models.command("list")
def list_models(url: Url = None) -> None:
    """List the models that the service keeps, and their versions."""
    with connected(url) as client:
        found = client.models()
    rows = console.table("model", "versions", left=("model", "versions"))
    for name, versions in found.items():
        rows.add_row(name, ", ".join(map(str, versions)))
    if found:
        console.out().print(rows)
    console.out().print(console.counted(len(found), "model"))


@app.command("infer")
def infer(
    model: ModelName,
    graph: KeptGraph,
    out: Annotated[
        Path,
        typer.Option(
            help="Write the output here: .npy, or safetensors with `out` or `out/<node type>`."
        ),
    ],
    features: Annotated[
        Path | None,
        typer.Option(
            help="Features, .npy, .npz or .safetensors: one array [N, width], or one per node type."
        ),
    ] = None,
    stored: Annotated[
        str | None,
        typer.Option(help="Name of features that the service keeps with the graph."),
    ] = None,
    nodes: NodesOption = None,
    subset: SubsetOption = SubsetName.auto,
    version: Version = None,
    memory_limit: MemoryLimit = None,
    deadline: Annotated[
        float | None, typer.Option(help="Seconds after which the service gives the run up.")
    ] = None,
    url: Url = None,
) -> None:
    """Run a model of the service on a graph, and write its output."""
    if (features is None) == (stored is None):
        raise InputError("give either --features or --stored: a file, or a name")
    x, ids = stored if features is None else read_features(features), nodes_of(nodes or ())
    assert x is not None
    check_writable(out)
    with connected(url) as client:
        by_type = _is_by_type(x, client, graph) if ids is None else isinstance(ids, dict)
        if out.suffix == ".npy" and by_type:
            what = f"{features or stored} has features" if ids is None else "--nodes has ids"
            raise InputError(
                f"{what} by node type, and so is the output: write it to a .safetensors file, for "
                f"{out} can hold one array only"
            )
        answer = client.infer(
            model,
            _graph(graph),
            x,
            nodes=ids,
            subset=subset.value,
            version=version,
            memory_limit=size_of(memory_limit, "--memory-limit"),
            deadline_seconds=deadline,
        )
    write_atomically(out, _content(answer, is_npy=out.suffix == ".npy"))
    terminal = console.beside(out)
    terminal.print(_table(answer.report))
    if (how := answer.report.subset) is not None:
        terminal.print(f"rows by {how.how}: {how.reason}", markup=False, soft_wrap=True)
    for number, layer in enumerate(answer.report.layers):
        if layer.uncompiled is not None:
            terminal.print(f"{number} uncompiled: {layer.uncompiled}", markup=False, soft_wrap=True)
    terminal.print(f"wrote {_shapes(answer.out)} float32 to {out}", markup=False, soft_wrap=True)


@app.command("select")
def select(
    model: ModelName,
    graph: KeptGraph,
    version: Version = None,
    memory_limit: MemoryLimit = None,
    url: Url = None,
) -> None:
    """Say which variants the service would run, and why; nothing is run."""
    with connected(url) as client:
        report = client.select(
            model,
            _graph(graph),
            version=version,
            memory_limit=size_of(memory_limit, "--memory-limit"),
        )
    terminal = console.out()
    terminal.print(_table(report))
    for number, layer in enumerate(report.layers):
        terminal.print(f"{number} {layer.variant}: {layer.reason}", markup=False, soft_wrap=True)


def _is_by_type(x: Tensor | dict[str, Tensor] | str, client: Client, graph: str) -> bool:
    if isinstance(x, str):
        return any(each.name == x and each.by_type for each in client.features(graph))
    return isinstance(x, dict)


def _graph(name: str) -> hetune.HeteroGraph | str:
    """An id as it is; else the graph of a file or of a name that can be generated."""
    if _ID.fullmatch(name) and not Path(name).exists():
        return name
    return GraphSource(name).open()


def _type_and_count(given: str) -> tuple[str, int]:
    name, _, count = given.rpartition("=")
    if not (name and count.isdecimal()):
        raise InputError(f"--add-nodes {given}: give a node type and a number, such as paper=2")
    return name, int(count)


def _content(answer: Answer, is_npy: bool) -> bytes:
    """The file of an output."""
    rows, report = answer.out, answer.report
    if isinstance(rows, Tensor):
        if is_npy:
            buffer = io.BytesIO()
            np.save(buffer, rows.numpy(), allow_pickle=False)
            return buffer.getvalue()
        tensors = {"out": rows.contiguous()}
    else:
        tensors = {f"out/{name}": part.contiguous() for name, part in rows.items()}
    metadata = {
        "graph_fingerprint": report.graph,
        "model": report.model,
        "version": str(report.version),
        "variants": ",".join(layer.variant for layer in report.layers),
        "hetune": hetune.__version__,
    }
    content: bytes = save(tensors, metadata)
    return content


def _table(report: RunReport) -> Table:
    rows = console.table(
        *("", "layer", "variant", "predicted ms", "measured ms", "peak MB"),
        left=("layer", "variant"),
        title=f"{report.model} {report.version} on {report.graph}",
        caption=console.PEAK,
    )
    for number, layer in enumerate(report.layers):
        rows.add_row(
            str(number),
            layer.layer,
            layer.variant,
            f"{layer.predicted_seconds * 1e3:.3f}",
            _measured(layer),
            f"{layer.peak_bytes / 1e6:.1f}",
        )
    return rows


def _measured(layer: LayerReport) -> str:
    return "" if layer.measured_seconds is None else f"{layer.measured_seconds * 1e3:.3f}"


def _shapes(rows: Rows) -> str:
    if isinstance(rows, Tensor):
        return str(list(rows.shape))
    return ", ".join(f"{name} {list(part.shape)}" for name, part in rows.items())
