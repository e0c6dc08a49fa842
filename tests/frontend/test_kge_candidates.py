"""`ScoreFunction.all` and chunks of negatives, against the function of each triple in float64."""

from __future__ import annotations

from functools import partial
from unittest.mock import Mock

import pytest
import torch
from torch.linalg import vector_norm

import hetune
from hetune.errors import InputError
from hetune.variants.runtime.function_candidates import FunctionCandidates

ENTITIES, RELATIONS, WIDTH = 13, 3, 6
RANDOM = torch.Generator().manual_seed(0)
NODES, TAILS = torch.randint(ENTITIES, (2, 8), generator=RANDOM)
RELS = torch.randint(RELATIONS, (8,), generator=RANDOM)


def table(*shape):
    return torch.randn(*shape, generator=RANDOM).requires_grad_()


ENTITY, OTHER, RELATION = table(ENTITIES, WIDTH), table(ENTITIES, WIDTH), table(RELATIONS, WIDTH)
MATRIX = table(RELATIONS, WIDTH, WIDTH)


def distmult(h, r, t):
    return (h * r * t).sum()


def transe(h, r, t, p=1):
    return -vector_norm(h + r - t, p)


def normalized(h, r, t):
    h, t = (torch.nn.functional.normalize(x, dim=0) for x in (h, t))
    return -vector_norm(h + r - t)


def transr(h, r, t, P):
    return -vector_norm((h - t) @ P + r)


def complex_(h, r, t):
    (a, b), (c, d), (e, f) = h, r, t
    return ((a * c - b * d) * e + (a * d + b * c) * f).sum()


def unstructured(h, r=None, t=None):
    return vector_norm(h - t)


def crossed(h, r=None, t=None):
    return (h[:3] * t[3:]).sum()


def crossed_pairs(h, r=None, t=None):
    return (h.view(-1, 2)[:, 0] * t.view(-1, 2)[:, 1]).sum()


def gated(h, r, t):
    return (torch.tanh(h + t) * r).sum()


def hole(h, r, t):
    return (r * torch.fft.irfft(torch.fft.rfft(h).conj() * torch.fft.rfft(t), WIDTH)).sum()


CASES = {
    "distmult": (distmult, {"r": RELATION}),
    "other tails": (distmult, {"r": RELATION, "tail": OTHER}),
    "transe": (transe, {"r": RELATION}),
    "transe 2": (transe, {"r": RELATION, "p": 2}),
    "normalized": (normalized, {"r": RELATION}),
    "transr": (transr, {"r": RELATION, "P": MATRIX}),
    "complex": (complex_, {"r": (RELATION, RELATION + 1), "entity": (ENTITY, OTHER)}),
    "no relation": (unstructured, {"r": None}),
    "no relation, parts": (crossed, {"r": None}),
    "gated": (gated, {"r": RELATION}),
    "hole": (hole, {"r": RELATION}),
}


def expected(function, side, candidates, entity=ENTITY, tail=None, p=None, **tables):
    """[B, K] of candidates [B, K], each triple alone."""

    def row(rows, i):
        return tuple(x[i].double() for x in rows) if isinstance(rows, tuple) else rows[i].double()

    tail = entity if tail is None else tail
    options = {} if p is None else {"p": p}
    found = []
    for node, rel, others in zip(NODES.tolist(), RELS.tolist(), candidates.tolist(), strict=True):
        weights = {name: row(rows, rel) for name, rows in tables.items() if rows is not None}
        r = weights.pop("r", None)
        for other in others:
            h, t = (node, other) if side == "tail" else (other, node)
            found.append(function(row(entity, h), r, row(tail, t), **weights, **options))
    return torch.stack(found).view(len(NODES), -1)


@pytest.mark.parametrize("name", CASES)
def test_all_entities(name):
    function, tables = CASES[name]
    score = hetune.kge.score(function)
    everyone = torch.arange(ENTITIES).expand(len(NODES), -1)
    by = [ENTITY, *([] if tables["r"] is None else [RELATION])]
    for side in ("tail", "head"):
        want = expected(function, side, everyone, **tables)
        found = score.all(NODES, RELS, side=side, **{"entity": ENTITY} | tables)
        torch.testing.assert_close(found.double(), want, rtol=1e-5, atol=1e-5)
        gradients = torch.autograd.grad(found.sigmoid().sum(), by)
        exact = torch.autograd.grad(want.sigmoid().sum(), by)
        torch.testing.assert_close(gradients, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["distmult", "transe 2", "complex", "normalized"])
def test_chunks_of_negatives(name):
    function, tables = CASES[name]
    score = hetune.kge.score(function)
    negatives = torch.randint(ENTITIES, (2, 5), generator=torch.Generator().manual_seed(1))
    for side in ("tail", "head"):
        want = expected(function, side, negatives.repeat_interleave(4, 0), **tables)
        triples = (NODES, RELS, TAILS) if side == "tail" else (TAILS, RELS, NODES)
        options = {"side": side, "entity": ENTITY} | tables
        found = score.corrupt(*triples, negatives, **options)
        torch.testing.assert_close(found.double(), want, rtol=1e-5, atol=1e-5)
        assert score.corrupt(*(ids[:0] for ids in triples), negatives, **options).shape == (0, 5)


