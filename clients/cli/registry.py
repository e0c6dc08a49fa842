"""`hetune registry`: the compiled kernels on disk."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from hetune.clients.cli import console
from hetune.clients.cli.options import size_of
from hetune.variants.registry import Registry, default_registry

app = typer.Typer(no_args_is_help=True, help="List, check and evict compiled kernels.")


@app.command("list")
def list_kernels() -> None:
    """List the compiled kernels, the most recently used first."""
    registry = default_registry()
    entries = registry.entries()
    rows = console.table("kernel", "key", "size", "created", "last used", left=("kernel", "key"))
    for entry in entries:
        rows.add_row(
            entry.name,
            entry.key[:12],
            console.size(entry.bytes),
            _when(entry.created),
            _when(entry.last_used),
        )
    if entries:
        console.out().print(rows)
    total = sum(entry.bytes for entry in entries)
    _summary(f"{console.counted(len(entries), 'kernel')}, {console.size(total)}", registry)


@app.command("verify")
def verify() -> None:
    """Check the digest of every kernel; put the damaged ones aside and exit with 1 if any."""
    registry = default_registry()
    report = registry.verify()
    if report.bad:
        rows = console.table("damaged", "reason", left=("damaged", "reason"))
        for key, reason in report.bad.items():
            rows.add_row(key[:12], reason)
        console.out().print(rows)
    good = report.checked - len(report.bad)
    _summary(f"{good:,} of {console.counted(report.checked, 'kernel')} sound", registry)
    if report.bad:
        raise typer.Exit(1)


@app.command("gc")
def collect(
    quota: Annotated[
        str | None, typer.Option(help="Keep at most this much, such as 1GB; 2GiB by default.")
    ] = None,
) -> None:
    """Sweep what killed builds left, and evict the kernels used longest ago down to the quota."""
    registry = default_registry()
    report = registry.gc(size_of(quota, "--quota"))
    _summary(
        f"{console.counted(len(report.evicted), 'kernel')} evicted, "
        f"{console.size(report.freed_bytes)} freed, {report.swept:,} leftovers swept, "
        f"{console.size(report.bytes)} kept",
        registry,
    )


def _summary(text: str, registry: Registry) -> None:
    console.out().print(f"{text}, in {registry.root}", markup=False, soft_wrap=True)


def _when(stamp: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(stamp))
