"""Loops whose sums are wider than the registers, with more in them than what they add up."""

from textwrap import dedent

import pytest

from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse

LOOPS = {
    "a narrow sum within": """
      launch
        buffer a: edge[3]
        buffer x: dst_pair[3,160]
        buffer y: node[3,160]
        traverse node
          init total: [3,160] sum
          for dst_pair
            init share: [3] sum
            for edge
              part: [3] = read a
              update share part
            row: [3,160] = read x
            product: [3,160] = mul(share, row)
            update total product
          store y = total
    """,
    "a loop across edges within": """
      launch
        buffer a: edge[4]
        buffer x: dst_pair[4,160]
        buffer share: node[4]
        buffer y: node[4,160]
        traverse node
          init shares: [4] sum
          init total: [4,160] sum
          for dst_pair
            for edge
              part: [4] = read a
              update shares part
            row: [4,160] = read x
            update total row
          store share = shares
          store y = total
    """,
    "a wider row that is stored": """
      launch
        buffer x: node[480]
        buffer wider: node[600]
        buffer e: edge[600]
        buffer y: node[480]
        traverse node
          init total: [480] sum
          for edge
            row: [480] = read x[src]
            update total row
            other: [600] = read wider[src]
            store e = other
          store y = total
    """,
    "a row that is read and stored": """
      launch
        buffer a: edge[3]
        buffer x: node[3,160]
        buffer y: node[3,160]
        traverse node
          init total: [3,160] sum
          for edge
            share: [3] = read a
            power: [3] = exp(share)
            store a = power
            row: [3,160] = read x[src]
            product: [3,160] = mul(power, row)
            update total product
          store y = total
    """,
}


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_of_wide_sums_equals_the_interpreter(loop, lanes, check):
    check(parse(dedent(LOOPS[loop])), Schedule(block_nodes=64, lanes=lanes))
