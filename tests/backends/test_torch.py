"""The kernel interpreter as a backend."""

import pytest
import torch

from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.random_values import random_values
from hetune.variants.runtime.domain import Domain
from hetune.variants.testing.graphs import AWKWARD

from .launches import WEIGHTED


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_scratch_has_the_dtype_of_the_buffers(dtype):
    launch, graph = parse(WEIGHTED.format(h=2, d=4)), AWKWARD["one relation"]()
    domain = Domain(graph)
    got = random_values(launch, domain.index, graph, dtype)
    want = {name: value.clone() for name, value in got.items()}
    interpret(launch, want, domain.index, graph)
    del got["p"]
    TorchBackend().bind(launch, Schedule(), domain)(got)
    assert torch.equal(got["y"], want["y"])
