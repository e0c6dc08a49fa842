"""Scores of triples, as hetune, PyKEEN, PyG, DGL and an expert compute them from tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from _peers.problem import Candidate
from hetune.variants.graph.hetero import HeteroGraph

_BATCHES = 8
"""Triples of a call are new ones, as in training: those of its turn."""
Triples = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Score:
    """A score function of rows.

    Attributes:
        rows: Scores [B] of rows of a head, its relation, a tail, and more of the relation.
        more: Row shapes, in widths, of the relation's other tables.
        pykeen: The interaction's name and options.
        grouped: By an expert: of (tables, triples in the order of relations, where each ends).
    """

    rows: Callable[..., Tensor]
    more: Mapping[str, int] = field(default_factory=dict)
    pykeen: tuple[str, Mapping[str, Any]] | None = None
    grouped: Callable[..., Tensor] | None = None


def _product(x: Tensor, m: Tensor) -> Tensor:
    return (x.unsqueeze(-2) @ m).squeeze(-2)


def _transe(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    return -(h + r - t).abs().sum(-1)


def _transh(h: Tensor, r: Tensor, t: Tensor, m: Tensor) -> Tensor:
    x = h - t
    return -((x - (x * m).sum(-1, keepdim=True) * m + r) ** 2).sum(-1).sqrt()


def _transr(h: Tensor, r: Tensor, t: Tensor, m: Tensor) -> Tensor:
    return -(_product(h - t, m) + r).abs().sum(-1)


def _rescal(h: Tensor, r: Tensor, t: Tensor, m: Tensor) -> Tensor:
    return (_product(h, m) * t).sum(-1)


def _transf(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    return (h * (t + t - r) + r * t).sum(-1)


def _distmult(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    return (h * r * t).sum(-1)


def _grouped_transr(h: Tensor, r: Tensor, t: Tensor, m: Tensor, ends: Tensor) -> Tensor:
    return -(torch._grouped_mm(h - t, m, offs=ends) + r).abs().sum(-1)


def _grouped_rescal(h: Tensor, r: Tensor, t: Tensor, m: Tensor, ends: Tensor) -> Tensor:
    return (torch._grouped_mm(h, m, offs=ends) * t).sum(-1)


SCORES = {
    "transe": Score(_transe, pykeen=("TransE", {"p": 1})),
    "distmult": Score(_distmult, pykeen=("DistMult", {})),
    "transf": Score(_transf, pykeen=("TransF", {})),
    "transh": Score(_transh, {"m": 1}, ("TransH", {"p": 2})),
    "transr": Score(_transr, {"m": 2}, None, _grouped_transr),
    "rescal": Score(_rescal, {"m": 2}, ("RESCAL", {}), _grouped_rescal),
}


@dataclass
class KgeProblem:
    """Tables, and batches of triples of a graph.

    Args:
        score: One of `SCORES`.
        graph: Whose edges are the triples.
        batch: How many triples a call has.
        width: Of all rows.
        dtype: float32 to measure, float64 for the reference.
    """

    score: str
    graph: HeteroGraph
    batch: int
    width: int
    dtype: torch.dtype = torch.float32

    @cached_property
    def tables(self) -> dict[str, nn.Parameter]:
        """Entities "e", relations "r", and the relation's other table."""
        generator, d = torch.Generator().manual_seed(0), self.width
        shapes = {"e": (self.graph.num_nodes, d), "r": (self.graph.num_etypes, d)}
        for name, axes in SCORES[self.score].more.items():
            shapes[name] = self.graph.num_etypes, *[d] * axes
        return {
            name: nn.Parameter(
                (torch.randn(shape, generator=generator) * 0.3).to(self.graph.device, self.dtype)
            )
            for name, shape in shapes.items()
        }

    @cached_property
    def batches(self) -> list[Triples]:
        """Triples, drawn at random."""
        generator, graph = torch.Generator().manual_seed(1), self.graph
        drawn = torch.randint(graph.num_edges, (_BATCHES, self.batch), generator=generator)
        drawn = drawn.to(graph.device)
        columns = graph.src.long(), graph.etype.long(), graph.dst.long()
        return [tuple(column[each] for column in columns) for each in drawn]  # type: ignore[misc]

    def make_inputs(self) -> None:
        """What is there for all candidates."""
        _ = self.tables, self.batches


