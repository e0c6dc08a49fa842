"""The inputs that selection is judged on: real graphs by three layers by 16 pairs of widths.

Training never sees their families, which all start with "real/", nor drawn graphs that have one of
these graphs' published counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from _command_line import names
from _graphs import data_folder
from rich.console import Console

from hetune.costmodel.problems import Problem
from hetune.profiling.campaign.workloads import GRADIENT, Workload, gradient_stages
from hetune.profiling.corpus import recipe
from hetune.profiling.units import ProblemSpec
from hetune.variants.frontend.presets import labeled_preset
from hetune.variants.graph.generate_specs import SPECS

LAYERS = ("rgcn", "rgat", "hgt")
WIDTHS = (32, 64, 128, 256)
FEW = ((64, 64), (32, 32), (128, 128), (128, 64))
"""Pairs of widths of the larger graphs."""
PAIRS = (*FEW, *((i, o) for i in WIDTHS for o in WIDTHS if (i, o) not in FEW))
"""All pairs of widths, in the order in which they are measured."""
REAL = "real/"


@dataclass(frozen=True, slots=True)
class RealGraph:
    """A file of the data folder.

    Attributes:
        name: Its name without the ending.
        kind: What it is of; graphs of one kind are a family.
        inverse: Whether inverse edges are added, as papers do to directed typed graphs.
        large: Whether it gets a few pairs of widths only: all variants at all pairs take hours.
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
    RealGraph("imdb", "typed network", inverse=True, large=True),
    RealGraph("pubmed", "citation"),
    RealGraph("mutag_hetero", "rdf", inverse=True),
    RealGraph("freebase_movie", "typed network", inverse=True, large=True),
    RealGraph("coauthor_cs", "citation"),
    RealGraph("mag_0.1", "typed network", large=True),
    RealGraph("wn18rr", "knowledge", inverse=True, large=True),
    RealGraph("wiki_squirrel", "web"),
    RealGraph("amazon_photo", "products"),
    RealGraph("wn18", "knowledge", inverse=True, large=True),
    RealGraph("twitch_de", "social"),
    RealGraph("usroads", "road", large=True),
    RealGraph("facebook_page", "social", large=True),
    RealGraph("amazon_cs", "products"),
    RealGraph("github_social", "social", large=True),
    RealGraph("dbpedia_music", "rdf", inverse=True, large=True),
    RealGraph("fb15k237", "knowledge", inverse=True, large=True),
    RealGraph("ppi_string", "protein"),
    RealGraph("fb15k", "knowledge", inverse=True, large=True),
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

    Pair of widths by pair, and for each all graphs by size, so that whoever stops early has seen
    every graph; large graphs have the pairs in `FEW` only.
    """
    graphs = tuple(graphs)
    wanted = [(pair, g) for pair in pairs for g in graphs if pair in FEW or not g.large]
    found = []
    for (d_in, d_out), graph in wanted:
        options = {"path": str(graph.path), "inverse": graph.inverse}
        plain = recipe(graph.name, "file", f"{REAL}{graph.kind}", options)
        for layer in layers:
            if not (graph.large and layer.endswith(GRADIENT)):  # its sums are not checked there
                found += [each.on(plain, threads) for each in programs(layer, d_in, d_out)]
    return tuple(found)


def programs(layer: str, d_in: int, d_out: int) -> tuple[Workload, ...]:
    """What runs of a layer, such as "rgcn", or of its gradient, such as "rgcn gradient"."""
    program = labeled_preset(layer.removesuffix(GRADIENT), d_in, d_out)
    return gradient_stages(program) if layer.endswith(GRADIENT) else (Workload.of(program),)


def split(problems: Iterable[Problem]) -> tuple[list[Problem], list[Problem]]:
    """Problems to train on, and real ones to judge on."""
    training, judged = [], []
    for problem in problems:
        if problem.family.startswith(REAL):
            judged.append(problem)
        elif problem.family not in SPECS:
            training.append(problem)
    return training, judged


def present(wanted: Sequence[str], console: Console) -> list[RealGraph]:
    """The graphs of these names, all if there are none, whose files are there; says what is not."""
    found = []
    for graph in GRAPHS:
        if wanted and graph.name not in wanted:
            continue
        if graph.path.is_file():
            found.append(graph)
        else:
            console.print(f"[yellow]skipped {graph.name}: {graph.path} is missing; set HETUNE_DATA")
    return found


def pairs(text: str) -> list[tuple[int, int]]:
    """Pairs of widths that a command line names, such as 64x64,32x128."""
    found = []
    for name in names(text):
        d_in, _, d_out = name.partition("x")
        found.append((int(d_in), int(d_out)))
    return found
