"""Walks around products that stay what they are, each for a reason of its own."""

import pytest

from hetune.variants.kernel.passes.fuse_rows import fuse_rows
from hetune.variants.kernel.verify import verify

from .rows import BEFORE, OF_IT, PRODUCT, RELU, launch_of, walk

NUMBER = """
    one: [] = read n
    two: [] = exp(one)
    store n = two
"""
SCATTERED = "  gemm {out}[edge -> node] += e @ v heads=1 k=8 n=8\n"

NOT_AFTER = {
    "parts of sums": SCATTERED.format(out="y") + walk("y", "z ="),
    "added to what is there": PRODUCT.replace("t[node] =", "y[node] +=") + walk("y", "z ="),
    "rows left alone": PRODUCT.replace("t[", "y[").replace("n=8\n", "n=8 only=dst\n")
    + walk("y", "z ="),
    "other rows": "  gemm o[edge@a] = e @ v heads=1 k=8 n=8\n" + walk("o", "q =", rows="edge"),
    "a loop": PRODUCT
    + """
  traverse node
    init acc: [8] sum
    for edge
      message: [8] = read e
      update acc message
    row: [8] = read t
    both: [8] = add(acc, row)
    store y = both
""",
    "a sum of its own": PRODUCT
    + "  traverse node\n    init acc: [8] sum\n    row: [8] = read t\n    update acc row\n"
    + "    store y = acc\n",
    "a number for each row": PRODUCT
    + "  traverse node\n    row: [8] = read t\n    size: [] = dot(row, row)\n    store n = size\n",
    "numbers for parts of rows": PRODUCT
    + "  traverse node\n    row: [2,4] = read t_as_2x4\n    head: [2] = read p\n"
    + "    by: [2,4] = mul(head, row)\n    store x2 = by\n",
    "it stores numbers": PRODUCT + RELU + NUMBER,
    "it stores the operand": PRODUCT + walk("t", "x ="),
    "it stores the bias's factor": PRODUCT.replace("= x", "= n * x") + RELU + NUMBER,
    "it reads others": PRODUCT.replace("t[", "y[") + walk("x", "z ="),
    "it may read them again": PRODUCT.replace("t[", "y[")
    + walk("y", "z =").replace("    active", "    same: [2,4] = read x2\n    active"),
    "it may store them again": BEFORE
    + PRODUCT.replace("t[", "y[")
    + walk("y", "z =")
    + "    other: [2,4] = read s_as_2x4\n    store x2 = other\n",
    "another kernel changes what it reads": PRODUCT
    + SCATTERED.format(out="kept")
    + walk("t", "y =", "relu(row)").replace("    active", "    also: [8] = read kept\n    active"),
    "another kernel reads what it changes": PRODUCT
    + "  traverse node\n    init acc: [8] sum\n    old: [8] = read y\n    update acc old\n"
    + "    store z = acc\n"
    + RELU,
}
"""What follows a product and stays behind it: by what is different."""


@pytest.mark.parametrize("name", NOT_AFTER)
def test_what_is_no_part_of_a_product(name):
    before = launch_of(NOT_AFTER[name])
    verify(before)
    assert fuse_rows(before) == before


BY_S = OF_IT.replace(" only=src", "")
NOT_BEFORE = {
    "it lasts": walk("x", "kept =") + BY_S.replace("s @", "kept @"),
    "two products read it": walk("x", "s =") + BY_S + BY_S.replace("y[", "z["),
    "a walk reads it": walk("x", "s =")
    + BY_S
    + "  traverse node\n    init acc: [8] sum\n    row: [8] = read s\n    update acc row\n"
    + "    store z = acc\n",
    "the product reads it again": walk("x", "s =")
    + BY_S.replace("y[", "own[")
    + "    row: [8] = read s\n    both: [8] = add(row, own)\n    store z = both\n",
    "it is read before": walk("x", "s =")
    + "  traverse node\n    init acc: [8] sum\n    row: [8] = read s\n"
    + "    update acc row\n    store z = acc\n"
    + walk("x", "s =")
    + BY_S,
    "it is multiplied before": walk("x", "s =") + BY_S + walk("x", "s ="),
    "it is added to": walk("x", "s =") + walk("x", "s +=") + BY_S,
    "padding is no number": walk("x", "s =", "reciprocal(row)") + BY_S,
    "a function of two": walk("x", "s =", "mul(row, row)") + BY_S,
    "two functions": walk("x", "s =").replace(
        "store s = active", "twice: [8] = exp(active)\n    store s = twice"
    )
    + BY_S,
    "it stores something else": walk("x", "s =").replace("= active", "= row") + BY_S,
    "rows of types": walk("b", "s =") + BY_S,
    "another kernel changes them": walk("kept", "s =") + SCATTERED.format(out="kept") + BY_S,
    "the product changes them": walk("y", "s =") + BY_S,
    "other rows": walk("e", "f =", rows="edge") + "  gemm o[edge@a] = f @ v heads=1 k=8 n=8\n",
    "sums of it": walk("e", "f =", rows="edge")
    + "  gemm y[dst_pair -> node] += sum(f) @ v heads=1 k=8 n=8\n",
}
"""What comes before a product and stays there."""


@pytest.mark.parametrize("name", NOT_BEFORE)
def test_what_is_no_function_of_an_operand(name):
    before = launch_of(NOT_BEFORE[name])
    verify(before)
    assert fuse_rows(before) == before
