"""`hetune train`, `evaluate`, `promote`, `rollback` and `models`: the life of cost models."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as Rows

from hetune.clients.cli import console
from hetune.costmodel.calibration import load_calibration
from hetune.costmodel.data import Problem
from hetune.costmodel.evaluate import baselines
from hetune.costmodel.evaluate.card import card_of, write_card
from hetune.costmodel.evaluate.metrics import ROOFLINE, Chooser
from hetune.costmodel.evaluate.report import MODEL, Report, cross_validate, evaluate
from hetune.costmodel.evaluate.tables import comparison_table, notes, scores_table
from hetune.costmodel.fingerprint import Fingerprint
from hetune.costmodel.model.bundle import load as load_bundle
from hetune.costmodel.model.bundle import save as save_bundle
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.shelf.shelf import Shelf
from hetune.profiling.store.problems import problems as problems_of
from hetune.profiling.store.store import Store
from hetune.variants.errors import InputError, ModelError
from hetune.variants.runtime.roofline import MachineModel

_REPORT = "report.json"

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
Model = Annotated[
    str, typer.Argument(metavar="[MODEL]", help="A model's id, an alias, or a bundle's folder.")
]


def train(
    store: StoreUrl = None,
    machine: Machine = None,
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
        found = problems_of(opened, machine)
        if not found:
            raise ModelError(
                f"{opened.place} holds no measurements to train on: run `hetune profile` first"
            )
        measured_on = _fingerprint(opened, found[0].machine)
    rates = _rates(measured_on)
    say = functools.partial(console.out().print, markup=False, soft_wrap=True)
    families = len({problem.family for problem in found})
    say(
        f"{console.counted(len(found), 'measured input')} of "
        f"{console.counted(families, 'graph family').replace('familys', 'families')}"
    )
    model = CostModel.fit(found, rates, measured_on, target=target, folds=folds)
    say(f"fitted; what trees predict: {model.manifest.target}")
    report = _held_out(model, found, rates, folds)
    shelf = Shelf()
    key = shelf.add(model)
    card = cards_folder(shelf, key)
    files = write_card(card_of(model, found, report), card)
    _write(card / _REPORT, report.as_json())
    if out is not None:
        save_bundle(model, out)
    _show(report)
    say(f"candidate: {key}, in {shelf.root}")
    say(f"model card: {files[-1]}")


def evaluate_(
    model: Model = "candidate",
    store: StoreUrl = None,
    machine: Machine = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Judge a cost model on measured graphs whose families it was not trained on."""
    loaded = _load(model)
    report = _judged(loaded, _unseen(store, machine, (loaded,)))
    if as_json:
        typer.echo(report.as_json())
    else:
        _show(report)


def promote(
    model: Model = "candidate",
    store: StoreUrl = None,
    machine: Machine = None,
) -> None:
    """Make a model the champion, unless it loses to the present one or to a fixed variant.

    Both are judged on measured graphs whose families neither was trained on. Without such graphs
    the candidate's own report from training counts, if there is no champion yet.
    """
    shelf = Shelf()
    key = shelf.find(model)
    candidate = shelf.load(key)
    champion = _champion(shelf)
    judged = [candidate, *([champion] if champion else [])]
    try:
        unseen = _unseen(store, machine, judged)
    except InputError:
        if champion is not None:
            raise
        report, champion_report = _trained_report(shelf, key), None
    else:
        report = _judged(candidate, unseen)
        champion_report = _judged(champion, unseen) if champion else None
    shelf.promote(key, report=report, champion_report=champion_report)
    regret = report.score(MODEL).regret
    console.out().print(
        f"champion: {key}, regret {regret:.3f} on {len(report.outcomes):,} inputs", markup=False
    )


def rollback() -> None:
    """Make the champion before the present one the champion again."""
    key = Shelf().rollback()
    console.out().print(
        f"champion: {key}" if key else "there is no champion now; the model in the package answers",
        markup=False,
    )


def models() -> None:
    """List the cost models on the shelf."""
    shelf = Shelf()
    rows = console.table(
        "model", "alias", "trained", "inputs", "regret", "machine", left=("model", "alias")
    )
    entries = shelf.entries()
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
        f"{console.counted(len(entries), 'model')} in {shelf.root}", markup=False, soft_wrap=True
    )


def cards_folder(shelf: Shelf, key: str) -> Path:
    """Where a model's card and report are kept."""
    return shelf.root / "cards" / key


def _held_out(
    model: CostModel, found: Sequence[Problem], rates: MachineModel, folds: int
) -> Report:
    papers = model.manifest

    def fit(training: Sequence[Problem]) -> CostModel:
        return CostModel.fit(training, rates, papers.fingerprint, target=papers.target, folds=0)

    with console.progress_bar("judging") as update:
        return cross_validate(
            found,
            fit,
            folds=folds,
            machine=rates,
            about={"split": f"graph families held out in {folds} parts, each in turn"},
            progress=lambda done, total, held_out: update(done, total),
        )


def _judged(model: CostModel, found: Sequence[Problem]) -> Report:
    rates = model.manifest.machine
    choosers: dict[str, Chooser] = {
        MODEL: functools.partial(model.totals, machine=rates),
        ROOFLINE: baselines.roofline(rates),
    }
    return evaluate(found, choosers, {"split": "graph families that were not trained on"})


def _unseen(
    store: str | None, machine: str | None, models: Sequence[CostModel]
) -> tuple[Problem, ...]:
    known = {family for model in models for family in model.manifest.data.graph_families}
    with Store.open(store) as opened:
        found = problems_of(opened, machine)
        unseen = tuple(problem for problem in found if problem.family not in known)
        if not unseen:
            raise InputError(
                f"{opened.place} holds no measurements on graphs of families that were not "
                "trained on: profile some (`hetune profile` with files of yours)"
            )
    return unseen


def _trained_report(shelf: Shelf, key: str) -> Report:
    path = cards_folder(shelf, key) / _REPORT
    try:
        return Report.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}), and there are no measurements to judge "
            f"{key} on: train it again, or profile graphs of other families"
        ) from error


def _champion(shelf: Shelf) -> CostModel | None:
    name = shelf.aliases().champion
    if name is None:
        return None
    try:
        return shelf.load(name)
    except ModelError as error:
        console.err().print(f"the champion does not count: {error}", markup=False, soft_wrap=True)
        return None


def _load(name: str) -> CostModel:
    path = Path(name)
    return load_bundle(path) if path.is_dir() else Shelf().load(name)


def _fingerprint(store: Store, digest: str) -> Fingerprint:
    return next(m.fingerprints[-1] for m in store.machines() if m.digest == digest)


def _rates(machine: Fingerprint) -> MachineModel:
    """Those of the machine that was measured, if it is this one and was calibrated."""
    calibration = load_calibration()
    if calibration is not None and calibration.fingerprint == machine.digest:
        return calibration.machine
    return MachineModel()


def _show(report: Report) -> None:
    for table in (scores_table(report), comparison_table(report)):
        first, *others = table.header
        rows: Rows = console.table(first, *others, left=(first,))
        for row in table.rows:
            rows.add_row(*row, style="bold" if row[0] in table.marked else None)
        console.out().print(rows)
    for note in notes(report):
        console.out().print(note, markup=False, style="dim")


def _write(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)
