"""`hetune store`: copies of what was measured and back, and what was measured elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hetune.clients.cli import console
from hetune.clients.cli.models import StoreUrl
from hetune.profiling.store import backup as copies
from hetune.profiling.store.parquet import import_parquet
from hetune.profiling.store.store import Store

app = typer.Typer(
    no_args_is_help=True, help="Back up measurements and jobs, restore them, and take in others'."
)


@app.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(help="To write; it appears when it is whole.")],
    store: StoreUrl = None,
) -> None:
    """Write measurements and jobs to a file, while others go on writing to the store."""
    _say(copies.backup(store, file), f"in {file}")


@app.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(help="What `hetune store backup` wrote.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Give up what the store holds.")
    ] = False,
    store: StoreUrl = None,
) -> None:
    """Make the store what a backup holds. Stop the service and workers before."""
    _say(copies.restore(file, store, replace=replace), f"restored from {file}")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="What `hetune profile --export` wrote.")],
    store: StoreUrl = None,
) -> None:
    """Add the measurements of a file, of whatever machine, to those of the store."""
    with Store.open(store) as opened:
        added = import_parquet(opened, file)
    were = "was" if added.known == 1 else "were"
    known = f" ({added.known:,} {were} there)" if added.known else ""
    _say(added.new, f"imported from {file}{known}")


def _say(measurements: int, where: str) -> None:
    text = f"{console.counted(measurements, 'measurement')} {where}"
    console.out().print(text, markup=False, soft_wrap=True)
