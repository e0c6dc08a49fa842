"""The graphs that the benchmarks run on, with edges sorted by relation as peers like them."""

import os
from pathlib import Path

from hetune.variants.graph.generate import generate
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders import load

# The papers' heterogeneous graphs get inverse edges; the large samples are taken as they are.
WITH_INVERSES = ("aifb_hetero", "mutag_hetero", "fb15k237", "fb15k")
AS_GIVEN = ("mag_0.1", "am_whitelist")
GENERATED = {"biokg": 0.25}
NAMES = (*WITH_INVERSES, *AS_GIVEN, *GENERATED)


class MissingGraphError(Exception):
    """The folder of real graphs, or one of its files, is not there."""


def data_folder() -> Path:
    """Folder of the real graphs: HETUNE_DATA, or ../shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("HETUNE_DATA", beside))


def load_graph(name: str, *, canonical: bool = False) -> HeteroGraph:
    """Graph `name`, its edges sorted by (etype, dst, src).

    A name that is not in `NAMES` may be given as "name+inv" to add inverse edges.

    Args:
        name: One of `NAMES`, or any file of the data folder without its ending.
        canonical: Split edge types so that each joins one pair of node types, as HGT needs.

    Raises:
        MissingGraphError: There is no such file.
    """
    if name in GENERATED:
        graph = generate(name, scale=GENERATED[name], seed=0)
    else:
        stem = name.removesuffix("+inv")
        path = data_folder() / "graphs" / f"{stem}.npz"
        if not path.is_file():
            raise MissingGraphError(
                f"no graph {stem!r}: {path} is missing; set HETUNE_DATA to the folder of graphs"
            )
        graph = load(path)
        if name in WITH_INVERSES or name.endswith("+inv"):
            graph = graph.add_inverse()
    return sort_edges(graph.canonicalize() if canonical else graph)


def sort_edges(graph: HeteroGraph) -> HeteroGraph:
    """The same graph, where it is, with its edges in order of (etype, dst, src)."""
    order = graph.src.argsort(stable=True)
    for ids in (graph.dst, graph.etype):
        order = order[ids[order].argsort(stable=True)]
    return HeteroGraph(
        graph.src[order],
        graph.dst[order],
        graph.etype[order],
        graph.ntype,
        num_nodes=graph.num_nodes,
        num_etypes=graph.num_etypes,
        num_ntypes=graph.num_ntypes,
        ntype_names=graph.ntype_names,
        etype_names=graph.etype_names,
        canonical_etypes=graph.canonical_etypes if graph.is_canonical else None,
    )
