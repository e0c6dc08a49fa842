"""The benchmarks are scripts beside each other, not a package: tests put them on the path."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """Puts the number of threads back that a benchmark has set."""
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", str(before)))
        yield
    torch.set_num_threads(before)
