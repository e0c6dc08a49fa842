"""Rewrites as tables of program text, each also run by the interpreter."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.passes.hybrid import DST_SIDE, SRC_SIDE
from hetune.variants.passes.pipeline import clean, run_passes
from hetune.variants.program.interpret import interpret
from hetune.variants.program.nodes import Program, Space, Type
from hetune.variants.program.text import parse, show
from hetune.variants.testing.graphs import typed_graph

GRAPH = typed_graph((7, 5, 2), [(0, 1, 12), (1, 0, 9), (0, 0, 7), (1, 2, 0), (2, 0, 6)])
GROUPS = {SRC_SIDE: (0, 3), DST_SIDE: (1, 2, 4)}


def rows(kind: Type, graph: HeteroGraph) -> int:
    """Rows of a parameter."""
    counts = {
        Space.NODE: graph.num_nodes,
        Space.EDGE: graph.num_edges,
        Space.NTYPE: graph.num_ntypes,
        Space.ETYPE: graph.num_etypes,
        Space.SHARED: 1,
    }
    return counts[kind.space]


def random_parameters(program: Program, graph: HeteroGraph, seed: int = 0):
    """A float64 tensor of signed numbers for each parameter."""
    draw = torch.Generator().manual_seed(seed)
    return {
        param.name: torch.randn(
            (rows(param.type, graph), *param.type.shape), generator=draw, dtype=torch.float64
        )
        for param in program.params
    }


def assert_same_result(before, after, graph, groups, seed=0):
    """Both programs compute the same, up to the order of additions."""
    values = random_parameters(before, graph, seed)
    want = interpret(before, values, graph, groups)
    found = interpret(after, values, graph, groups)
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
