"""Weights meet weights before they meet rows, or on the other side of a score."""

from __future__ import annotations

import pytest

from hetune.variants.passes.fold import FoldProducts, FoldScores
from hetune.variants.passes.transform_side import TransformSide
from hetune.variants.passes.weights_first import FoldScale, WeightsFirst
from hetune.variants.program.nodes import End

REWRITES = {
    "a product that is only scored becomes a dot product": (
        WeightsFirst(),
        """
        program p(x: node[4] feature, w: etype[4,3], a: shared[3])
          xs: edge[4] = take x edge src
          h: edge[3] = linear xs w
          s: edge[] = dot h a
          out: node[] = sum s node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,3], a: shared[3])
          xs: edge[4] = take x edge src
          w_a: etype[4] = einsum "kd,d->k" w a
          s: edge[] = dot xs w_a
          out: node[] = sum s node
          return out
        """,
    ),
    "per head": (
        WeightsFirst(),
        """
        program p(x: node[4] feature, w: etype[4,2,3], a: shared[2,3])
          xs: edge[4] = take x edge src
          h: edge[2,3] = linear xs w
          s: edge[2] = dot h a
          out: node[2] = sum s node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,2,3], a: shared[2,3])
          xs: edge[4] = take x edge src
          w_a: etype[2,4] = einsum "khd,hd->hk" w a
          s: edge[2] = dot xs w_a
          out: node[2] = sum s node
          return out
        """,
    ),
    "heads that score the rows of all": (
        WeightsFirst(),
        """
        program p(x: node[4] feature, w: etype[4,6], a: shared[2,6])
          xs: edge[4] = take x edge src
          h: edge[6] = linear xs w
          s: edge[2] = dot h a
          out: node[2] = sum s node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,6], a: shared[2,6])
          xs: edge[4] = take x edge src
          w_a: etype[2,4] = einsum "kd,hd->hk" w a
          s: edge[2] = dot xs w_a
          out: node[2] = sum s node
          return out
        """,
    ),
    "through chains": (
        WeightsFirst(),
        """
        program p(x: node[4] feature, v: shared[4,5], w: etype[5,3], a: shared[3])
          xs: edge[4] = take x edge src
          g: edge[5] = linear xs v
          h: edge[3] = linear g w
          s: edge[] = dot h a
          out: node[] = sum s node
          return out
        """,
        """
        program p(x: node[4] feature, v: shared[4,5], w: etype[5,3], a: shared[3])
          xs: edge[4] = take x edge src
          w_a: etype[5] = einsum "kd,d->k" w a
          v_w_a: etype[4] = einsum "kd,d->k" v w_a
          s: edge[] = dot xs v_w_a
          out: node[] = sum s node
          return out
        """,
    ),
    "factors of a score go into its weight": (
        FoldScale(),
        """
        program p(x: node[2,4] feature, w: etype[2,4,4], p: etype[2])
          xs: edge[2,4] = take x edge src
          xd: edge[2,4] = take x edge dst
          k: edge[2,4] = linear xs w
          s: edge[2] = dot k xd
          scaled: edge[2] = mul s p
          half: edge[2] = scale scaled 0.5
          out: node[2] = sum half node
          return out
        """,
        """
        program p(x: node[2,4] feature, w: etype[2,4,4], p: etype[2])
          xs: edge[2,4] = take x edge src
          xd: edge[2,4] = take x edge dst
          w_p: etype[2,4,4] = einsum "hkd,h->hkd" w p
          w_p_scaled: etype[2,4,4] = scale w_p 0.5
          k_2_2: edge[2,4] = linear xs w_p_scaled
          half: edge[2] = dot k_2_2 xd
          out: node[2] = sum half node
          return out
        """,
    ),
    "a score is transformed at its other end": (
        TransformSide(End.DST),
        """
        program p(x: node[4] feature, w: etype[4,4])
          xs: edge[4] = take x edge src
          xd: edge[4] = take x edge dst
          k: edge[4] = linear xs w
          s: edge[] = dot k xd
          out: node[] = sum s node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,4])
          xs: edge[4] = take x edge src
          xd: edge[4] = take x edge dst
          w_t: etype[4,4] = einsum "kd->dk" w
          xd_w: edge[4] = linear xd w_t
          s: edge[] = dot xs xd_w
          out: node[] = sum s node
          return out
        """,
    ),
    "or is already": (
        TransformSide(End.SRC),
        """
        program p(x: node[4] feature, w: etype[4,4])
          xs: edge[4] = take x edge src
          xd: edge[4] = take x edge dst
          k: edge[4] = linear xs w
          s: edge[] = dot xd k
          out: node[] = sum s node
          return out
        """,
        None,
    ),
    "chained products fold, with the bias": (
        FoldProducts("a"),
        """
        program p(x: node[4] feature, w: ntype[4,5], b: ntype[5], a: etype[5,3])
          h: node[5] = linear x w
          k: node[5] = add h b
          ks: edge[5] = take k edge src
          m: edge[3] = linear ks a
          out: node[3] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, w: ntype[4,5], b: ntype[5], a: etype[5,3])
          x_edge: edge[4] = take x edge src
          w_src: etype[4,5] = take w etype src
          b_src: etype[5] = take b etype src
          b_src_a: etype[3] = einsum "d,de->e" b_src a
          w_src_a: etype[4,3] = einsum "kd,de->ke" w_src a
          m: edge[3] = linear x_edge w_src_a
          m_biased: edge[3] = add m b_src_a
          out: node[3] = sum m_biased node
          return out
        """,
    ),
    "at either end": (
        FoldProducts("a"),
        """
        program p(x: node[4] feature, w: ntype[4,2,5], a: etype[2,5,3])
          h: node[2,5] = linear x w
          ks: edge[2,5] = take h edge dst
          m: edge[2,3] = linear ks a
          out: node[2,3] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, w: ntype[4,2,5], a: etype[2,5,3])
          x_edge: edge[4] = take x edge dst
          w_dst: etype[4,2,5] = take w etype dst
          w_dst_a: etype[4,2,3] = einsum "khd,hde->khe" w_dst a
          m: edge[2,3] = linear x_edge w_dst_a
          out: node[2,3] = sum m node
          return out
        """,
    ),
    "all of them": (
        FoldProducts(),
        """
        program p(x: node[4] feature, w: ntype[4,5], a: etype[5,3], c: etype[5,3])
          h: node[5] = linear x w
          hs: edge[5] = take h edge src
          m: edge[3] = linear hs a
          n: edge[3] = linear hs c
          both: edge[3] = add m n
          out: node[3] = sum both node
          return out
        """,
        """
        program p(x: node[4] feature, w: ntype[4,5], a: etype[5,3], c: etype[5,3])
          x_edge: edge[4] = take x edge src
          w_src: etype[4,5] = take w etype src
          w_src_a: etype[4,3] = einsum "kd,de->ke" w_src a
          m: edge[3] = linear x_edge w_src_a
          w_src_c: etype[4,3] = einsum "kd,de->ke" w_src c
          n: edge[3] = linear x_edge w_src_c
          both: edge[3] = add m n
          out: node[3] = sum both node
          return out
        """,
    ),
    "scores fold at both ends": (
        FoldScores(),
        """
        program p(x: node[4] feature, w: ntype[4,5], u: ntype[4,5], a: etype[5,5])
          h: node[5] = linear x w
          hs: edge[5] = take h edge src
          k: edge[5] = linear hs a
          q: node[5] = linear x u
          qd: edge[5] = take q edge dst
          s: edge[] = dot k qd
          out: node[] = sum s node
          return out
        """,
        """
        program p(x: node[4] feature, w: ntype[4,5], u: ntype[4,5], a: etype[5,5])
          x_edge: edge[4] = take x edge src
          w_src: etype[4,5] = take w etype src
          w_src_a: etype[4,5] = einsum "kd,de->ke" w_src a
          x_edge_2: edge[4] = take x edge dst
          u_dst: etype[4,5] = take u etype dst
          w_src_a_u_dst: etype[4,4] = einsum "ke,fe->kf" w_src_a u_dst
          s_near: edge[4] = linear x_edge w_src_a_u_dst
          s: edge[] = dot s_near x_edge_2
          out: node[] = sum s node
          return out
        """,
    ),
    "with biases at both": (
        FoldScores(),
        """
        program p(x: node[4] feature, w: ntype[4,5], b: ntype[5], a: etype[5,5])
          h: node[5] = linear x w
          k: node[5] = add h b
          kd: edge[5] = take k edge dst
          ka: edge[5] = linear kd a
          ks: edge[5] = take k edge src
          s: edge[] = dot ks ka
          out: node[] = sum s node
          return out
        """,
        """
        program p(x: node[4] feature, w: ntype[4,5], b: ntype[5], a: etype[5,5])
          x_edge: edge[4] = take x edge dst
          w_dst: etype[4,5] = take w etype dst
          b_dst: etype[5] = take b etype dst
          b_dst_a: etype[5] = einsum "d,de->e" b_dst a
          w_dst_a: etype[4,5] = einsum "kd,de->ke" w_dst a
          x_edge_2: edge[4] = take x edge src
          w_src: etype[4,5] = take w etype src
          b_src: etype[5] = take b etype src
          b_dst_a_w_src: etype[4] = einsum "e,fe->f" b_dst_a w_src
          w_dst_a_w_src: etype[4,4] = einsum "ke,fe->kf" w_dst_a w_src
          s_near: edge[4] = linear x_edge w_dst_a_w_src
          s_near_biased: edge[4] = add s_near b_dst_a_w_src
          s: edge[] = dot s_near_biased x_edge_2
          w_dst_a_b_src: etype[4] = einsum "ke,e->k" w_dst_a b_src
          s_bias: edge[] = dot x_edge w_dst_a_b_src
          b_dst_a_b_src: etype[] = einsum "e,e->" b_dst_a b_src
          s_bias_2: edge[] = add s_bias b_dst_a_b_src
          s_2: edge[] = add s s_bias_2
          out: node[] = sum s_2 node
          return out
        """,
    ),
    "scores of heads do not": (
        FoldScores(),
        """
        program p(x: node[4] feature, w: ntype[4,2,5], u: ntype[4,2,5], a: etype[2,5,5])
          h: node[2,5] = linear x w
          hs: edge[2,5] = take h edge src
          k: edge[2,5] = linear hs a
          q: node[2,5] = linear x u
          qd: edge[2,5] = take q edge dst
          s: edge[2] = dot k qd
          out: node[2] = sum s node
          return out
        """,
        None,
    ),
    "nor does a score of what is not linear": (
        FoldScores(),
        """
        program p(x: node[5] feature, w: ntype[5,5], a: etype[5,5])
          h: node[5] = linear x w
          hs: edge[5] = take h edge src
          k: edge[5] = linear hs a
          xd: edge[5] = take x edge dst
          s: edge[] = dot k xd
          out: node[] = sum s node
          return out
        """,
        None,
    ),
    "a map that makes heads stays where it is": (
        TransformSide(End.DST),
        """
        program p(x: node[4] feature, w: etype[4,4,4])
          xs: edge[4] = take x edge src
          xd: edge[4] = take x edge dst
          k: edge[4,4] = linear xs w
          s: edge[4] = dot k xd
          out: node[4] = sum s node
          return out
        """,
        None,
    ),
    "so does one that meets weights": (
        TransformSide(End.DST),
        """
        program p(x: node[4] feature, v: ntype[4], w: etype[4,4])
          xs: edge[4] = take x edge src
          vd: etype[4] = take v etype dst
          k: edge[4] = linear xs w
          s: edge[] = dot k vd
          out: node[] = sum s node
          return out
        """,
        None,
    ),
    "factors of another axis than the heads stay with the score": (
        FoldScale(),
        """
        program p(x: node[2,4] feature, y: node[2,2,4] feature, w: etype[2,4,4], q: etype[2])
          xs: edge[2,4] = take x edge src
          yd: edge[2,2,4] = take y edge dst
          k: edge[2,4] = linear xs w
          s: edge[2,2] = dot k yd
          scaled: edge[2,2] = mul q s
          out: node[2,2] = sum scaled node
          return out
        """,
        None,
    ),
    "a bias of fewer axes does not fold": (
        FoldProducts(),
        """
        program p(x: node[4] feature, w: ntype[4,3], b: ntype[], u: etype[3,2])
          h: node[3] = linear x w
          i: node[3] = add h b
          hs: edge[3] = take i edge src
          m: edge[2] = linear hs u
          out: node[2] = sum m node
          return out
        """,
        None,
    ),
    "what is not linear cannot fold": (
        FoldProducts("a"),
        """
        program p(x: node[4] feature, w: ntype[4,5], a: etype[5,3])
          h: node[5] = linear x w
          r: node[5] = relu h
          ks: edge[5] = take r edge src
          m: edge[3] = linear ks a
          out: node[3] = sum m node
          return out
        """,
        None,
    ),
}
"""Pass, program before, program after (None: the same)."""


@pytest.mark.parametrize(("step", "before", "after"), REWRITES.values(), ids=REWRITES)
def test_rewrite(step, before, after, check_rewrite):
    check_rewrite(step, before, after)
