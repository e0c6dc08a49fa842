"""`hetune.kge.score`: score functions of knowledge-graph embeddings and their gradients."""

from __future__ import annotations

import pytest
import torch
from torch.linalg import vector_norm

import hetune
from hetune.errors import InputError

ENTITIES, RELATIONS, TRIPLES, WIDTH = 40, 5, 90, 8
RANDOM = torch.Generator().manual_seed(0)
HEADS, TAILS = torch.randint(ENTITIES - 3, (2, TRIPLES), generator=RANDOM)
RELS = torch.randint(RELATIONS, (TRIPLES,), generator=RANDOM)


def table(*shape):
    return torch.randn(*shape, generator=RANDOM).requires_grad_()


ENTITY, RELATION = table(ENTITIES, WIDTH), table(RELATIONS, WIDTH)
MATRIX = table(RELATIONS, WIDTH, WIDTH)


def transe(h, r, t, p=1):
    return -vector_norm(h + r - t, p)


def distmult(h, r, t):
    return (h * r * t).sum()


def rescal(h, r, t):
    return h @ r @ t


def transr(h, r, t, P):
    return -vector_norm((h - t) @ P + r)


CASES = {
    "transe": (transe, lambda h, r, t: -(h + r - t).abs().sum(1), {"r": RELATION}),
    "distmult": (distmult, lambda h, r, t: (h * r * t).sum(1), {"r": RELATION}),
    "rescal": (rescal, lambda h, r, t: torch.einsum("bi,bij,bj->b", h, r, t), {"r": MATRIX}),
    "transr": (
        transr,
        lambda h, r, t, P: -(torch.einsum("bi,bij->bj", h - t, P) + r).pow(2).sum(1).sqrt(),
        {"r": RELATION, "P": MATRIX},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_scores_and_gradients_are_those_of_float64(name):
    function, formula, tables = CASES[name]
    score = hetune.kge.score(function)
    found = score(HEADS, RELS, TAILS, entity=ENTITY, **tables)
    expected = formula(
        ENTITY.double()[HEADS],
        tables["r"].double()[RELS],
        ENTITY.double()[TAILS],
        *(table.double()[RELS] for key, table in tables.items() if key != "r"),
    )
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    weights = torch.randn(TRIPLES, generator=torch.Generator().manual_seed(1))
    by = [ENTITY, *tables.values()]
    gradients = torch.autograd.grad(found, by, weights)
    exact = torch.autograd.grad(expected, by, weights.double())
    for one, other in zip(gradients, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_what_is_no_triple_is_refused():
    score = hetune.kge.score(distmult)
    with pytest.raises(InputError, match=r"rels\[1\] is 5: there are 5 relations"):
        score(HEADS[:2], torch.tensor([0, 5]), TAILS[:2], entity=ENTITY, r=RELATION)
