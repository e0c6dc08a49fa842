"""Aggregate first: rows are added up before they meet the weight."""

from __future__ import annotations

import pytest

from hetune.variants.passes.aggregate_first import AggregateFirst

REWRITES = {
    "once for each dst pair": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, w: etype[4,3])
          xs: edge[4] = take x edge src
          h: edge[3] = linear xs w
          out: node[3] = sum h node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,3])
          xs: edge[4] = take x edge src
          out_pair: dst_pair[4] = sum xs dst_pair
          h_2: dst_pair[3] = linear out_pair w
          out: node[3] = sum h_2 node
          return out
        """,
    ),
    "weights of edges go with the rows": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, s: edge[] feature, w: etype[4,3])
          xs: edge[4] = take x edge src
          h: edge[3] = linear xs w
          m: edge[3] = mul s h
          out: node[3] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, s: edge[] feature, w: etype[4,3])
          xs: edge[4] = take x edge src
          xs_weighted: edge[4] = mul s xs
          out_pair: dst_pair[4] = sum xs_weighted dst_pair
          h_2: dst_pair[3] = linear out_pair w
          out: node[3] = sum h_2 node
          return out
        """,
    ),
    "once for each node where all edges share the weight": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, s: edge[] feature, w: shared[4,3])
          h: node[3] = linear x w
          xs: edge[3] = take h edge src
          m: edge[3] = mul s xs
          out: node[3] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, s: edge[] feature, w: shared[4,3])
          x_edge: edge[4] = take x edge src
          x_edge_weighted: edge[4] = mul s x_edge
          out_rows: node[4] = sum x_edge_weighted node
          out: node[3] = linear out_rows w
          return out
        """,
    ),
    "heads of a shared weight": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, s: edge[2] feature, w: shared[4,2,3])
          xs: edge[4] = take x edge src
          h: edge[2,3] = linear xs w
          m: edge[2,3] = mul s h
          out: node[2,3] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, s: edge[2] feature, w: shared[4,2,3])
          xs: edge[4] = take x edge src
          xs_heads: edge[2,4] = outer s xs
          w_heads: shared[2,4,3] = einsum "khd->hkd" w
          out_rows: node[2,4] = sum xs_heads node
          out: node[2,3] = linear out_rows w_heads
          return out
        """,
    ),
    "weights of pairs follow the product": (
        AggregateFirst(),
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
        program p(x: node[4] feature, w: etype[4,3])
          c: dst_pair[] = count dst_pair
          i: dst_pair[] = reciprocal c
          xs: edge[4] = take x edge src
          out_pair: dst_pair[4] = sum xs dst_pair
          h_2: dst_pair[3] = linear out_pair w
          h_2_scaled: dst_pair[3] = mul i h_2
          out: node[3] = sum h_2_scaled node
          return out
        """,
    ),
    "heads that share a row each add it up": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, s: edge[2] feature, w: etype[4,2,3])
          xs: edge[4] = take x edge src
          h: edge[2,3] = linear xs w
          m: edge[2,3] = mul s h
          out: node[2,3] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, s: edge[2] feature, w: etype[4,2,3])
          xs: edge[4] = take x edge src
          xs_heads: edge[2,4] = outer s xs
          w_heads: etype[2,4,3] = einsum "khd->hkd" w
          out_pair: dst_pair[2,4] = sum xs_heads dst_pair
          h_2: dst_pair[2,3] = linear out_pair w_heads
          out: node[2,3] = sum h_2 node
          return out
        """,
    ),
    "heads with rows of their own": (
        AggregateFirst(),
        """
        program p(x: node[2,4] feature, s: edge[2] feature, w: etype[2,4,3])
          xs: edge[2,4] = take x edge src
          h: edge[2,3] = linear xs w
          m: edge[2,3] = mul s h
          out: node[2,3] = sum m node
          return out
        """,
        """
        program p(x: node[2,4] feature, s: edge[2] feature, w: etype[2,4,3])
          xs: edge[2,4] = take x edge src
          xs_weighted: edge[2,4] = mul s xs
          out_pair: dst_pair[2,4] = sum xs_weighted dst_pair
          h_2: dst_pair[2,3] = linear out_pair w
          out: node[2,3] = sum h_2 node
          return out
        """,
    ),
    "a bias counts once for each edge": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, w: etype[4,3], b: etype[3])
          xs: edge[4] = take x edge src
          h: edge[3] = linear xs w
          i: edge[3] = add h b
          out: node[3] = sum i node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,3], b: etype[3])
          xs: edge[4] = take x edge src
          out_pair: dst_pair[4] = sum xs dst_pair
          i_2: dst_pair[3] = linear out_pair w
          out: node[3] = sum i_2 node
          out_count: dst_pair[] = count dst_pair
          i_bias: dst_pair[3] = mul out_count b
          out_2: node[3] = sum i_bias node
          out_3: node[3] = add out out_2
          return out_3
        """,
    ),
    "a bias is weighted as its rows are": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, c: edge[2] feature, w: etype[4,2,3], b: etype[2,3])
          xs: edge[4] = take x edge src
          h: edge[2,3] = linear xs w
          i: edge[2,3] = add h b
          m: edge[2,3] = mul c i
          out: node[2,3] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, c: edge[2] feature, w: etype[4,2,3], b: etype[2,3])
          xs: edge[4] = take x edge src
          xs_heads: edge[2,4] = outer c xs
          w_heads: etype[2,4,3] = einsum "khd->hkd" w
          out_pair: dst_pair[2,4] = sum xs_heads dst_pair
          i_2: dst_pair[2,3] = linear out_pair w_heads
          out: node[2,3] = sum i_2 node
          out_shares: dst_pair[2] = sum c dst_pair
          i_bias: dst_pair[2,3] = mul out_shares b
          out_2: node[2,3] = sum i_bias node
          out_3: node[2,3] = add out out_2
          return out_3
        """,
    ),
    "several weights of heads become one": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, s: edge[2] feature, q: etype[2], w: etype[4,2,3])
          xs: edge[4] = take x edge src
          h: edge[2,3] = linear xs w
          n: edge[2,3] = mul q h
          m: edge[2,3] = mul s n
          out: node[2,3] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, s: edge[2] feature, q: etype[2], w: etype[4,2,3])
          xs: edge[4] = take x edge src
          s_scaled: edge[2] = mul q s
          xs_heads: edge[2,4] = outer s_scaled xs
          w_heads: etype[2,4,3] = einsum "khd->hkd" w
          out_pair: dst_pair[2,4] = sum xs_heads dst_pair
          h_2: dst_pair[2,3] = linear out_pair w_heads
          out: node[2,3] = sum h_2 node
          return out
        """,
    ),
    "no kernel adds up rows of destinations per head": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, s: edge[2] feature, w: etype[4,2,3])
          xd: edge[4] = take x edge dst
          h: edge[2,3] = linear xd w
          m: edge[2,3] = mul s h
          out: node[2,3] = sum m node
          return out
        """,
        None,
    ),
    "nor rows of edges": (
        AggregateFirst(),
        """
        program p(f: edge[4] feature, s: edge[2] feature, w: etype[4,2,3])
          h: edge[2,3] = linear f w
          m: edge[2,3] = mul s h
          out: node[2,3] = sum m node
          return out
        """,
        None,
    ),
    "nor rows that an edge type weights": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, q: etype[2], w: etype[4,2,3])
          xs: edge[4] = take x edge src
          h: edge[2,3] = linear xs w
          m: edge[2,3] = mul q h
          out: node[2,3] = sum m node
          return out
        """,
        None,
    ),
    "nor those of heads of heads": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, s: edge[2] feature, w: etype[4,2,3,2])
          xs: edge[4] = take x edge src
          h: edge[2,3,2] = linear xs w
          m: edge[2,3,2] = mul s h
          out: node[2,3,2] = sum m node
          return out
        """,
        None,
    ),
    "a bias that spreads its rows out stays behind them": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, w: etype[4,2], b: etype[2,3])
          xs: edge[4] = take x edge src
          h: edge[2] = linear xs w
          i: edge[2,3] = add h b
          out: node[2,3] = sum i node
          return out
        """,
        None,
    ),
    "a weight of node types stays with its nodes": (
        AggregateFirst(),
        """
        program p(x: node[4] feature, w: ntype[4,3])
          h: node[3] = linear x w
          hs: edge[3] = take h edge src
          out: node[3] = sum hs node
          return out
        """,
        None,
    ),
}
"""Pass, program before, program after (None: the same)."""


@pytest.mark.parametrize(("step", "before", "after"), REWRITES.values(), ids=REWRITES)
def test_rewrite(step, before, after, check_rewrite):
    check_rewrite(step, before, after)
