"""Sums of absolute differences in C++, and their gradients, against torch's in float64."""

from __future__ import annotations

import pytest
import torch

from hetune.variants.runtime import absolute_distances as module

SHAPES = [
    ((9, 7), (65, 7)),
    ((4, 48), (32, 48)),
    ((3, 2, 16), (3, 300, 16)),
    ((1, 5), (1, 5)),
    ((0, 5), (3, 5)),
    ((3, 5), (0, 5)),
]


@pytest.mark.parametrize(("rows", "keys"), SHAPES)
def test_distances_and_gradients(rows, keys, monkeypatch):
    monkeypatch.setattr(module, "_SMALL", -1)
    random = torch.Generator().manual_seed(0)
    rows, keys = (torch.randn(shape, generator=random) for shape in (rows, keys))
    if rows.numel() and keys.numel():
        keys[..., 0, :] = rows[..., 0, :]  # where the gradient is 0
    weights = torch.randn((*rows.shape[:-1], keys.shape[-2]), generator=random)
    found, want = [], []
    for way, dtype, into in (
        (module.absolute_distances, torch.float32, found),
        (lambda x, y: torch.cdist(x, y, p=1), torch.float64, want),
    ):
        given = [x.to(dtype).requires_grad_() for x in (rows, keys)]
        distances = way(*given)
        gradients = torch.autograd.grad(distances, given, weights.to(dtype))
        into += [distances.detach().double(), *(gradient.double() for gradient in gradients)]
    torch.testing.assert_close(found, want, rtol=1e-6, atol=1e-5)


def test_rows_that_are_no_block_of_memory(monkeypatch):
    monkeypatch.setattr(module, "_SMALL", 0)
    x = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    found = module.absolute_distances(x[:, ::2], x.T[:20].T.flip(0))
    want = torch.cdist(x[:, ::2].double(), x[:, :20].double().flip(0), p=1)
    torch.testing.assert_close(found.double(), want, rtol=1e-6, atol=1e-5)