@pytest.mark.parametrize("function", [crossed, crossed_pairs])
def test_what_a_score_does_not_read_may_be_no_number(function):
    """An inner product with 0 would read it, and give none."""
    entity, score = ENTITY.clone(), hetune.kge.score(function)
    entity[2, 0], entity[3, 4], entity[5] = torch.nan, torch.inf, torch.nan
    entity[7, 5] = -torch.inf
    everyone = torch.arange(ENTITIES)
    whole = torch.vmap(torch.vmap(function, (None, None, 0)), (0, None, None))
    wanted = whole(entity, None, entity)
    assert 0 < wanted.isnan().sum() < wanted.numel() - 3 * ENTITIES
    close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5, equal_nan=True)
    zeros = torch.zeros_like(everyone)
    for shift in range(ENTITIES):
        tails = everyone.roll(shift)
        close(score(everyone, zeros, tails, entity=entity, r=None), wanted[everyone, tails])
    close(score.all(everyone, zeros, entity=entity, r=None), wanted)
    close(score.all(everyone, zeros, side="head", entity=entity, r=None), wanted.T)
    table = entity.clone().requires_grad_()
    others = everyone[wanted[0].isfinite()]
    for found, exact in (
        (score.all(zeros, zeros, entity=table, r=None), whole(table[zeros], None, table)),
        (
            score.corrupt(zeros, zeros, zeros, others[None], entity=table, r=None),
            whole(table[zeros], None, table[others]),
        ),
    ):
        close(found, exact)
        sums = (scores[scores.isfinite()].sum() for scores in (found, exact))
        close(*(torch.autograd.grad(each, table)[0] for each in sums))


@pytest.mark.parametrize(
    ("count", "dtype", "is_trained", "wanted"),
    [
        *((31, torch.float32, 0, 0), (32, torch.float32, 0, 1)),
        *((3, torch.float32, 1, 0), (4, torch.float32, 1, 1), (4, torch.float64, 0, 1)),
    ],
)
def test_negatives_are_products_where_enough_triples_share_them(
    count, dtype, is_trained, wanted, monkeypatch
):
    chunks, by_products = FunctionCandidates.chunks, Mock()
    monkeypatch.setattr(
        FunctionCandidates, "chunks", lambda *args: (by_products(), chunks(*args))[1]
    )
    ids, negatives = torch.zeros(count, dtype=torch.int64), torch.arange(5)[None]
    with torch.set_grad_enabled(bool(is_trained)):
        found = hetune.kge.score(distmult).corrupt(
            ids, ids, ids, negatives, entity=ENTITY.to(dtype), r=RELATION.to(dtype)
        )
    assert by_products.call_count == wanted
    exact = (ENTITY[0] * RELATION[0] * ENTITY[:5]).sum(1).to(dtype)
    torch.testing.assert_close(found, exact.expand(count, -1), rtol=1e-5, atol=1e-5)


def test_what_does_not_fit_is_refused():
    score, tables = hetune.kge.score(distmult), {"entity": ENTITY, "r": RELATION}
    with pytest.raises(InputError, match=r"nodes\[0\] is 13: there are 13 entities"):
        score.all(NODES[:1] * 0 + 13, RELS[:1], **tables)
    with pytest.raises(InputError, match=r"nodes\[0\] is -1: there are 13 entities"):
        score.all(NODES[:1] * 0 - 1, RELS[:1], side="head", **tables)
    with pytest.raises(InputError, match=r"rels\[0\] is 3: there are 3 relations"):
        score.all(NODES[:1], RELS[:1] * 0 + 3, **tables)
    with pytest.raises(InputError, match="'head' or 'tail'"):
        score.all(NODES, RELS, side="top", **tables)
    with pytest.raises(InputError, match=r"negatives\[0, 1\] is 13: there are 13 entities"):
        score.corrupt(NODES, RELS, TAILS, torch.tensor([[12, 13]]), **tables)
    each = torch.tensor([[12, 13]]).expand(len(NODES), -1)
    with pytest.raises(InputError, match=r"negatives\[0, 1\] is 13: there are 13 entities"):
        score.corrupt(NODES, RELS, TAILS, each, **tables)
    with pytest.raises(InputError, match=r"rels\[7\] is 3: there are 3 relations"):
        score.corrupt(NODES, torch.tensor([0] * 7 + [3]), TAILS, each % 13, **tables)


def test_ranks_by_a_score_function():
    triples = torch.stack((NODES, RELS, TAILS), 1)
    score, tables = hetune.kge.score(distmult), {"entity": ENTITY, "r": RELATION}
    found = hetune.kge.rank(score, triples, sides=("tail",), **tables)
    scores = score.all(NODES, RELS, **tables)
    own = scores.gather(1, TAILS[:, None])
    assert found.ranks["tail"].tolist() == ((scores > own).sum(1) + 1).tolist()


@pytest.mark.parametrize("name", ["distmult", "transe 2", "transr", "gated", "hole"])
def test_no_queries_and_no_entities(name):
    function, tables = CASES[name]
    score, none = hetune.kge.score(function), torch.zeros(0, dtype=torch.int32)
    for entities in (ENTITY[:0], ENTITY[:1], ENTITY):
        found = score.all(none, none, entity=entities, **tables)
        assert found.shape == (0, len(entities))
    one = torch.zeros(2, dtype=torch.int32)
    found = score.all(one, one, entity=ENTITY[:1], **tables)
    assert torch.equal(found[0], found[1])
