"""`hetune train`, `evaluate`, `promote`, `rollback` and `models`: the life of cost models."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as Rows

from hetune.clients.cli import console
from hetune.clients.cli.options import DeviceName
from hetune.costmodel.evaluate.report import Report
from hetune.costmodel.evaluate.tables import comparison_table, notes, scores_table
from hetune.costmodel.model.bundle import load as load_bundle
from hetune.costmodel.model.bundle import save as save_bundle
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.profiling.cost_model_training import promotion
from hetune.profiling.cost_model_training.train import gather, judge, keep
from hetune.profiling.measuring_lock import measuring_lock
from hetune.profiling.store.store import Store
from hetune.variants.errors import InputError

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="Where measurements are: a file or a database's URL; by default HETUNE_STORE, or a "
        "file of the user's.",
    ),
]
Machine = Annotated[
    str | None,
    typer.Option(help="Digest of the machine whose measurements count, if there are several."),
]
Device = Annotated[
    DeviceName, typer.Option(help="The models for this device: cpu, or cuda for GPUs.")
]
Model = Annotated[
    str, typer.Argument(metavar="[MODEL]", help="A model's id, an alias, or a bundle's folder.")
]


def train(
    store: StoreUrl = None,
    machine: Machine = None,
    device: Device = DeviceName.cpu,
    target: Annotated[
        str,
        typer.Option(
            help="What trees predict: log-seconds, roofline-ratio, or auto, the better of both."
        ),
    ] = "auto",
    folds: Annotated[
        int, typer.Option(help="Parts that graph families are dealt into, to be held out in turn.")
    ] = 5,
    out: Annotated[
        Path | None, typer.Option(help="Write the bundle to this folder, too; it must be new.")
    ] = None,
) -> None:
    """Fit cost models to what was profiled, judge them, and make them the candidate."""
    if folds < 2:
        raise InputError(f"--folds {folds}: take 2 or more, so that something is held out")
    with Store.open(store) as opened:
        data = gather(opened, machine, device.value)
    data.check_families()
    found = data.problems
    if out is not None and out.exists():
        raise InputError(f"--out {out} is there already: delete it, or name another folder")
    say = functools.partial(console.out().print, markup=False, soft_wrap=True)
    families = len({problem.family for problem in found})
    say(
        f"{console.counted(len(found), 'measured input')} of "
        f"{families} graph {'family' if families == 1 else 'families'}"
    )
    for remark in data.remarks:
        say(remark)
    with measuring_lock():  # it takes all cores, and would be in the times of whoever measures
        model = CostModel.fit(found, data.rates, data.measured_on, target=target, folds=folds)
        say(f"fitted; what trees predict: {model.manifest.target}")
        with console.progress_bar("judging") as update:
            report = judge(model, data, folds, update)
    registry = ModelRegistry(device=device.value)
    key, card = keep(model, data, report, registry)
    show(report)
    say(f"candidate: {key}, in {registry.root}")
    say(f"model card: {card}")
    if out is not None:
        save_bundle(model, out)


def evaluate_(
    model: Model = "candidate",
    store: StoreUrl = None,
    machine: Machine = None,
    device: Device = DeviceName.cpu,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Judge a cost model on measured graphs whose families it was not trained on."""
    loaded = _load(model, ModelRegistry(device=device.value))
    with Store.open(store) as opened:
        report = promotion.judged(loaded, promotion.unseen(opened, machine, (loaded,)))
    if as_json:
        typer.echo(report.as_json())
    else:
        show(report)


def promote(
    model: Model = "candidate",
    store: StoreUrl = None,
    machine: Machine = None,
    device: Device = DeviceName.cpu,
) -> None:
    """Make a model the champion, unless it loses to the present one or to a fixed variant.

    Both are judged on measured graphs whose families neither was trained on. Without such graphs
    the candidate's own report from training counts, if there is no champion yet.
    """
    with Store.open(store) as opened:
        promoted = promotion.promote(ModelRegistry(device=device.value), model, opened, machine)
    console.out().print(
        f"champion: {promoted.model}, regret {promoted.regret:.3f} on "
        f"{len(promoted.report.outcomes):,} inputs",
        markup=False,
    )


def rollback(device: Device = DeviceName.cpu) -> None:
    """Make the champion before the present one the champion again."""
    key = ModelRegistry(device=device.value).rollback()
    rest = "the model in the package" if device is DeviceName.cpu else "the roofline model"
    console.out().print(
        f"champion: {key}" if key else f"there is no champion now; {rest} answers", markup=False
    )


def models(device: Device = DeviceName.cpu) -> None:
    """List the cost models in the model registry."""
    registry = ModelRegistry(device=device.value)
    rows = console.table(
        "model", "alias", "trained", "inputs", "regret", "machine", left=("model", "alias")
    )
    entries = registry.entries()
    for entry in entries:
        papers = entry.manifest
        scores = papers.metrics.get(papers.target, {})
        rows.add_row(
            entry.id,
            ", ".join(entry.aliases),
            papers.created_at,
            f"{papers.data.problems:,}",
            f"{scores['regret']:.3f}" if "regret" in scores else "-",
            papers.fingerprint.digest,
        )
    if entries:
        console.out().print(rows)
    console.out().print(
        f"{console.counted(len(entries), 'model')} in {registry.root}", markup=False, soft_wrap=True
    )


def _load(name: str, registry: ModelRegistry) -> CostModel:
    path = Path(name)
    return load_bundle(path) if path.is_dir() else registry.load(name)


def show(report: Report) -> None:
    """Prints scores, comparisons and notes."""
    for table in (scores_table(report), comparison_table(report)):
        first, *others = table.header
        rows: Rows = console.table(first, *others, left=(first,))
        for row in table.rows:
            rows.add_row(*row, style="bold" if row[0] in table.marked else None)
        console.out().print(rows)
    for note in notes(report):
        console.out().print(note, markup=False, style="dim")
