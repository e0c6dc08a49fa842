"""Walks over nodes leave some out exactly where nobody reads what they would store there."""

import pytest

from hetune.variants.kernel.nodes import Rows
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.idle import adds_sums_over, leaves_out_idle
from hetune.variants.program.nodes import Space

BUFFERS = """
launch
  buffer x: node[4]
  buffer w: shared[4,4]
  buffer typed: etype[4,4]
  buffer y: node[4]
  buffer edges: edge[4]
  buffer pairs: dst_pair[4]
  buffer s: node[4] in scratch s
  buffer t: node[4] in scratch t
"""
FIRST = """
  traverse node
    a: [4] = read x
    b: [4] = gelu(a)
    store s = b
"""
SUM = """
  traverse node
    init total: [4] sum
    for edge
      e: [4] = read edges
      update total e
    store s = total
"""
ALL_ROWS = "  gemm y[node] = s @ w heads=1 k=4 n=4\n"
ROWS_WITH_EDGES = "  gemm y[node] = s @ w heads=1 k=4 n=4 only=dst fill\n"
ROWS_WITH_EDGES_OUT = "  gemm y[node] = s @ w heads=1 k=4 n=4 only=src fill\n"
PAIRS = "  gemm pairs[dst_pair] = s[dst] @ typed heads=1 k=4 n=4\n"
INTO = "  gemm s[dst_pair -> node] += pairs @ typed heads=1 k=4 n=4\n"
INTO_ALL = "  gemm s[node] += x @ w heads=1 k=4 n=4\n"
RESULT = """
  traverse node
    c: [4] = read s
    store y = c
"""
SECOND = """
  traverse node
    c: [4] = read s
    d: [4] = relu(c)
    store t = d
"""
EDGES = """
  traverse node
    for edge
      e: [4] = read edges
      f: [4] = relu(e)
      store edges = f
"""
LAST = "  gemm y[node] = t @ w heads=1 k=4 n=4 only=dst fill\n"
FINISHED = """
  gemm p[node] = {x} @ w heads=1 k=4 n=4 only=dst fill
    c: [4] = read {old}
    both: [4] = add(p, c)
    store y = both
"""


@pytest.mark.parametrize(
    ("kernels", "left_out"),
    [
        ([FIRST, ROWS_WITH_EDGES], {0}),
        ([SUM, ROWS_WITH_EDGES], {0}),
        ([FIRST, PAIRS], {0}),
        ([FIRST, INTO, ROWS_WITH_EDGES], {0}),
        ([FIRST, SECOND, LAST], {0, 1}),
        ([EDGES], {0}),
        ([FIRST, ALL_ROWS], set()),
        ([FIRST, ROWS_WITH_EDGES_OUT], set()),
        ([FIRST, INTO_ALL, ROWS_WITH_EDGES], set()),
        ([FIRST, RESULT], set()),
        ([FIRST, ROWS_WITH_EDGES, RESULT], set()),
        ([FIRST, SECOND, LAST, ALL_ROWS.replace("= s", "= t")], set()),
        ([SUM.replace("store s", "store y")], set()),
        ([FIRST, FINISHED.format(x="s", old="x")], {0}),
        ([FIRST, FINISHED.format(x="x", old="s")], set()),
    ],
    ids=range(15),
)
def test_which_walks_leave_nodes_out(kernels, left_out):
    assert leaves_out_idle(parse(BUFFERS + "".join(kernels))) == left_out


def test_rows_by_another_name_of_the_same_scratch_count():
    renamed = RESULT.replace("read s", "read u")
    launch = parse(f"{BUFFERS}  buffer u: node[4] in scratch s\n{FIRST}{ROWS_WITH_EDGES}{renamed}")
    assert leaves_out_idle(launch) == set()


ADDED = """
  traverse node
    init total: [4] sum
    for edge@s
      e: [4] = read edges
      update total e
    store y += total
"""


@pytest.mark.parametrize(
    ("walk", "rows"),
    [
        (ADDED, Rows(Space.EDGE, "s")),
        (
            ADDED.replace("for edge@s", "for dst_pair").replace("edges", "pairs"),
            Rows(Space.DST_PAIR),
        ),
        (ADDED.replace("+= total", "= total"), None),
        (ADDED.replace("[4] sum", "[4] max"), None),
        (ADDED.replace("    store", "    more: [4] = relu(total)\n    store"), None),
        (
            ADDED.replace("    store", "    more: [4] = read x\n    store").replace(
                "= total", "= more"
            ),
            None,
        ),
        (
            ADDED.replace(
                "    store",
                "    for edge\n      f: [4] = read edges\n      update total f\n    store",
            ),
            None,
        ),
        (
            ADDED.replace("node", "dst_pair")
            .replace("edge@s", "edge")
            .replace("store y", "store pairs"),
            None,
        ),
    ],
    ids=["edges", "pairs", "stored", "maximum", "function", "other", "two loops", "no nodes"],
)
def test_which_walks_add_nothing_where_there_are_no_edges(walk, rows):
    [kernel] = parse(BUFFERS + walk).kernels
    assert adds_sums_over(kernel) == rows
