"""Product first: rows get narrow before they are added up, where widths say that it pays."""

from __future__ import annotations

import pytest

from hetune.variants.passes.product_first import ProductFirst

REWRITES = {
    "a mean of rows": (
        """
        program p(x: node[6] feature, i: node[] constant, w: shared[6,2])
          xs: edge[6] = take x edge src
          s: node[6] = sum xs node
          m: node[6] = mul i s
          out: node[2] = linear m w
          return out
        """,
        """
        program p(x: node[6] feature, i: node[] constant, w: shared[6,2])
          out: node[2] = linear x w
          out_sent: edge[2] = take out edge src
          out_2: node[2] = sum out_sent node
          out_3: node[2] = mul i out_2
          return out_3
        """,
    ),
    "rows beside their sum": (
        """
        program p(x: node[6] feature, eps: shared[], w: shared[6,2])
          xs: edge[6] = take x edge src
          s: node[6] = sum xs node
          own: node[6] = mul eps x
          both: node[6] = add s own
          out: node[2] = linear both w
          return out
        """,
        """
        program p(x: node[6] feature, eps: shared[], w: shared[6,2])
          out: node[2] = linear x w
          out_sent: edge[2] = take out edge src
          out_2: node[2] = sum out_sent node
          out_3: node[2] = mul eps out
          out_4: node[2] = add out_2 out_3
          return out_4
        """,
    ),
    "powers in Horner's form": (
        """
        program powers_of_a_matrix(
          x: node[6] feature,
          c: edge[] constant,
          u: shared[6,2],
          v: shared[6,2],
          w: shared[6,2],
        )
          t: edge[6] = take x edge src
          m: edge[6] = mul c t
          s: node[6] = sum m node
          t2: edge[6] = take s edge src
          m2: edge[6] = mul c t2
          s2: node[6] = sum m2 node
          p0: node[2] = linear x u
          p1: node[2] = linear s v
          p2: node[2] = linear s2 w
          a: node[2] = add p0 p1
          out: node[2] = add a p2
          return out
        """,
        """
        program powers_of_a_matrix(
          x: node[6] feature,
          c: edge[] constant,
          u: shared[6,2],
          v: shared[6,2],
          w: shared[6,2],
        )
          p0: node[2] = linear x u
          p1: node[2] = linear x v
          p2: node[2] = linear x w
          p2_sent: edge[2] = take p2 edge src
          p2_sent_scaled: edge[2] = mul c p2_sent
          p2_2: node[2] = sum p2_sent_scaled node
          out_rows: node[2] = add p1 p2_2
          out_rows_sent: edge[2] = take out_rows edge src
          out_rows_sent_scaled: edge[2] = mul c out_rows_sent
          out: node[2] = sum out_rows_sent_scaled node
          out_2: node[2] = add p0 out
          return out_2
        """,
    ),
    "heads, and sums at sources": (
        """
        program p(x: node[8] feature, w: shared[8,2,3])
          xs: edge[8] = take x edge dst
          s: node[8] = sum xs node src
          h: node[8] = scale s 0.5
          out: node[2,3] = linear h w
          return out
        """,
        """
        program p(x: node[8] feature, w: shared[8,2,3])
          out: node[2,3] = linear x w
          out_sent: edge[2,3] = take out edge dst
          out_2: node[2,3] = sum out_sent node src
          out_3: node[2,3] = scale out_2 0.5
          return out_3
        """,
    ),
    "not where rows get wider": (
        """
        program p(x: node[2] feature, w: shared[2,6])
          xs: edge[2] = take x edge src
          s: node[2] = sum xs node
          out: node[6] = linear s w
          return out
        """,
        None,
    ),
    "not where the sums are needed anyway": (
        """
        program p(x: node[6] feature, w: shared[6,2])
          xs: edge[6] = take x edge src
          s: node[6] = sum xs node
          out: node[2] = linear s w
          return out, s
        """,
        None,
    ),
    "not what is no linear function of one value": (
        """
        program p(x: node[6] feature, y: node[6] feature, w: shared[6,2], u: shared[6,2])
          xs: edge[6] = take x edge src
          s: node[6] = sum xs node
          r: node[6] = relu s
          a: node[6] = add s y
          out: node[2] = linear r w
          other: node[2] = linear a u
          return out, other
        """,
        None,
    ),
}


@pytest.mark.parametrize(("before", "after"), REWRITES.values(), ids=list(REWRITES))
def test_rewrites(check_rewrite, before, after):
    check_rewrite(ProductFirst(), before, after)
