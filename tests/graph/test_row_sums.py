"""Sums of rows by numbers."""

import pytest
import torch

from hetune.variants.graph.row_sums import add_rows
from hetune.variants.graph.threads import using_threads


@pytest.mark.parametrize("shape", [(), (7,), (3, 16)])
def test_sums_are_those_of_torch_with_any_number_of_threads(shape):
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(100, *shape, generator=random)
    ids = torch.randint(9, (100,), generator=random, dtype=torch.int32)
    found = []
    for threads in (1, 3):
        found.append(torch.ones(10, *shape))
        with using_threads(threads):
            add_rows(found[-1], ids, rows, -2.0)
            add_rows(found[-1], ids[:0], rows[:0], -2.0)
    assert torch.equal(*found)
    expected = torch.ones(10, *shape).double().index_add(0, ids, rows.double(), alpha=-2)
    torch.testing.assert_close(found[0].double(), expected, rtol=1e-5, atol=1e-5)


def test_rows_that_torch_negates_as_it_reads_them():
    rows, ids = torch.randn(4, 3), torch.tensor([0, 2, 2, 1], dtype=torch.int32)
    found = torch.zeros(3, 3)
    add_rows(found, ids, torch._neg_view(rows), 1.0)
    assert torch.equal(found, torch.zeros(3, 3).index_add(0, ids, -rows))
