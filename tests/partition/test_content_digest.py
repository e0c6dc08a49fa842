"""Functions of rows are told apart by what they compute."""

import sys
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from hetune.variants.partition.content_digest import content_digest


def scaled(by):
    return lambda x: x * by


class Scaled(nn.Module):
    def __init__(self, by: object) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        return x * self.by


@pytest.mark.parametrize(
    ("function", "same", "other"),
    [
        (lambda x: x + 1, lambda x: x + 1, lambda x: x + 2),
        (lambda x: x.relu(), lambda x: x.relu(), lambda x: x.tanh()),
        (scaled(2), scaled(2), scaled(3)),
        (scaled(torch.ones(2)), scaled(torch.ones(2)), scaled(torch.zeros(2))),
        (Scaled(2), Scaled(2), Scaled(3)),
        ({"w": torch.ones(2).bfloat16()}, {"w": torch.ones(2).bfloat16()}, {"w": torch.ones(2)}),
        (nn.LeakyReLU(0.1), nn.LeakyReLU(0.1), nn.LeakyReLU(0.2)),
        (partial(torch.clamp, min=0), partial(torch.clamp, min=0), partial(torch.clamp, min=1)),
        (torch.ones(2).add, torch.ones(2).add, torch.zeros(2).add),
        (torch.relu, torch.relu, torch.tanh),
    ],
)
def test_functions_are_told_apart_by_what_they_compute(function, same, other):
    assert content_digest(function) == content_digest(same) != content_digest(other)


def test_what_cannot_be_told_apart_equals_nothing():
    """Here: open streams."""
    assert content_digest(scaled(sys.stdout)) != content_digest(scaled(sys.stdout))
