"""Hybrid plans: one sum, or one score, for each group of edge types."""

from __future__ import annotations

import pytest

from hetune.variants.passes.hybrid import SplitMessages, SplitScores

REWRITES = {
    "messages": (
        SplitMessages(),
        """
        program p(x: node[4] feature, w: etype[4,3])
          xs: edge[4] = take x edge src
          h: edge[3] = linear xs w
          out: node[3] = sum h node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,3]) groups(d: fewer_dst, s: fewer_src)
          xs_s: edge@s[4] = take x edge@s src
          h_s: edge@s[3] = linear xs_s w
          out_s: node[3] = sum h_s node
          xs_d: edge@d[4] = take x edge@d src
          h_d: edge@d[3] = linear xs_d w
          out_d: node[3] = sum h_d node
          out: node[3] = add out_d out_s
          return out
        """,
    ),
    "messages with a bias": (
        SplitMessages(),
        """
        program p(x: node[4] feature, w: etype[4,3], b: etype[3])
          xs: edge[4] = take x edge src
          h: edge[3] = linear xs w
          i: edge[3] = add h b
          out: node[3] = sum i node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,3], b: etype[3]) groups(d: fewer_dst, s: fewer_src)
          xs_s: edge@s[4] = take x edge@s src
          h_s: edge@s[3] = linear xs_s w
          i_s: edge@s[3] = add h_s b
          out_s: node[3] = sum i_s node
          xs_d: edge@d[4] = take x edge@d src
          h_d: edge@d[3] = linear xs_d w
          i_d: edge@d[3] = add h_d b
          out_d: node[3] = sum i_d node
          out: node[3] = add out_d out_s
          return out
        """,
    ),
    "counts are per group": (
        SplitMessages(),
        """
        program p(x: node[4] feature, w: etype[4,3])
          c: dst_pair[] = count dst_pair
          i: dst_pair[] = reciprocal c
          share: edge[] = take i edge
          xs: edge[4] = take x edge src
          h: edge[3] = linear xs w
          m: edge[3] = mul share h
          out: node[3] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,3]) groups(d: fewer_dst, s: fewer_src)
          c_s: dst_pair@s[] = count dst_pair@s
          i_s: dst_pair@s[] = reciprocal c_s
          share_s: edge@s[] = take i_s edge@s
          xs_s: edge@s[4] = take x edge@s src
          h_s: edge@s[3] = linear xs_s w
          m_s: edge@s[3] = mul share_s h_s
          out_s: node[3] = sum m_s node
          c_d: dst_pair@d[] = count dst_pair@d
          i_d: dst_pair@d[] = reciprocal c_d
          share_d: edge@d[] = take i_d edge@d
          xs_d: edge@d[4] = take x edge@d src
          h_d: edge@d[3] = linear xs_d w
          m_d: edge@d[3] = mul share_d h_d
          out_d: node[3] = sum m_d node
          out: node[3] = add out_d out_s
          return out
        """,
    ),
    "sums of pairs are per group": (
        SplitMessages(),
        """
        program p(x: node[4] feature, c: edge[2,1] feature, w: etype[4,2,3])
          t: dst_pair[2,1] = sum c dst_pair
          r: dst_pair[2] = reshape t [2]
          f: edge[2] = take r edge
          xs: edge[4] = take x edge src
          h: edge[2,3] = linear xs w
          m: edge[2,3] = mul f h
          out: node[2,3] = sum m node
          return out
        """,
        """
        program p(
          x: node[4] feature,
          c: edge[2,1] feature,
          w: etype[4,2,3],
        ) groups(d: fewer_dst, s: fewer_src)
          c_s: edge@s[2,1] = take c edge@s
          t_s: dst_pair@s[2,1] = sum c_s dst_pair
          r_s: dst_pair@s[2] = reshape t_s [2]
          f_s: edge@s[2] = take r_s edge@s
          xs_s: edge@s[4] = take x edge@s src
          h_s: edge@s[2,3] = linear xs_s w
          m_s: edge@s[2,3] = mul f_s h_s
          out_s: node[2,3] = sum m_s node
          c_d: edge@d[2,1] = take c edge@d
          t_d: dst_pair@d[2,1] = sum c_d dst_pair
          r_d: dst_pair@d[2] = reshape t_d [2]
          f_d: edge@d[2] = take r_d edge@d
          xs_d: edge@d[4] = take x edge@d src
          h_d: edge@d[2,3] = linear xs_d w
          m_d: edge@d[2,3] = mul f_d h_d
          out_d: node[2,3] = sum m_d node
          out: node[2,3] = add out_d out_s
          return out
        """,
    ),
    "messages that cannot be added up first stay together": (
        SplitMessages(),
        """
        program p(x: node[4] feature, c: edge[2] feature, w: etype[4,2,3])
          xd: edge[4] = take x edge dst
          h: edge[2,3] = linear xd w
          m: edge[2,3] = mul c h
          out: node[2,3] = sum m node
          return out
        """,
        None,
    ),
    "a softmax stays over all edges": (
        SplitMessages(),
        """
        program p(x: node[4] feature, s: edge[] feature, w: etype[4,3])
          a: edge[] = softmax s node
          xs: edge[4] = take x edge src
          h: edge[3] = linear xs w
          m: edge[3] = mul a h
          out: node[3] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, s: edge[] feature, w: etype[4,3]) groups(d: fewer_dst, s: fewer_src)
          a: edge[] = softmax s node
          a_s: edge@s[] = take a edge@s
          xs_s: edge@s[4] = take x edge@s src
          h_s: edge@s[3] = linear xs_s w
          m_s: edge@s[3] = mul a_s h_s
          out_s: node[3] = sum m_s node
          a_d: edge@d[] = take a edge@d
          xs_d: edge@d[4] = take x edge@d src
          h_d: edge@d[3] = linear xs_d w
          m_d: edge@d[3] = mul a_d h_d
          out_d: node[3] = sum m_d node
          out: node[3] = add out_d out_s
          return out
        """,  # noqa: E501
    ),
    "scores are merged again": (
        SplitScores(),
        """
        program p(x: node[4] feature, w: etype[4,4])
          xs: edge[4] = take x edge src
          xd: edge[4] = take x edge dst
          k: edge[4] = linear xs w
          s: edge[] = dot k xd
          a: edge[] = softmax s node
          out: node[] = sum a node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,4]) groups(d: fewer_dst, s: fewer_src)
          xs_s: edge@s[4] = take x edge@s src
          k_s: edge@s[4] = linear xs_s w
          xd_s: edge@s[4] = take x edge@s dst
          s_s: edge@s[] = dot k_s xd_s
          xs_d: edge@d[4] = take x edge@d src
          k_d: edge@d[4] = linear xs_d w
          xd_d: edge@d[4] = take x edge@d dst
          s_d: edge@d[] = dot k_d xd_d
          s: edge[] = merge s_s s_d
          a: edge[] = softmax s node
          out: node[] = sum a node
          return out
        """,
    ),
}
"""Pass, program before, program after (None: the same)."""


@pytest.mark.parametrize(("step", "before", "after"), REWRITES.values(), ids=REWRITES)
def test_rewrite(step, before, after, check_rewrite):
    check_rewrite(step, before, after)
