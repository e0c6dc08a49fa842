"""Model cards: how good a cost model is, to be looked at rather than read."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hetune.costmodel.evaluate import tables
from hetune.costmodel.evaluate.report import MODEL, Report
from hetune.costmodel.evaluate.tables import TextTable
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.model.manifest import ModelManifest
from hetune.costmodel.problems import Problem, count_graphs
from hetune.variants.extras import installing
from hetune.variants.registry.atomic_files import write_atomically

_log = logging.getLogger(__name__)
MARKDOWN = "model-card.md"
PAGE = "model-card.html"


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a model card shows.

    Attributes:
        title: Its heading.
        facts: Where the model comes from: names and values.
        report: How it was judged.
        importance: By kernel family, each feature's share of the trees' gain.
        data: What it was trained on, family by family.
    """

    title: str
    facts: Mapping[str, str]
    report: Report
    importance: Mapping[str, Mapping[str, float]]
    data: TextTable


def card_of(model: CostModel, problems: Sequence[Problem], report: Report) -> ModelCard:
    """The card of a fitted model.

    Args:
        model: The model.
        problems: What it was fitted to.
        report: How it did on graph families that it, or models fitted alike, had not seen.
    """
    manifest = model.manifest
    machine = manifest.fingerprint
    facts = {
        "trained": manifest.created_at,
        "code": manifest.code_version,
        "device": manifest.device,
        "machine": f"{_processors(manifest)} ({machine.digest})",
        "compiler": machine.compiler or "none",
        "predicts": f"{manifest.target}, weighted by {manifest.weighting}",
        "data": f"{manifest.data.problems:,} inputs, {manifest.data.units:,} variants measured, "
        f"{manifest.data.launches:,} launches ({manifest.data.digest[:12]})",
        **report.about,
    }
    importance = {
        family: fitted.regressor.importance() for family, fitted in model.families.items()
    }
    return ModelCard("hetune cost model", facts, report, importance, data_table(problems))


def _processors(manifest: ModelManifest) -> str:
    machine = manifest.fingerprint
    if manifest.device == "cuda":
        return machine.gpu or "unknown GPU"
    return f"{machine.cpu or 'unknown processor'}, {machine.cpus or '?'} processors"


def data_table(problems: Sequence[Problem]) -> TextTable:
    """How much was measured, by graph family."""
    families: dict[str, list[Problem]] = {}
    for problem in problems:
        families.setdefault(problem.family, []).append(problem)
    rows = [_counts(family, members) for family, members in sorted(families.items())]
    header = ("graph family", "graphs", "inputs", "variants measured", "layers", "widths")
    return TextTable("Training data", header, (*rows, _counts("all", problems)), frozenset({"all"}))


