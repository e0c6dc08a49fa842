"""`hetune profile`: measuring what a campaign asks for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from hetune.clients.cli import console
from hetune.clients.cli.models import StoreUrl
from hetune.clients.cli.options import Threads, use_threads
from hetune.costmodel.fingerprint import Fingerprint, this_machine
from hetune.profiling import campaign as campaigns
from hetune.profiling.active.run import run_active
from hetune.profiling.campaign import Campaign
from hetune.profiling.campaign.run import CampaignProgress, run_units
from hetune.profiling.corpus import size_of
from hetune.profiling.measure.bench import place_of
from hetune.profiling.records import Measurement, Status
from hetune.profiling.store.parquet import export_parquet
from hetune.profiling.store.store import Store
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.errors import InputError

_REPORT_SECONDS = 60.0
"""Where nobody watches a bar, a line that often."""


def profile(
    campaign: Annotated[
        str,
        typer.Argument(
            metavar="CAMPAIGN",
            help=f"{', '.join(campaigns.PRESETS)}, or a campaign's TOML or JSON file.",
        ),
    ],
    store: StoreUrl = None,
    name: Annotated[
        str | None, typer.Option(help="Name in the records; the campaign's own by default.")
    ] = None,
    units: Annotated[
        int | None,
        typer.Option(help="Measure only so many units: those that models are most unsure of."),
    ] = None,
    limit_minutes: Annotated[
        float | None, typer.Option(help="Stop after so long; the same command goes on.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be measured, and measure nothing.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(help="Then write this machine's records to this Parquet file."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="cpu, or cuda for a GPU; the campaign's own by default."),
    ] = None,
    threads: Threads = None,
) -> None:
    """Measure layers and single kernels on graphs, as a campaign asks, and keep the records.

    What has been measured on this machine already is not measured again: a campaign that was
    stopped goes on where it was.
    """
    use_threads(threads)
    if limit_minutes is not None and not limit_minutes > 0:
        raise InputError(f"--limit-minutes {limit_minutes:g}: take more than 0")
    if units is not None and units < 1:
        raise InputError(f"--units {units}: take 1 or more")
    if export is not None and not export.parent.is_dir():
        raise InputError(f"--export {export}: name a file in a folder that exists")
    asked = campaigns.load(campaign, device=device)
    if dry_run:
        _describe(asked, units)
        return
    place_of(asked.device)
    wanted = campaigns.units(asked)
    with Store.open(store) as opened:
        session = _Session(opened, limit_minutes)
        try:
            session.run(wanted, name or asked.name, asked, units)
        finally:
            session.summarize()
        if export is not None:
            rows = export_parquet(opened, export, machine=this_machine().digest)
            _say(f"wrote {console.counted(rows, 'record')} to {export}")
    if session.interrupted:
        raise typer.Exit(130)


class _TimeIsUpError(Exception):
    """The limit of minutes is reached."""


class _Session:
    """A run of a campaign, which may end early; the store's records of it are counted.

    Attributes:
        interrupted: Whether the user ended it.
    """

    def __init__(self, store: Store, limit_minutes: float | None) -> None:
        self.interrupted = False
        self._store = store
        self._start = time.monotonic()
        self._limit = None if limit_minutes is None else 60 * limit_minutes
        self._endings: Counter[Status] = Counter()
        self._failures: list[Measurement] = []
        self._known = 0
        self._last: CampaignProgress | None = None
        self._since_last = 0
        self._stopped = ""

    def done(self, machine: str) -> Set[str]:
        return self._store.done(machine)

    def add(self, measurements: Iterable[Measurement], fingerprint: Fingerprint) -> None:
        batch = list(measurements)
        self._store.add(batch, fingerprint)
        self._since_last += len(batch)
        self._endings.update(m.status for m in batch)
        self._failures += [m for m in batch if m.status in (Status.WRONG, Status.FAILED)]

    def run(self, units: Sequence[Unit], name: str, asked: Campaign, most: int | None) -> None:
        with _bar() as show:

            def progress(now: CampaignProgress) -> None:
                if self._last is None:
                    self._known = now.done
                self._last, self._since_last = now, 0
                show(now)
                over = self._limit is not None and time.monotonic() - self._start > self._limit
                if over and now.done < now.total:
                    raise _TimeIsUpError

            try:
                if most is None:
                    run_units(units, name, self, limits=asked.limits, progress=progress)
                else:
                    run_active(
                        units, name, self._store, most,
                        records=self, limits=asked.limits, progress=progress,
                    )  # fmt: skip
            except _TimeIsUpError:
                self._stopped = "the time is up"
            except KeyboardInterrupt:
                self.interrupted = True
                self._stopped = "interrupted"

    def summarize(self) -> None:
        """Prints what was done, also where an error ended it."""
        if self._last is None:
            return
        # What was stored since the last progress is done, too; what others did is in there.
        left = self._last.total - self._last.done - self._since_last
        others = self._last.total - self._known - self._endings.total() - left
        rows = console.table("units", "count", left=("units",))
        rows.add_row("measured before", f"{self._known:,}")
        for status in Status:
            if self._endings[status] or status is Status.OK:
                rows.add_row(_MEANINGS[status], f"{self._endings[status]:,}")
        if others:
            rows.add_row("measured by others", f"{others:,}")
        rows.add_row("left", f"{left:,}")
        out = console.out()
        out.print(rows)
        minutes = (time.monotonic() - self._start) / 60
        _say(f"{minutes:.1f} minutes; records are in {self._store.place}")
        if self._stopped:
            _say(f"{self._stopped}: nothing is lost; the same command goes on with the rest")
        console.flush()
        for lost in self._failures[:10]:
            where = f"{lost.program.describe()} on {lost.graph}"
            console.err().print(
                f"{lost.status.value}: {lost.variant} of {where}: {lost.error}",
                markup=False,
                soft_wrap=True,
            )


_MEANINGS = {
    Status.OK: "measured now",
    Status.WRONG: "wrong output",
    Status.TIMEOUT: "too slow",
    Status.MEMORY: "too little memory",
    Status.FAILED: "failed",
}


def _say(text: str) -> None:
    console.out().print(text, markup=False, soft_wrap=True)


@contextmanager
def _bar() -> Iterator[Callable[[CampaignProgress], None]]:
    """A bar with the time left on a terminal; elsewhere a line now and then."""
    terminal = console.err()
    bar = Bar(
        TextColumn("measuring"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[at]}"),
        console=terminal,
        transient=True,
        disable=not terminal.is_terminal,
        # A thread of its own would take time from what is measured.
        auto_refresh=False,
    )
    with bar:
        task = bar.add_task("", total=None, left="", at="")
        told = time.monotonic()

        def show(now: CampaignProgress) -> None:
            nonlocal told
            left, at = _left(now), _problem(now.problem)
            bar.update(task, completed=now.done, total=now.total, left=left, at=at, refresh=True)
            if not terminal.is_terminal and time.monotonic() - told > _REPORT_SECONDS:
                told = time.monotonic()
                terminal.print(f"{now.done:,} of {now.total:,} units{left and ', '}{left}")

        yield show


def _left(now: CampaignProgress) -> str:
    if now.seconds_left is None:
        return ""
    return f"{max(1, round(now.seconds_left / 60))} min left" if now.seconds_left else ""


def _problem(problem: ProblemSpec | None) -> str:
    if problem is None:
        return ""
    return str(problem)


def _minutes(units: Sequence[Unit], asked: Campaign) -> float:
    return campaigns.units_seconds(units, asked.limits) / 60


def _how_long(units: Sequence[Unit], asked: Campaign) -> str:
    if asked.device != "cpu":
        return "on a GPU, for which no time is foretold"
    minutes = _minutes(units, asked)
    about = "less than a minute" if minutes < 1 else f"about {minutes:.0f} minutes"
    return f"{about} on two idle cores"


def _describe(asked: Campaign, most: int | None) -> None:
    """What a campaign would measure, by family, and what that should take."""
    wanted = campaigns.units(asked)
    by_family: dict[str, list[Unit]] = {}
    for unit in wanted:
        by_family.setdefault(unit.problem.graph.family, []).append(unit)
    is_foretold = asked.device == "cpu"
    columns = ("family", "graphs", "edges", "problems", "units")
    rows = console.table(*columns, *(("minutes",) if is_foretold else ()), left=("family",))
    for family, members in sorted(by_family.items()):
        graphs = {unit.problem.graph.name: unit.problem.graph for unit in members}
        edges = sorted(size_of(graph)[1] for graph in graphs.values())
        rows.add_row(
            family,
            f"{len(graphs):,}",
            f"{edges[0]:,} to {edges[-1]:,}" if len(edges) > 1 else f"{edges[0]:,}",
            f"{len({unit.problem for unit in members}):,}",
            f"{len(members):,}",
            *([f"{_minutes(members, asked):.1f}"] if is_foretold else []),
        )
    console.out().print(rows)
    _say(
        f"{asked.name}: {console.counted(len(wanted), 'unit')} of "
        f"{console.counted(len({unit.problem for unit in wanted}), 'problem')} on "
        f"{console.counted(len({unit.problem.graph.name for unit in wanted}), 'graph')}, "
        f"{_how_long(wanted, asked)}, and compiling what is missing"
    )
    if most is not None and most < len(wanted):
        _say(f"{console.counted(most, 'unit')} of these will be measured")
