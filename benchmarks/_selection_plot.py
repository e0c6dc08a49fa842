"""The picture of `selection.py`: how much choices lose, and on which graphs."""

from pathlib import Path

from matplotlib.figure import Figure

from hetune.costmodel.evaluate.plots import draw_distribution, draw_facet
from hetune.costmodel.evaluate.report import Report


def plot_selection(report: Report, path: Path) -> Path:
    """Regret as a distribution over all inputs, and graph by graph, into a PNG."""
    graphs = len(report.by("graph"))
    figure = Figure(figsize=(14, max(5.0, 1.7 + 0.26 * graphs)), layout="constrained")
    left, right = figure.subplots(1, 2)
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
    draw_distribution(left, report)
    draw_facet(right, report, "graph")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})
    return path
