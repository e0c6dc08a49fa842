"""Inner products of many rows at once."""

import pytest

from hetune.variants.backends.cpp.folded_dots import has_folded_dots
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse

NEAR = """
launch
  buffer x: node[{x}]
  buffer w: etype[{w}]
  buffer near: dst_pair[{h}]
  traverse dst_pair
    own: [{x}] = read x[dst]
    of_type: [{w}] = read w
    dot: [{h}] = dot(own, of_type)
    store near = dot
"""
FAR = """
launch
  buffer x: node[{x}]
  buffer w: etype[{w}]
  buffer far: src_pair@b[{h}]
  traverse src_pair@b
    row: [{x}] = read x[src]
    active: [{x}] = relu(row)
    of_type: [{w}] = read w
    dot: [{h}] = dot(of_type, active)
    store far = dot
"""


@pytest.mark.parametrize("text", [NEAR, FAR])
@pytest.mark.parametrize(
    ("x", "h", "lanes", "folded"),
    [
        ("64", "", 16, True),
        ("64", "4", 16, True),
        ("4,16", "4", 16, True),
        ("16", "2", 8, True),
        ("4,8", "4", 4, False),
        ("24", "", 16, False),
        ("48", "3", 16, False),
    ],
)
def test_products_of_rows(text, x, h, lanes, folded, check, graphs):
    width = x.rpartition(",")[2]
    launch = parse(text.format(x=x, h=h, w=f"{h},{width}".strip(",")))
    assert has_folded_dots(launch.kernels[0], launch, lanes) is folded
    check(launch, Schedule(lanes=lanes))


def test_sums_that_are_added_to_are_left(check):
    launch = parse(NEAR.format(x="64", h="", w="64").replace("near =", "near +="))
    assert not has_folded_dots(launch.kernels[0], launch, 16)
    check(launch)
