"""Launches that break a rule of the IR are refused before anything runs."""

from __future__ import annotations

from textwrap import dedent

import pytest

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse
from hetune.variants.runtime.domain import Domain
from hetune.variants.testing.graphs import AWKWARD

BROKEN = {
    "weight 'a' has row shape (4,): it must be () or (heads,) = (1,)": """
        launch
          buffer x: node[4]
          buffer a: edge[4]
          buffer w: etype[4,3]
          buffer y: dst_pair[3]
          gemm y[dst_pair] = sum(a * x[src]) @ w heads=1 k=4 n=3
        """,
    "'p' is etype[] but the rows are dst_pair: use a buffer of dst_pair": """
        launch
          buffer x: node[4]
          buffer p: etype[]
          buffer w: etype[4,3]
          buffer y: node[3]
          gemm y[dst_pair -> node] += p * x[dst] @ w heads=1 k=4 n=3
        """,
}


@pytest.mark.parametrize(("message", "text"), BROKEN.items(), ids=["weight", "scale"])
@pytest.mark.parametrize(
    "backend", [CppBackend(), TorchBackend(), TritonBackend()], ids=lambda each: each.name
)
def test_broken_launches(backend, message, text):
    graph = AWKWARD["one relation"]()
    with pytest.raises(KernelError) as caught:
        backend.bind(parse(dedent(text)), Schedule(), Domain(graph))
    assert str(caught.value).endswith(message)
