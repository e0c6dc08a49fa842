"""Where the commands write, and how numbers read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from hetune.variants.registry import atomic_files

_STANDARD_OUTPUT = 1
_PIPED_WIDTH = 200
"""Columns where nobody watches: wide enough that no id of a variant is cut."""


CHOSEN = ">"
"""Stands before the chosen variant in tables."""
PEAK = "peak MB: temporaries, scratch and result; indexes and folded weights are not counted"
"""Stands below tables with such a column."""


def out() -> Console:
    """Standard output; plain text of a fixed width where it is no terminal."""
    return _console(Console(highlight=False))


def err() -> Console:
    """Standard error."""
    return _console(Console(stderr=True, highlight=False))


def beside(result: Path | None) -> Console:
    """Where to write while a result goes to `result`: standard error if that is standard output."""
    is_taken = result is not None and atomic_files.descriptor_of(result) == _STANDARD_OUTPUT
    return err() if is_taken else out()


def _console(console: Console) -> Console:
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    return console


def table(
    *columns: str, title: str | None = None, caption: str | None = None, left: Sequence[str] = ()
) -> Table:
    """An empty table; columns hold numbers unless they are named in `left`."""
    made = Table(
        title=title,
        title_justify="left",
        title_style="dim",
        caption=caption,
        caption_justify="left",
        caption_style="dim",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        is_text = column in left
        # Ids are what people copy: they may wrap, but never lose letters.
        made.add_column(
            column, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text
        )
    return made


@contextmanager
def progress_bar(what: str, *, left: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error while it is a terminal; call what it gives with (done, total).

    Args:
        what: Is in progress.
        left: Whether to say how long it will take.
    """
    console = err()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *([TextColumn("left:"), TimeRemainingColumn()] if left else []),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        # A thread of its own would take time from what is measured.
        auto_refresh=False,
    )
    with bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, refresh=True)

        yield update


def flush() -> None:
    """Hands on what was written, so that a later message on the other stream comes later."""
    sys.stdout.flush()


def seconds(value: float) -> str:
    """Such as "3.21 ms" or "1.5 s"."""
    if value < 1e-3:
        return f"{value * 1e6:.0f} µs"
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.1f} s"


def size(count: float) -> str:
    """Such as "3.4 MB"; units of 1000."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def counted(count: int, noun: str) -> str:
    """Such as "1 kernel" or "1,234 kernels"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
