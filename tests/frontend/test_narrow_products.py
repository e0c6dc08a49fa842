"""Products of products that are traced as inner products."""

from __future__ import annotations

import warnings

import pytest
import torch
from tests.frontend.message_passing_cases import pyg
from torch import nn

import hetune
from hetune.variants.program.nodes import Dot

NODES = 40
EDGES = torch.randint(0, NODES, (2, 150), generator=torch.Generator().manual_seed(0))


class Products(pyg.MessagePassing):
    """Sums a product of a product of 64 columns, and perhaps reads this one at nodes."""

    def __init__(self, columns, is_read):
        super().__init__("sum")
        self.first, self.second = nn.Linear(5, 64, bias=False), nn.Linear(64, columns, bias=False)
        self.is_read = is_read

    def forward(self, x, edge_index):
        h = self.first(x)
        out = self.propagate(edge_index, x=self.second(h))
        return torch.cat([out, h.relu()], -1) if self.is_read else out

    def message(self, x_j):
        return x_j


@pytest.mark.parametrize(
    ("columns", "is_read", "are_inner"),
    [(8, True, True), (16, True, False), (16, False, True), (17, False, False)],
)
@torch.no_grad()
def test_narrow_products_are_inner_products_where_that_saves_work(columns, is_read, are_inner):
    model, x = Products(columns, is_read).eval(), torch.randn(NODES, 5)
    compiled = hetune.compile(model, backend="torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error", hetune.FallbackWarning)
        torch.testing.assert_close(compiled(x, EDGES), model(x, EDGES), rtol=1e-5, atol=1e-5)
    ops = [let.op for let in compiled._adapter.program.lets]
    assert any(isinstance(op, Dot) for op in ops) == are_inner
