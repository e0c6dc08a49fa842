"""The inputs that selection is judged on: real graphs by three layers by 16 pairs of widths.

Training never sees their families, which all start with "real/", nor drawn graphs that have one of
these graphs' published counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from _graphs import data_folder

from hetune.costmodel.data import Problem
from hetune.profiling.corpus import canonical, recipe
from hetune.profiling.units import ProblemSpec
from hetune.variants.graph.generate_specs import SPECS

LAYERS = ("rgcn", "rgat", "hgt")
WIDTHS = (32, 64, 128, 256)
FEW = ((64, 64), (32, 32), (128, 128), (128, 64))
"""Pairs of widths of the largest graphs."""
PAIRS = (*FEW, *((i, o) for i in WIDTHS for o in WIDTHS if (i, o) not in FEW))
"""All pairs of widths, in the order in which they are measured."""
_REAL = "real/"


@dataclass(frozen=True, slots=True)
class RealGraph:
    """A file of the data folder.

    Attributes:
        name: Its name without the ending.
        kind: What it is of; graphs of one kind are a family.
        inverse: Whether inverse edges are added, as papers do to directed typed graphs.
        large: Whether it gets a few pairs of widths only.
    """

    name: str
    kind: str
    inverse: bool = False
    large: bool = False

    @property
    def path(self) -> Path:
        """The file."""
        return data_folder() / "graphs" / f"{self.name}.npz"


GRAPHS = (
    RealGraph("umls", "knowledge", inverse=True),
    RealGraph("citeseer", "citation"),
    RealGraph("cora", "citation"),
    RealGraph("kinship", "knowledge", inverse=True),
    RealGraph("acm", "typed network", inverse=True),
    RealGraph("aifb_hetero", "rdf", inverse=True),
    RealGraph("aifb", "rdf", inverse=True),
    RealGraph("know2bio_sample", "knowledge", inverse=True),
    RealGraph("codex_s", "knowledge", inverse=True),
    RealGraph("imdb", "typed network", inverse=True),
    RealGraph("pubmed", "citation"),
    RealGraph("mutag_hetero", "rdf", inverse=True),
    RealGraph("freebase_movie", "typed network", inverse=True),
    RealGraph("coauthor_cs", "citation"),
    RealGraph("mag_0.1", "typed network"),
    RealGraph("wn18rr", "knowledge", inverse=True),
    RealGraph("wiki_squirrel", "web"),
    RealGraph("amazon_photo", "products"),
    RealGraph("wn18", "knowledge", inverse=True),
    RealGraph("twitch_de", "social"),
    RealGraph("usroads", "road"),
    RealGraph("facebook_page", "social"),
    RealGraph("amazon_cs", "products"),
    RealGraph("github_social", "social"),
    RealGraph("dbpedia_music", "rdf", inverse=True),
    RealGraph("fb15k237", "knowledge", inverse=True),
    RealGraph("ppi_string", "protein"),
    RealGraph("fb15k", "knowledge", inverse=True),
    RealGraph("am_whitelist", "rdf", large=True),
)
"""By edges, those with few first."""


def specs(
    graphs: Iterable[RealGraph],
    layers: Sequence[str] = LAYERS,
    pairs: Sequence[tuple[int, int]] = PAIRS,
    threads: int = 2,
) -> tuple[ProblemSpec, ...]:
    """What to measure, in the order in which it is measured.

    Pair of widths by pair, and for each all small and middle graphs by size, so that whoever stops
    early has seen every graph; large graphs come last, with the pairs in `FEW`.
    """
    graphs = tuple(graphs)
    order = [(pair, graph) for pair in pairs for graph in graphs if not graph.large]
    order += [(pair, graph) for graph in graphs if graph.large for pair in pairs if pair in FEW]
    found = []
    for (d_in, d_out), graph in order:
        options = {"path": str(graph.path), "inverse": graph.inverse}
        plain = recipe(graph.name, "file", f"{_REAL}{graph.kind}", options)
        found += [
            ProblemSpec(
                canonical(plain) if layer == "hgt" else plain, layer, d_in, d_out, 1, threads
            )
            for layer in layers
        ]
    return tuple(found)


def split(problems: Iterable[Problem]) -> tuple[list[Problem], list[Problem]]:
    """Problems to train on, and real ones to judge on."""
    training, judged = [], []
    for problem in problems:
        if problem.family.startswith(_REAL):
            judged.append(problem)
        elif problem.family not in SPECS:
            training.append(problem)
    return training, judged
