"""The launches that layers are made of, at awkward widths and with several heads."""

from itertools import product

import pytest
from tests.full import every

from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse

from ..launches import ATTEND, GATHERED, NARROW, RGCN, SCORES, SOFTMAX, TRANSFORM

WIDTHS = (1, 7, 16, 63, 64, 65, 128)
WITH_HEADS = {"scores": SCORES, "softmax": SOFTMAX, "attend": ATTEND, "narrow": NARROW}


@pytest.mark.parametrize("d", WIDTHS)
@pytest.mark.parametrize("text", [RGCN, TRANSFORM], ids=["rgcn", "transform"])
def test_without_heads(text, d, check):
    check(parse(text.format(d=d)))


@pytest.mark.parametrize(
    ("text", "d", "h"), every(5, product(WITH_HEADS, (1, 7, 16, 65), (1, 2, 4)))
)
def test_with_heads(text, d, h, check):
    check(parse(WITH_HEADS[text].format(d=d, h=h, n=3 * h)))


@pytest.mark.parametrize(
    ("rows", "h", "shape"),
    every(3, product((3, 5), (1, 2), [(64, 64), (64, 160), (96, 3), (80, 33), (256, 16)])),
)
def test_rows_that_are_asked_for_line_by_line(shape, h, rows, check):
    k, n = shape
    text = GATHERED.format(k=k, n=n, h=h)
    check(parse(text), Schedule(row_tile=rows))


@pytest.mark.parametrize("h", [2, 4])
def test_rows_wider_than_the_registers(h, check):
    check(parse(ATTEND.format(d=128, h=h)))


def test_more_heads_than_a_tile_has_columns(check):
    check(parse(ATTEND.format(d=4, h=136)))


OUTER = """
launch
  buffer v: edge[2,2]
  buffer own: node[2]
  buffer e: edge[2,2]
  traverse node
    of_heads: [2] = read own
    for edge
      row: [2,2] = read v
      both: [2,2] = add(of_heads, row)
      store e = both
"""


def test_a_node_s_row_has_fewer_axes_than_those_of_its_edges(check):
    check(parse(OUTER))


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(lanes=8, row_tile=4, col_vectors=2),
        Schedule(lanes=4, row_tile=2, col_vectors=1, unroll=1, prefetch=0),
        Schedule(row_tile=3, col_vectors=3, unroll=4, prefetch=2),
        Schedule(row_tile=14, col_vectors=1),
    ],
    ids=str,
)
def test_schedules_do_not_change_results(schedule, check):
    check(parse(RGCN.format(d=67)), schedule)
