"""`hetune kge`: knowledge-graph models, which score triples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

import hetune
from hetune.clients.cli import console
from hetune.clients.cli.options import (
    GraphName,
    MemoryLimit,
    Threads,
    numbers_of,
    size_of,
    use_threads,
    with_options,
)
from hetune.clients.cli.sources import GraphSource
from hetune.kge import Ranking, ScoreModel
from hetune.variants.runtime.ranking import MEMORY_LIMIT

app = typer.Typer(no_args_is_help=True, help="Judge knowledge-graph models that score triples.")


@app.command("rank")
@with_options
def rank(
    graph: GraphName,
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A file that `ScoreModel.save` wrote.")
    ],
    source: GraphSource,
    split: Annotated[
        str, typer.Option(help="Which of the graph's triples to rank: train, valid or test.")
    ] = "test",
    filtered: Annotated[
        bool,
        typer.Option(
            "--filtered/--raw", help="Leave all other triples of the graph out of a triple's rank."
        ),
    ] = True,
    hits: Annotated[str, typer.Option(help="Ranks to count hits up to.")] = "1,3,10",
    ties: Annotated[
        str, typer.Option(help="Of equal scores: realistic, optimistic or pessimistic.")
    ] = "realistic",
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
) -> None:
    """Rank a graph's true triples among those with any other head or tail."""
    use_threads(threads)
    scores = ScoreModel.load(model)
    whole = replace(source, name=graph)
    part = replace(whole, read=[*(source.read or ()), f"split={split}"])
    triples, known = _triples(part.open()), _triples(whole.open()) if filtered else None
    limit = size_of(memory_limit, "--memory-limit") or MEMORY_LIMIT
    with console.progress_bar("ranking") as update:
        found = hetune.kge.rank(
            scores,
            triples,
            known=known,
            k=numbers_of(hits, "--hits"),
            ties=ties,
            memory_limit=limit,
            progress=update,
        )
    rows = console.table("", "MRR", "mean rank", *(f"hits@{k}" for k in found.hits), left=("",))
    sides = {side: Ranking.of({side: ranks}, found.hits) for side, ranks in found.ranks.items()}
    for name, ranking in (*sides.items(), ("both", found)):
        hit = [f"{share:.4f}" for share in ranking.hits.values()]
        rows.add_row(name, f"{ranking.mrr:.4f}", f"{ranking.mr:.1f}", *hit)
    console.out().print(rows)


def _triples(graph: hetune.HeteroGraph) -> Tensor:
    return torch.stack((graph.src, graph.etype, graph.dst), 1)
