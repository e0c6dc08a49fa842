"""Rows of tables and their gradients are those of torch's embeddings."""

import pytest
import torch
from torch.nn.functional import embedding

from hetune.variants.frontend.table_rows import table_rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [5, 300_000])
def test_gradients_are_those_of_embeddings(rows, dtype):
    random = torch.Generator().manual_seed(0)
    table = torch.randn(rows, 7, generator=random, dtype=dtype)
    places = torch.randint(rows, (60,), generator=random).repeat(2)
    grad = torch.randn(120, 7, generator=random, dtype=dtype)
    for read in (places, places[:0]):
        found = []
        for of in (table_rows, lambda table, places: embedding(places, table)):
            leaf = table.clone().requires_grad_()
            out = of(leaf, read)
            out.backward(grad[: len(read)])
            found.append((out.detach(), leaf.grad))
        (got, got_grad), (want, want_grad) = found
        assert torch.equal(got, want)
        assert torch.equal(got_grad, want_grad)


def test_gradients_have_the_tables_dtype_whatever_torchs_default_is():
    table, places = torch.randn(5, 7, requires_grad=True), torch.tensor([1, 1, 4])
    torch.set_default_dtype(torch.float64)
    try:
        table_rows(table, places).sum().backward()
    finally:
        torch.set_default_dtype(torch.float32)
    expected = torch.zeros(5, 7).index_add(0, places, torch.ones(3, 7))
    assert torch.equal(table.grad, expected)
