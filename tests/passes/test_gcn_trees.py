"""SENSEi's trees of GCN: every association of D A D H W, and the two programs that are left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hetune.variants.passes.edge_constants import EdgeConstants
from hetune.variants.passes.pipeline import run_passes
from hetune.variants.plan.alternatives import alternatives
from hetune.variants.plan.facts import constants
from hetune.variants.program.builder import Builder
from hetune.variants.program.canonical import canonical
from hetune.variants.program.nodes import (
    End,
    Linear,
    Map,
    Param,
    Program,
    Reduce,
    Space,
    Take,
    Type,
    operands,
)

from .conftest import GRAPH, GROUPS, assert_same_result

Tree = str | tuple["Tree", ...]
DIAGONAL, SPARSE, SCALED, ROWS, WEIGHT = "D", "A", "scaled", "H", "W"
RULES = {
    (DIAGONAL, SPARSE): SCALED,
    (SPARSE, DIAGONAL): SCALED,
    (DIAGONAL, SPARSE, DIAGONAL): SCALED,
    (DIAGONAL, ROWS): ROWS,
    (SPARSE, ROWS): ROWS,
    (SCALED, ROWS): ROWS,
    (ROWS, WEIGHT): ROWS,
}
"""What adjacent operands make: primitives of SENSEi."""


def trees(chain: str) -> Iterator[tuple[Tree, str]]:
    """All trees of a chain by the rules, with what they make."""
    if len(chain) == 1:
        yield chain, chain
    if tuple(chain) in RULES and len(chain) == 3:
        yield tuple(chain), RULES[tuple(chain)]
    for cut in range(1, len(chain)):
        for left, one in trees(chain[:cut]):
            for right, other in trees(chain[cut:]):
                if (one, other) in RULES:
                    yield (left, right), RULES[one, other]


def program_of(tree: Tree, d_in: int, d_out: int) -> Program:
    """A tree as a program: D a constant of nodes, A the graph, H rows, and W a weight."""
    params = (
        Param("x", Type(Space.NODE, (d_in,)), "feature"),
        Param("d", Type(Space.NODE), "constant"),
        Param("w", Type(Space.SHARED, (d_in, d_out))),
    )
    builder = Builder(params)

    def numbers(part: Tree) -> list[str]:
        """Of the edges: the diagonals before A are of destinations, those behind of sources."""
        ends = {0: End.DST, len(part) - 1: End.SRC}
        found = [
            builder.emit(Take("d", Space.EDGE, ends[i]), "d_edge")
            for i, leaf in enumerate(part)
            if leaf == DIAGONAL
        ]
        return found if len(found) < 2 else [builder.emit(Map("mul", tuple(found)), "c")]

    def rows(part: Tree) -> str:
        match part:
            case "H":
                return "x"
            case ("D", right):
                return builder.emit(Map("mul", ("d", rows(right))), "scaled")
            case (left, "W"):
                return builder.emit(Linear(rows(left), "w"), "product")
            case (left, right):
                sent = builder.emit(Take(rows(right), Space.EDGE, End.SRC), "sent")
                for factor in () if left == SPARSE else numbers(left):
                    sent = builder.emit(Map("mul", (factor, sent)), "weighted")
                return builder.emit(Reduce(sent, Space.NODE, end=End.DST), "sum")
        raise AssertionError(part)

    result = rows(tree)
    return builder.finish(Program("gcn", params, (), ()), (result,))


def without_constants(program: Program) -> Program:
    """Its canonical form, with what follows from the graph given."""
    known = {let.name: let for let in constants(program)}
    lets = tuple(let for let in program.lets if let.name not in known)
    read = {name for let in lets for name in operands(let.op)}
    given = [Param(let.name, let.type, "constant") for let in known.values() if let.name in read]
    return canonical(Program("gcn", (*program.params, *given), lets, program.results))


@pytest.mark.parametrize(("d_in", "d_out"), [(3, 5), (5, 3)])
def test_twelve_trees_are_two_programs(d_in, d_out):
    found = [tree for tree, made in trees("DADHW") if made == ROWS]
    assert len(found) == 12
    left: dict[Program, set[Tree]] = {}
    for tree in found:
        program = program_of(tree, d_in, d_out)
        assert_same_result(program, run_passes((EdgeConstants(),), program), GRAPH, GROUPS)
        for way in alternatives(program):
            left.setdefault(without_constants(way.program), set()).add(tree)
    precomputed = {
        order: without_constants(program_of(tree, d_in, d_out))
        for order, tree in {
            "product first": (("D", "A", "D"), ("H", "W")),
            "product last": ((("D", "A", "D"), "H"), "W"),
        }.items()
    }
    assert left.keys() == set(precomputed.values())
    narrower = precomputed["product first" if d_out < d_in else "product last"]
    assert left[narrower] == set(found)  # whoever wrote whichever tree


def test_numbers_that_a_run_brings_stay_where_they_are(check_rewrite):
    program = """
        program p(x: node[4] feature, d: node[] feature, s: node[] constant)
          scaled: node[4] = mul d x
          sent: edge[4] = take scaled edge src
          sum: node[4] = sum sent node
          most: node[4] = max sent node
          out: node[4] = mul s most
          return sum, out
        """
    check_rewrite(EdgeConstants(), program, None)
