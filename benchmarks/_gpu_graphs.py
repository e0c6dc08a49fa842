"""The graphs of the benchmarks on a GPU: real ones where their files are, else drawn, full size."""

from functools import cache, lru_cache

from _graphs import data_folder, sort_edges

from hetune.profiling.corpus.shapes import Road
from hetune.variants.graph.generate import generate
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders import load
from hetune.variants.testing.graphs import AWKWARD

REAL = {"aifb": "aifb_hetero", "mutag": "mutag_hetero", "fb15k237": "fb15k237"}
"""Graphs that are loaded where they are there, and else drawn in their shape."""
_DRAWN = {"fb15k237": "fb15k"}
TIMED = ("aifb", "mutag", "fb15k237", "am", "bgs", "biokg", "mag", "wikikg2")
LARGE = ("am", "biokg", "mag", "wikikg2")
"""Those whose rows do not fit into an L2 cache."""
ROAD = "road"
"""One of them without hubs, whose neighbours have numbers close by."""


@lru_cache(maxsize=1)
def graph_named(name: str, device: str) -> HeteroGraph:
    """An awkward graph, a real one with inverse edges, or one drawn in the shape of a real one."""
    return _made(name).to(device)


def fresh_graph(name: str, device: str) -> HeteroGraph:
    """The same, its edges sorted as peers like them, with nothing cached on it."""
    return sort_edges(graph_named(name, device))


def origin(name: str) -> str:
    """Where the graph comes from, for the record."""
    if name in AWKWARD:
        return "made for tests"
    return "file" if _is_there(name) else "drawn"


@cache
def _made(name: str) -> HeteroGraph:
    """In memory from then on: drawing the largest takes longer than what is measured on it."""
    if name in AWKWARD:
        return AWKWARD[name]()
    if name == ROAD:
        return Road(nodes=1 << 21).make()
    if _is_there(name):
        return load(data_folder() / "graphs" / f"{REAL[name]}.npz").add_inverse().canonicalize()
    return generate(_DRAWN.get(name, name))


def _is_there(name: str) -> bool:
    return name in REAL and (data_folder() / "graphs" / f"{REAL[name]}.npz").is_file()
