"""Compact materialization: what edges share is computed once for a pair, or for a node."""

from __future__ import annotations

import pytest

from hetune.variants.passes.compact import Compact

REWRITES = {
    "a typed product moves to source pairs": (
        Compact(),
        """
        program p(x: node[4] feature, w: etype[4,3])
          xs: edge[4] = take x edge src
          h: edge[3] = linear xs w
          out: node[3] = sum h node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,3])
          x_src_pair: src_pair[4] = take x src_pair src
          h: src_pair[3] = linear x_src_pair w
          h_edge: edge[3] = take h edge
          out: node[3] = sum h_edge node
          return out
        """,
    ),
    "what follows at the same end moves along": (
        Compact(),
        """
        program p(x: node[4] feature, w: etype[4,3], a: shared[3])
          xd: edge[4] = take x edge dst
          h: edge[3] = linear xd w
          s: edge[] = dot h a
          e: edge[] = softmax s node
          out: node[] = sum e node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,3], a: shared[3])
          x_dst_pair: dst_pair[4] = take x dst_pair dst
          h: dst_pair[3] = linear x_dst_pair w
          s: dst_pair[] = dot h a
          s_edge: edge[] = take s edge
          e: edge[] = softmax s_edge node
          out: node[] = sum e node
          return out
        """,
    ),
    "scores of sources may stay where sums read the rows": (
        Compact(scores=False),
        """
        program p(x: node[4] feature, a: etype[4], b: etype[4])
          xs: edge[4] = take x edge src
          xd: edge[4] = take x edge dst
          s: edge[] = dot xs a
          d: edge[] = dot xd b
          e: edge[] = add s d
          m: edge[4] = mul e xs
          out: node[4] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, a: etype[4], b: etype[4])
          xs: edge[4] = take x edge src
          s: edge[] = dot xs a
          x_dst_pair: dst_pair[4] = take x dst_pair dst
          d: dst_pair[] = dot x_dst_pair b
          d_edge: edge[] = take d edge
          e: edge[] = add s d_edge
          m: edge[4] = mul e xs
          out: node[4] = sum m node
          return out
        """,
    ),
    "without an edge type it moves to the nodes": (
        Compact(),
        """
        program p(x: node[4] feature, w: shared[4,3])
          xs: edge[4] = take x edge src
          h: edge[3] = linear xs w
          r: edge[3] = relu h
          out: node[3] = sum r node
          return out
        """,
        """
        program p(x: node[4] feature, w: shared[4,3])
          h: node[3] = linear x w
          r: node[3] = relu h
          r_edge: edge[3] = take r edge src
          out: node[3] = sum r_edge node
          return out
        """,
    ),
    "what needs both ends stays": (
        Compact(),
        """
        program p(x: node[4] feature)
          xs: edge[4] = take x edge src
          xd: edge[4] = take x edge dst
          s: edge[] = dot xs xd
          out: node[] = sum s node
          return out
        """,
        None,
    ),
    "products may be told to stay": (
        Compact(linear=False),
        """
        program p(x: node[4] feature, w: etype[4,3], a: etype[4])
          xs: edge[4] = take x edge src
          s: edge[] = dot xs a
          h: edge[3] = linear xs w
          m: edge[3] = mul s h
          out: node[3] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,3], a: etype[4])
          xs: edge[4] = take x edge src
          x_src_pair: src_pair[4] = take x src_pair src
          s: src_pair[] = dot x_src_pair a
          s_edge: edge[] = take s edge
          h: edge[3] = linear xs w
          m: edge[3] = mul s_edge h
          out: node[3] = sum m node
          return out
        """,
    ),
    "a row for each head is made where it is added up": (
        Compact(),
        """
        program p(x: node[4] feature, s: node[2] feature, w: etype[2,4,3])
          a: edge[2] = take s edge src
          xs: edge[4] = take x edge src
          rows: edge[2,4] = outer a xs
          pair: dst_pair[2,4] = sum rows dst_pair
          h: dst_pair[2,3] = linear pair w
          out: node[2,3] = sum h node
          return out
        """,
        None,
    ),
}
"""Pass, program before, program after (None: the same)."""


@pytest.mark.parametrize(("step", "before", "after"), REWRITES.values(), ids=REWRITES)
def test_rewrite(step, before, after, check_rewrite):
    check_rewrite(step, before, after)
