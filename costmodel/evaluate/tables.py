"""The figures of a report as tables of text, for terminals, Markdown and pages alike."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hetune.costmodel.evaluate import baselines
from hetune.costmodel.evaluate.metrics import FIXED, ORACLE, ROOFLINE, Score
from hetune.costmodel.evaluate.report import MODEL, Facet, Report
from hetune.variants.plan.choices import VANILLA

_NONE = "–"
_MOST = 10_000
"""Above it a ratio of two times says only that one of them is no measurement."""
_MOST_FLOOR = 2.0
_ORDER = (
    ORACLE,
    MODEL,
    FIXED,
    baselines.TRAINED_FIXED,
    ROOFLINE,
    baselines.BY_WIDTH,
    baselines.BY_GRAPH,
    baselines.PYG,
    baselines.FIRST_RUN,
    VANILLA,
)
_FACETS = {"layer": "layer", "family": "graph family", "graph": "graph", "widths": "widths",
           "threads": "threads"}  # fmt: skip

_SHORT = {FIXED: "best fixed's", ROOFLINE: "roofline's"}

_REGRET = (
    "Regret is the time of what was picked over the least time measured: 1 is best. The oracle has "
    "1 by definition, but best times are partly luck: "
)
_FLOOR = "measured anew, knowing the fastest variant would show a regret of {floor:.3f} or more."
_NO_FLOOR = (
    "here so much that nothing can be said of them (knowing the fastest variant would show a "
    "regret above {most:g}). Measure again when the machine is idle."
)
_FIXED = (
    "The best fixed variant is, for each layer, the one that is best over these very inputs, "
    "found in hindsight. Differences are clear where they exceed two standard errors."
)
_CHOOSING = (
    "The last column is what choosing took. First-run autotuning runs every candidate once. The "
    "cost model is asked, which is timed on the machine that was measured, and without the "
    "features of the graph."
)
_LEFT_OUT = (
    f"{_NONE} stands for what was not measured, and for ratios above {_MOST:,}: one of their times "
    "is too short to be a measurement."
)


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text.

    Attributes:
        title: What it shows.
        header: Names of the columns; the first column holds names, the others numbers.
        rows: As many cells each.
        marked: Names of rows to set in bold.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: frozenset[str] = frozenset()

    def as_markdown(self) -> str:
        """The table as Markdown, without its title."""
        rule = ("---", *("--:" for _ in self.header[1:]))
        rows = [
            tuple(f"**{cell}**" for cell in row) if row[0] in self.marked else row
            for row in self.rows
        ]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (self.header, rule, *rows)) + "\n"


def scores_table(report: Report) -> TextTable:
    """Regret of all choosers."""
    header = ("chooser", "inputs", "regret", "p95", "max", "fastest picked", "within noise")
    rows = tuple(
        (
            name,
            f"{score.problems:,}",
            shown(score.regret),
            shown(score.regret_p95),
            shown(score.regret_max),
            f"{score.top1:.0%}",
            f"{score.in_noise:.0%}",
        )
        for name, score in _scores(report)
    )
    return TextTable("Regret", header, rows, frozenset({MODEL}))


def comparison_table(report: Report) -> TextTable:
    """All choosers against the best fixed variant and others, and what they cost."""
    header = (
        "chooser", "slower than best fixed", "clearly slower", "at worst",
        "speed-up over best fixed", "over vanilla", "over roofline", "choosing, in runs",
    )  # fmt: skip
    rows = tuple(
        (
            name,
            f"{score.worse:.1%}",
            f"{score.clearly_worse:.1%}",
            shown(score.worst, "{:.3f}x"),
            shown(score.over_fixed, "{:.3f}x"),
            shown(score.over_default, "{:.3f}x"),
            shown(score.over_roofline, "{:.3f}x"),
            shown(score.overhead_runs, "{:.2f}"),
        )
        for name, score in _scores(report)
    )
    return TextTable("Against others", header, rows, frozenset({MODEL}))


def facet_table(report: Report, facet: Facet) -> TextTable:
    """The model's regret by layer, family and so on, beside that of two baselines."""
    others = [name for name in (FIXED, ROOFLINE) if name in report.names]
    header = (_FACETS[facet], "inputs", "regret", "p95", "max", *(_SHORT[name] for name in others))
    rows = []
    for name, part in sorted(report.by(facet).items(), key=lambda item: _natural(item[0])):
        mine = part.score(MODEL)
        figures = (mine.regret, mine.regret_p95, mine.regret_max)
        beside = (part.score(other).regret for other in others)
        rows.append((name, str(mine.problems), *map(shown, (*figures, *beside))))
    return TextTable(f"By {_FACETS[facet]}", header, tuple(rows))


def notes(report: Report) -> Sequence[str]:
    """Sentences that belong under `scores_table` and `comparison_table`."""
    floor = report.noise_floor
    known = math.isfinite(floor) and floor <= _MOST_FLOOR
    luck = _FLOOR.format(floor=floor) if known else _NO_FLOOR.format(most=_MOST_FLOOR)
    return [_REGRET + luck, _FIXED, _CHOOSING, _LEFT_OUT]


def shown(figure: float | None, form: str = "{:.3f}") -> str:
    """A ratio as text, or a dash where it is not known or says nothing."""
    if figure is None or not math.isfinite(figure) or figure > _MOST:
        return _NONE
    return form.format(figure)


def _scores(report: Report) -> list[tuple[str, Score]]:
    known = [name for name in _ORDER if name in report.names]
    names = [*known, *(name for name in report.names if name not in known)]
    return [(name, report.score(name)) for name in names]


def _natural(name: str) -> list[tuple[int, int | str]]:
    """Sorts "64x32" before "128x32"."""
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]
