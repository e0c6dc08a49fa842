"""Products of rows, and rows that all others share."""

import pytest
import torch

from hetune.variants.program.nodes import Concat, Einsum, Map, Space, Type
from hetune.variants.program.row_functions import row_function

SIZES = {"h": 2, "k": 7, "d": 16, "e": 5}
PRODUCTS = "kd->dk", "khd->hkd", "k,d->kd", "kd,d->k", "k,kd->d", "kd,de->ke", "kd,k,d->k", "kd->k"


@pytest.mark.parametrize("counts", [(3, 3), (1, 3), (3, 1), (1, 1), (0, 1)])
@pytest.mark.parametrize("spec", PRODUCTS)
def test_products_have_the_bits_of_einsum(spec, counts):
    terms = spec.split("->")[0].split(",")
    names = tuple("xyz"[: len(terms)])
    sizes = dict(zip(names, (*counts, counts[0]), strict=False))
    rows = [
        torch.randn(sizes[n], *(SIZES[a] for a in t)) for n, t in zip(names, terms, strict=True)
    ]
    got = row_function(Einsum(spec, names), {})(*rows)
    count = 0 if 0 in sizes.values() else max(sizes.values())
    each = [r.expand(count, *r.shape[1:]) for r in rows]
    equation = ",".join(f"r{t}" for t in terms) + "->r" + spec.split("->")[1]
    assert torch.equal(got, torch.einsum(equation, *each))


def test_operands_of_fewer_axes_are_numbers_of_rows():
    types = {"x": Type(Space.NODE, (3,)), "y": Type(Space.NODE), "w": Type(Space.SHARED, (2,))}
    x, y, w = torch.randn(4, 3), torch.randn(4), torch.randn(1, 2)
    assert torch.equal(row_function(Map("mul", ("y", "x")), types)(y, x), y[:, None] * x)
    joined = row_function(Concat(("x", "w")), types)
    assert torch.equal(joined(x, w), torch.cat([x, w.expand(4, 2)], 1))
    assert joined(x[:0], w).shape == (0, 5)
