"""Calls of different kinds of one traced layer."""

from __future__ import annotations

import pytest
import torch
from tests.frontend.message_passing_cases import WIDTH, pyg

from hetune.variants.frontend import message_passing
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning

EDGES = torch.randint(0, 90, (2, 700), generator=torch.Generator().manual_seed(0))


class Halved(pyg.MessagePassing):
    """Has no program as long as it rounds."""

    def __init__(self):
        super().__init__()
        self.rounds = True

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x.round() if self.rounds else x / 2)


@torch.no_grad()
def test_a_refusal_is_remembered_until_an_option_changes(monkeypatch):
    traced = []
    validated = message_passing.validated
    monkeypatch.setattr(
        message_passing, "validated", lambda *args: traced.append(args) or validated(*args)
    )
    layer = Halved()
    compiled = compile_layer(layer, backend="torch")
    for nodes, width, times in ((99, WIDTH, 1), (98, WIDTH, 1), (99, WIDTH + 1, 2)):
        x = torch.randn(nodes, width)
        if width == WIDTH and nodes == 99:
            with pytest.warns(FallbackWarning, match="round"):
                compiled(x, EDGES)
        assert torch.equal(compiled(x, EDGES.clone()), layer(x, EDGES))
        assert len(traced) == times
    layer.rounds = False
    torch.testing.assert_close(compiled(x, EDGES), layer(x, EDGES))
    assert len(traced) == 3
    assert compiled.variants
