"""The benchmarks are scripts beside each other, not a package: tests put them on the path."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))


@pytest.fixture
def threads() -> Iterator[None]:
    """Puts the number of threads back that a benchmark has set."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