Score3 = Callable[[Tensor, Tensor, Tensor], Tensor]


def _taken(table: Tensor, ids: Tensor) -> Tensor:
    return functional.embedding(ids, table.flatten(1)).view(-1, *table.shape[1:])


def _torch(problem: KgeProblem, compiled: bool = False) -> Score3:
    rows, tables = SCORES[problem.score].rows, problem.tables

    def scores(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        e, *relations = tables.values()
        first, *others = (_taken(table, r) for table in relations)
        return rows(_taken(e, h), first, _taken(e, t), *others)

    return torch.compile(scores) if compiled else scores


def _expert(problem: KgeProblem) -> Score3:
    """Products relation by relation: triples are sorted, and scores put back in place."""
    grouped, (e, r_table, m) = SCORES[problem.score].grouped, problem.tables.values()
    assert grouped is not None

    def scores(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        types, order = r.sort()
        ends = torch.bincount(r, minlength=len(m)).cumsum(0).int()
        rows = _taken(e, h[order]), _taken(r_table, types), _taken(e, t[order])
        found = grouped(*rows, m, ends)
        return torch.empty_like(found).index_copy(0, order, found)

    return scores


def _pykeen(problem: KgeProblem) -> Score3:
    from pykeen.nn import modules

    told = SCORES[problem.score].pykeen
    assert told is not None
    interaction, (e, *relations) = (
        getattr(modules, f"{told[0]}Interaction"),
        problem.tables.values(),
    )
    interaction = interaction(**told[1])
    if problem.score == "rescal":  # its relation is the matrix alone
        relations = relations[1:]
    if problem.score == "transh":
        relations = relations[::-1]

    def scores(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        of_r = [_taken(table, r) for table in relations]
        found: Tensor = interaction(_taken(e, h), of_r if len(of_r) > 1 else of_r[0], _taken(e, t))
        return found

    return scores


def _pyg(problem: KgeProblem) -> Score3:
    from torch_geometric.nn.kge import DistMult

    e, r = problem.tables.values()
    model = DistMult(len(e), len(r), problem.width)
    model.node_emb.weight, model.rel_emb.weight = e, r
    return model


def _dgl(problem: KgeProblem) -> Score3:
    from dgl.nn import TransE, TransR

    e, r, *more = problem.tables.values()
    model = TransR(len(r), *[problem.width] * 2) if more else TransE(len(r), problem.width)
    model.rel_emb.weight = r
    if more:
        model.rel_project.weight = nn.Parameter(more[0].detach().flatten(1))
    return lambda h, r, t: model(_taken(e, h), _taken(e, t), r)


def _hetune(problem: KgeProblem) -> Score3:
    import hetune.kge

    score, (e, r, *more) = hetune.kge.score(SCORES[problem.score].rows), problem.tables.values()
    others = dict(zip(SCORES[problem.score].more, more, strict=True))
    return partial(score, entity=e, r=r, **others)


def candidates(score: str) -> list[Candidate]:
    """Those that have a score; `build` gives a function of heads, relations and tails."""
    of = SCORES[score]
    makers: Sequence[tuple[str, Any, bool]] = [
        ("hetune/compile", _hetune, True),
        ("torch/plain", _torch, True),
        ("torch/compile", partial(_torch, compiled=True), True),
        ("expert/grouped", _expert, of.grouped is not None),
        ("pykeen/interaction", _pykeen, of.pykeen is not None),
        ("pyg/DistMult", _pyg, score == "distmult"),
        ("dgl/link", _dgl, score in ("transe", "transr")),
    ]
    return [Candidate(n, score, make, n == "torch/compile") for n, make, there in makers if there]
