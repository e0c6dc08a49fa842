"""`hetune store`: copies of what was measured, what was measured elsewhere, what is to go."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hetune.clients.cli import console
from hetune.clients.cli.models import StoreUrl
from hetune.profiling.store import backup as copies
from hetune.profiling.store.parquet import import_parquet
from hetune.profiling.store.prune import Prune, matching, remove
from hetune.profiling.store.store import Store


class OnError(StrEnum):
    """What becomes of records that make no sense."""

    fail = "raise"
    skip = "skip"


app = typer.Typer(
    no_args_is_help=True,
    help="Back up measurements and jobs, restore them, take in others', and remove some.",
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
    on_error: Annotated[
        OnError, typer.Option(help="What becomes of records that make no sense.")
    ] = OnError.fail,
    store: StoreUrl = None,
) -> None:
    """Add the measurements of a file, of whatever machine, to those of the store."""
    with Store.open(store) as opened:
        added = import_parquet(opened, file, "skip" if on_error is OnError.skip else "raise")
    were = "was" if added.known == 1 else "were"
    known = f" ({added.known:,} {were} there)" if added.known else ""
    _say(added.new, f"imported from {file}{known}")


@app.command("prune")
def prune(
    machine: Annotated[
        str | None, typer.Option(help="Those of this machine, by the digest of its fingerprint.")
    ] = None,
    campaign: Annotated[
        str | None, typer.Option(help="Those that this campaign asked for first.")
    ] = None,
    damaged: Annotated[
        bool,
        typer.Option(
            "--damaged", help="Those that are damaged or out of bounds, and are not read."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    store: StoreUrl = None,
) -> None:
    """Remove measurements for good: those that meet all that is given. It asks first."""
    with Store.open(store) as opened:
        ids = matching(opened, Prune(machine, campaign, damaged))
        what = f"{console.counted(len(ids), 'measurement')} of {opened.place}"
        if not yes and ids and not typer.confirm(f"Remove {what} for good?"):
            raise typer.Exit(1)
        _say(remove(opened, ids), f"removed from {opened.place}")


def _say(measurements: int, where: str) -> None:
    text = f"{console.counted(measurements, 'measurement')} {where}"
    console.out().print(text, markup=False, soft_wrap=True)
