"""Ranks of true triples against counting one by one, and against PyKEEN's."""

from __future__ import annotations

import pytest
import torch

from hetune.variants.errors import InputError
from hetune.variants.runtime.ranking import rank, top_k

NODES, TYPES = 9, 3


class Table:
    """Whole numbers as scores: there are many ties."""

    def __init__(self, nodes=NODES):
        generator = torch.Generator().manual_seed(0)
        self.table = torch.randint(-3, 3, (nodes, TYPES, nodes), generator=generator).float()
        self.largest = 0

    def all(self, nodes, rels, *, side):
        self.largest = max(self.largest, len(nodes))
        whole = self.table if side == "tail" else self.table.permute(2, 1, 0)
        return whole[nodes, rels]


def drawn(count, seed):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(NODES, (count, 2), generator=generator)
    kinds = torch.randint(TYPES, (count, 1), generator=generator)
    return torch.cat((ends[:, :1], kinds, ends[:, 1:]), 1)


def one_by_one(table, triple, side, known, ties):
    score = float(table[tuple(triple)])
    others = []
    for entity in range(NODES):
        other = (entity, *triple[1:]) if side == "head" else (*triple[:2], entity)
        if other != triple and other not in known:
            others.append(float(table[other]))
    above, equal = sum(s > score for s in others), sum(s == score for s in others)
    return 1 + above + {"optimistic": 0, "realistic": 0.5, "pessimistic": 1}[ties] * equal


@pytest.mark.parametrize("ties", ["realistic", "optimistic", "pessimistic"])
@pytest.mark.parametrize("filtered", [False, True])
def test_ranks_are_counted(ties, filtered):
    scores, triples = Table(), drawn(30, 1)
    known = torch.cat((drawn(80, 2), triples, triples)) if filtered else None
    true = {tuple(t) for t in known.tolist()} if filtered else set()
    found = rank(scores, triples, known=known, ties=ties, memory_limit=16 * NODES * 7)
    assert scores.largest == 7
    for side in ("head", "tail"):
        want = [one_by_one(scores.table, tuple(t), side, true, ties) for t in triples.tolist()]
        assert found.ranks[side].tolist() == want
    every = torch.cat((found.ranks["head"], found.ranks["tail"]))
    assert found.mr == float(every.mean())
    assert found.mrr == pytest.approx(float((1 / every).mean()))
    assert found.hits == {n: float((every <= n).double().mean()) for n in (1, 3, 10)}


def test_ranks_are_those_of_pykeen():
    evaluation = pytest.importorskip("pykeen.evaluation", reason="PyKEEN is not installed")
    scores, triples = Table(), drawn(30, 1)
    known = torch.cat((drawn(80, 2), triples))
    for ties in ("realistic", "optimistic", "pessimistic"):
        evaluator = evaluation.RankBasedEvaluator(filtered=True)
        for side, fixed, target in (("head", 2, 0), ("tail", 0, 2)):
            found = scores.all(triples[:, fixed], triples[:, 1], side=side)
            true = found.gather(1, triples[:, [target]])
            same = (known[:, None, [fixed, 1]] == triples[None][..., [fixed, 1]]).all(-1)
            masked = found.clone()
            for i, j in same.nonzero().tolist():
                masked[j, known[i, target]] = float("nan")
            masked = masked.scatter(1, triples[:, [target]], true)
            evaluator.process_scores_(triples, side, masked, true, None)
        theirs = evaluator.finalize()
        mine = rank(scores, triples, known=known, ties=ties)
        name = f"both.{ties}"
        assert mine.mrr == pytest.approx(theirs.get_metric(f"{name}.inverse_harmonic_mean_rank"))
        assert mine.mr == pytest.approx(theirs.get_metric(f"{name}.arithmetic_mean_rank"))
        assert mine.hits[3] == pytest.approx(theirs.get_metric(f"{name}.hits_at_3"))


def test_progress_and_one_side():
    seen = []
    found = rank(
        Table(),
        drawn(5, 1),
        sides=("head",),
        memory_limit=1,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(n, 5) for n in range(1, 6)]
    assert list(found.ranks) == ["head"]


def test_the_best_are_scored_in_batches_that_fit():
    scores, queries, seen = Table(), drawn(30, 1), []
    nodes, rels = queries[:, 0], queries[:, 1]
    limits = {"memory_limit": 16 * NODES * 7, "progress": lambda *counts: seen.append(counts)}
    found = top_k(scores, nodes, rels, k=4, **limits)
    assert scores.largest == 7
    assert seen == [(done, 30) for done in range(0, 30, 7)]
    everyone = scores.all(nodes, rels, side="tail")
    assert torch.equal(found.scores, everyone.topk(4).values)
    assert torch.equal(everyone.gather(1, found.entities), found.scores)
    none = top_k(scores, nodes[:0], rels[:0], k=50)
    assert none.entities.shape == none.scores.shape == (0, NODES)


class NotNumbers(Table):
    def __init__(self, of_tail=slice(None), of_head=slice(None)):
        super().__init__()
        self.table[of_head, :, of_tail] = float("nan")


class OneRow(Table):
    def all(self, nodes, rels, *, side):
        return super().all(nodes, rels, side=side)[:1, 0]


@pytest.mark.parametrize(
    ("scores", "triples", "options", "message"),
    [
        (Table(), drawn(0, 1), {}, "no triples"),
        (Table(), drawn(3, 1).float(), {}, r"give integers \[M, 3\]"),
        (Table(), drawn(3, 1)[:, :2], {}, r"give integers \[M, 3\]"),
        (Table(), drawn(3, 1) + torch.tensor([0, 0, 7]), {}, "there are 9 entities"),
        (Table(), drawn(3, 1), {"known": drawn(3, 1) - 9}, r"known\[0\] is .* 9 entities"),
        (Table(), drawn(3, 1), {"sides": ("top",)}, "give head, tail or both"),
        (Table(), drawn(3, 1), {"sides": ()}, "sides are none"),
        (Table(), drawn(3, 1), {"sides": "tail"}, "sides are 'tail': give a tuple"),
        (Table(), drawn(3, 1).unbind(1), {}, "triples is a tuple: give a tensor"),
        (Table(), drawn(3, 1), {"k": (0,)}, "ranks are at least 1"),
        (Table(), drawn(3, 1), {"ties": "fair"}, "give one of realistic"),
        (OneRow(), drawn(3, 1), {}, "a row of scores for each"),
    ],
)
def test_refusals(scores, triples, options, message):
    with pytest.raises(InputError, match=message):
        rank(scores, triples, **options)


@pytest.mark.parametrize(
    ("scores", "side", "message"),
    [
        (NotNumbers(of_tail=7), "tail", r"entity 7 as the tail is .* the rows of entity 7 in"),
        (NotNumbers(of_head=7), "head", r"entity 7 as the head is .* the rows of entity 7 in"),
        (NotNumbers(of_head=4), "tail", r"entity 0 as .* rows of entity 4 or relation 2 in"),
    ],
)
def test_a_score_that_is_no_number_is_refused_by_whose_row_it_is(scores, side, message):
    """Last or first would both be a rank that nobody gave it."""
    with pytest.raises(InputError, match=message):
        rank(scores, torch.tensor([[4, 2, 4]]), sides=(side,))
    with pytest.raises(InputError, match=message):
        top_k(scores, torch.tensor([4]), torch.tensor([2]), k=1, side=side)
