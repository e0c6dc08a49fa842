"""Rewrites as tables of program text, each also run by the interpreter."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from hetune.variants.passes.hybrid import DST_SIDE, SRC_SIDE
from hetune.variants.passes.pipeline import clean, run_passes
from hetune.variants.program.interpret import interpret_results
from hetune.variants.program.text import parse, show
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.programs import random_parameters

GRAPH = typed_graph((7, 5, 2), [(0, 1, 12), (1, 0, 9), (0, 0, 7), (1, 2, 0), (2, 0, 6)])
GROUPS = {SRC_SIDE: (0, 3), DST_SIDE: (1, 2, 4)}


def assert_same_result(before, after, graph, groups, seed=0):
    """Both programs compute the same, up to the order of additions."""
    values = random_parameters(before, graph, seed)
    want = interpret_results(before, values, graph, groups)
    found = interpret_results(after, values, graph, groups)
    torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-9)


@pytest.fixture
def check_rewrite():
    """Asserts that a pass turns one text into the other, and that both compute the same."""

    def check(step, before: str, after: str | None) -> None:
        program = parse(dedent(before))
        rewritten = clean(program) if step is None else run_passes((step,), program)
        expected = show(clean(program)) if after is None else dedent(after).lstrip("\n")
        assert show(rewritten) == expected
        assert_same_result(program, rewritten, GRAPH, GROUPS)

    return check