def write_card(card: ModelCard, folder: Path) -> tuple[Path, ...]:
    """Writes a card as Markdown with pictures, and as one self-contained HTML page.

    Without the extra ``report`` (matplotlib and Jinja) only Markdown is written; that is logged.

    Args:
        card: What to show.
        folder: Where to; made if it is missing. Older cards there are replaced.

    Returns:
        The files, Markdown first.

    Raises:
        OSError: The folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in ("matplotlib", "jinja2") if find_spec(name) is None]
    if missing:
        _log.warning(
            "the model card has no pictures and no page, for %s is not installed: %s",
            " and ".join(missing),
            installing("report"),
        )
    pictures = {} if missing else _pictures(card)
    files = {f"{name}.png": picture.png for name, picture in pictures.items()}
    files[MARKDOWN] = _markdown(card, pictures).encode()
    if not missing:
        files[PAGE] = _page(card, pictures).encode()
    for name, content in files.items():
        write_atomically(folder / name, content, 0o644)
    return tuple(folder / name for name in sorted(files, key=lambda name: name != MARKDOWN))


@dataclass(frozen=True, slots=True)
class _Picture:
    title: str
    caption: str
    png: bytes
    wide: bool = False

    @property
    def uri(self) -> str:
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


def _pictures(card: ModelCard) -> dict[str, _Picture]:
    from hetune.costmodel.evaluate import plots

    report = card.report
    found = {
        "regret": _Picture(
            "Regret",
            "How many inputs are picked for at least so well. Up and to the left is better; "
            "the oracle would be a line along the top.",
            plots.regret_distribution(report),
        ),
    }
    if report.points:
        found["predictions"] = _Picture(
            "Predicted against measured",
            "Launches on held-out graphs. The solid line is a perfect prediction, dashed ones are "
            "twice and half of it; darker cells hold more launches.",
            plots.predicted_against_measured(report.points),
            True,
        )
    if card.importance:
        found["importance"] = _Picture(
            "What the trees look at",
            "The features whose splits removed most of the error.",
            plots.feature_importance(card.importance),
        )
    return found


def _markdown(card: ModelCard, pictures: Mapping[str, _Picture]) -> str:
    lines = [f"# {card.title}", ""]
    lines += [f"- {_plain(name)}: {_plain(value)}" for name, value in card.facts.items()]
    lines.append("")
    for table in _overview(card.report):
        lines += [f"## {table.title}", "", table.as_markdown()]
    for note in tables.notes(card.report):
        lines += [note, ""]
    for name, picture in pictures.items():
        lines += [f"## {picture.title}", "", f"![{picture.title}]({name}.png)", ""]
        lines += [picture.caption, ""]
    for table in _details(card):
        lines += [f"## {table.title}", "", table.as_markdown()]
    return "\n".join(lines)


def _page(card: ModelCard, pictures: Mapping[str, _Picture]) -> str:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = resources.files("hetune.costmodel.evaluate") / "templates" / "card.html.j2"
    template = environment.from_string(source.read_text(encoding="utf-8"))
    return template.render(
        card=card,
        tiles=_tiles(card.report),
        overview=_overview(card.report),
        notes=tables.notes(card.report),
        pictures=pictures.values(),
        details=_details(card),
    )


def _tiles(report: Report) -> list[tuple[str, str, str]]:
    """Name, figure and remark of what matters most."""
    score = report.score(MODEL)
    shown = tables.shown
    tiles = [
        ("regret", shown(score.regret), f"geometric mean over {score.problems:,} inputs"),
        ("95th percentile", shown(score.regret_p95), f"{shown(score.regret_max)} at worst"),
        (
            "slower than best fixed",
            f"{score.worse:.1%}",
            f"{score.clearly_worse:.1%} clearly; {shown(score.worst, '{:.2f}x')} at worst",
        ),
        (
            "over best fixed",
            shown(score.over_fixed, "{:.2f}x"),
            "faster; that one is known in hindsight",
        ),
    ]
    if score.over_roofline is not None:
        faster = "faster than analysis alone"
        tiles.append(("over roofline", shown(score.over_roofline, "{:.2f}x"), faster))
    if score.over_default is not None:
        tiles.append(
            ("over vanilla", shown(score.over_default, "{:.1f}x"), "faster than as written")
        )
    return tiles


def _overview(report: Report) -> list[TextTable]:
    return [tables.scores_table(report), tables.comparison_table(report)]


def _details(card: ModelCard) -> list[TextTable]:
    facets = [tables.facet_table(card.report, facet) for facet in ("layer", "widths", "family")]
    return [*facets, _kernels(card.report), card.data]


def _kernels(report: Report) -> TextTable:
    header = ("kernel family", "launches shown", "median error", "within 1.25x", "within 2x")
    rows = tuple(
        (
            family,
            f"{len(points.measured):,}",
            f"{points.median_error:.1%}",
            f"{points.share_within(1.25):.1%}",
            f"{points.share_within(2):.1%}",
        )
        for family, points in report.points.items()
    )
    return TextTable("Predictions of launches", header, rows)


def _counts(name: str, problems: Sequence[Problem]) -> tuple[str, ...]:
    widths = {(p.program.d_in, p.program.d_out) for p in problems}
    return (
        name,
        f"{count_graphs(problems):,}",
        f"{len(problems):,}",
        f"{sum(len(p.candidates) for p in problems):,}",
        ", ".join(sorted({p.program.label for p in problems})),
        f"{len(widths)} pairs",
    )


def _plain(text: Any) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", str(text))
