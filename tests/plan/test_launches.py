"""Which kernels run together."""

from __future__ import annotations

from textwrap import dedent

import pytest

from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.verify import verify
from hetune.variants.plan.launches import form_launches

GIVEN = {"x": "node[4]", "w": "etype[4,4]", "u": "shared[4,4]"}

TABLE = {
    "a sum follows the rows of its block's edges": (
        """
        launch
          buffer h: edge[4]
          buffer y: node[4]
          gemm h[edge] = x[src] @ w heads=1 k=4 n=4
          traverse node
            init total: [4] sum
            for edge
              row: [4] = read h
              update total row
            store y = total
        """,
        [[0, 1]],
    ),
    "source pairs stand alone, and come first": (
        """
        launch
          buffer h: src_pair[4]
          buffer y: node[4]
          gemm h[src_pair] = x[src] @ w heads=1 k=4 n=4
          traverse node
            init total: [4] sum
            for edge
              row: [4] = read h
              update total row
            store y = total
        """,
        [[0], [1]],
    ),
    "products of rows that are wide run where the first of them does": (
        """
        launch
          buffer x: node[16]
          buffer near: shared[16,4]
          buffer own: shared[16,4]
          buffer a: node[4]
          buffer y: node[4]
          gemm a[node] = x @ near heads=1 k=16 n=4
          gemm y[node] = x @ own heads=1 k=16 n=4
          traverse node
            init total: [4] sum
            for edge
              row: [4] = read a[src]
              update total row
            store y += total
        """,
        [[0, 1], [2]],
    ),
    "what is read at a source waits for all blocks": (
        """
        launch
          buffer a: node[4]
          buffer y: node[4]
          gemm a[node] = x @ u heads=1 k=4 n=4
          traverse node
            init total: [4] sum
            for edge
              row: [4] = read a[src]
              update total row
            store y = total
        """,
        [[0], [1]],
    ),
    "what is read at the destination does not": (
        """
        launch
          buffer a: node[4]
          buffer y: edge[]
          gemm a[node] = x @ u heads=1 k=4 n=4
          traverse edge
            left: [4] = read a[dst]
            right: [4] = read x[src]
            s: [] = dot(left, right)
            store y = s
        """,
        [[0, 1]],
    ),
    "contributions to one result run together, in order": (
        """
        launch
          buffer y: node[4]
          gemm y[node] = x @ u heads=1 k=4 n=4
          gemm y[dst_pair -> node] += sum(x[src]) @ w heads=1 k=4 n=4
        """,
        [[0, 1]],
    ),
    "a kernel waits as long as its readers allow": (
        """
        launch
          buffer y: node[4]
          buffer h: src_pair[4]
          gemm y[node] = x @ u heads=1 k=4 n=4
          gemm h[src_pair] = x[src] @ w heads=1 k=4 n=4
          traverse node
            init total: [4] sum
            for edge
              row: [4] = read h
              update total row
            store y += total
        """,
        [[1], [0, 2]],
    ),
    "two products of source pairs are two launches": (
        """
        launch
          buffer h: src_pair@s[4]
          buffer k: src_pair@d[4]
          gemm h[src_pair@s] = x[src] @ w heads=1 k=4 n=4
          gemm k[src_pair@d] = x[src] @ w heads=1 k=4 n=4
        """,
        [[0], [1]],
    ),
    "a pair's product may follow what its block wrote": (
        """
        launch
          buffer a: node[4]
          buffer q: dst_pair[4]
          gemm a[node] = x @ u heads=1 k=4 n=4
          gemm q[dst_pair] = a[dst] @ w heads=1 k=4 n=4
        """,
        [[0, 1]],
    ),
}


def formed(text: str, views: dict[str, str], **options: bool) -> list[list[int]]:
    given = "".join(f"  buffer {name}: {kind}\n" for name, kind in GIVEN.items())
    launch = parse(dedent(text).replace("launch\n", f"launch\n{given}", 1))
    types = {buffer.name: buffer.type for buffer in launch.buffers}
    made = form_launches(launch.kernels, types, views, **options)
    for one in made:
        verify(one)
    return [[launch.kernels.index(kernel) for kernel in one.kernels] for one in made]


@pytest.mark.parametrize(("text", "groups"), TABLE.values(), ids=TABLE)
def test_groups(text, groups):
    assert formed(text, {}) == groups


def test_products_of_pairs_may_stand_alone():
    text = """
        launch
          buffer s: dst_pair[4]
          buffer h: dst_pair[4]
          buffer y: node[4]
          buffer out: node[4]
          traverse dst_pair
            init total: [4] sum
            for edge
              row: [4] = read x[src]
              update total row
            store s = total
          gemm h[dst_pair] = s @ w heads=1 k=4 n=4
          traverse node
            init sum: [4] sum
            for dst_pair
              row: [4] = read h
              update sum row
            store y = sum
          gemm out[node] = y @ u heads=1 k=4 n=4
        """
    assert formed(text, {}) == [[0, 1, 2, 3]]
    assert formed(text, {}, separate_products=True) == [[0], [1], [2, 3]]


def test_a_view_is_the_buffer_itself():
    text = """
        launch
          buffer a: node[2,2]
          buffer flat: node[4]
          buffer y: node[4]
          traverse node
            row: [2,2] = read a
            store a = row
          traverse node
            init total: [4] sum
            for edge
              row: [4] = read flat[src]
              update total row
            store y = total
        """
    assert formed(text, {}) == [[0, 1]]
    assert formed(text, {"flat": "a"}) == [[0], [1]]
