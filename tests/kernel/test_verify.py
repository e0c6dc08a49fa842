"""Each rule of the intra-operator IR: a launch that breaks it, and what the message says."""

import dataclasses
import re
from contextlib import nullcontext

import pytest

from hetune.variants.errors import KernelError
from hetune.variants.kernel.check_narrow import check_narrow
from hetune.variants.kernel.nodes import Launch
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.verify import verify

GOOD = """
launch
  buffer x: node[4,3]
  buffer z: node[6]
  buffer a: edge[4]
  buffer u: edge[]
  buffer m: edge[4,3]
  buffer b: shared[8]
  buffer c: ntype[8]
  buffer w: etype[4,3,2]
  buffer wn: ntype[4,3,2]
  buffer ws: shared[4,3,2]
  buffer w1: etype[6,2,4]
  buffer xs: node[3]
  buffer p: dst_pair@s[4,3]
  buffer t: src_pair@s[4,2]
  buffer t2: edge[4,2]
  buffer q: dst_pair@s[8]
  buffer y: node[8]
  buffer o: node[4,3]
  buffer e: edge[8]
  buffer v: etype[4,3]
"""


def build(kernels, buffers=GOOD):
    """The launch of some kernels' text, with the buffers that they name and no others."""
    lines = buffers.strip().splitlines()[1:]
    used = [line for line in lines if _named(line.split()[1].rstrip(":"), kernels)]
    body = [f"  {line}" for line in kernels.strip("\n").splitlines()]
    return parse("\n".join(["launch", *used, *body]))


def _named(name, kernels):
    return re.search(rf"\b{name}\b", kernels) is not None


_SOFTMAX = """  init acc: [4,3] sum
  softmax share: [4] over edge@s to a
    scores edge@s
      h: [4] = read a
      score h
    for edge@s
      f: [4,3] = read m
      g: [4,3] = mul(share, f)
      update acc g
  store o = acc"""

GOOD_KERNELS = [
    "gemm t[src_pair@s] = x[src] @ w heads=4 k=3 n=2",
    "gemm e[edge@s] = z[dst] @ w1 + b heads=1 k=6 n=8",
    "gemm e[edge] += u * m @ w heads=4 k=3 n=2",
    "gemm y[edge -> node] += a * m @ ws heads=4 k=3 n=2",
    "gemm y[dst_pair@s -> node] += p @ w heads=4 k=3 n=2",
    "gemm q[dst_pair@s] = sum(a * xs[src]) @ w heads=4 k=3 n=2",
    "gemm q[dst_pair@s] = sum(a * x[src]) @ w heads=4 k=3 n=2",
    "gemm q[dst_pair@s] = sum(u * m) @ w heads=4 k=3 n=2",
    "gemm q[dst_pair@s] = sum(x[src]) @ w heads=4 k=3 n=2",
    "gemm y[node] = x @ wn + c heads=4 k=3 n=2",
    "outer w[edge@s] += a * x[src], t2 heads=4 k=3 n=2",
    "outer ws[dst_pair@s] = sum(a * xs[src]), q heads=4 k=3 n=2",
    "outer c[node] = y heads=1 k=1 n=8",
    "gemm y[node] = gelu(x) @ wn + c heads=4 k=3 n=2 only=src fill",
    # What becomes of the rows; the product's is a value, whose name a buffer may have.
    """
gemm e[edge@s] = u * scale(m, const=0.5) @ w heads=4 k=3 n=2
  near: [8] = read y[dst]
  f: [] = read u
  k: [8] = mul(f, e)
  g: [8] = maximum(k, near)
  store e += g
""",
    """
gemm r[dst_pair@s] = sum(u * m) @ w + b heads=4 k=3 n=2
  store q = r
""",
    # A launch of several kernels: what one writes the next reads at the same rows.
    """
gemm q[dst_pair@s] = sum(x[src]) @ w heads=4 k=3 n=2
traverse node
  init acc: [8] sum
  for dst_pair@s
    h: [8] = read q
    update acc h
  store y = acc
""",
    # Softmax in three loops; the same name in loops that do not see each other.
    """
traverse node
  init top: [4] max
  init total: [4] sum
  for edge@s
    h: [4] = read a
    update top h
  for edge@s
    h: [4] = read a
    s: [4] = sub(h, top)
    r: [4] = exp(s)
    update total r
    store a = r
  one: [4] = reciprocal(total)
  for edge@s
    r: [4] = read a
    s: [4] = mul(r, one)
    store a = s
""",
    # Softmaxes: shares that are stored; sums that they weight, over the edges of scores and others.
    """
traverse node
  softmax share: [4] over edge@s to a
    scores edge@s
      h: [4] = read a
      score h
""",
    """
traverse node
  init acc: [4,3] sum
  softmax share: [4] over edge
    scores edge@s
      h: [4] = read a
      score h
    scores edge@r
      f: [4,3] = read m
      g: [4] = dot(f, f)
      score g
    for edge@s
      f: [4,3] = read m
      g: [4,3] = mul(f, share)
      update acc g
  store o = acc
""",
    """
traverse node
  init acc: [4] sum
  softmax share: [4] over edge to a
    scores edge@s
      h: [4] = read a
      score h
    scores edge@r
      g: [4] = read a
      score g
    for edge
      update acc share
  n: [4] = add(acc, acc)
  for edge@s
    store a = n
""",
    """
traverse edge@s
  d: [4,3] = read x[dst]
  g: [4,3] = read v
  s: [4] = dot(d, g)
  f: [3] = read xs[src]
  k: [4] = dot(f, d)
  n: [4] = maximum(s, k)
  l: [4] = leaky_relu(n, const=0.2)
  store a = l
""",
    """
traverse node
  init acc: [8] sum
  b1: [8] = read b
  update acc b1
  store y += acc
""",
]


@pytest.mark.parametrize("kernels", GOOD_KERNELS)
def test_good_launches_pass(kernels):
    verify(build(kernels))


def node(body):
    return "traverse node\n" + body


BAD_GEMMS = [
    ("gemm y[node] = nix @ wn heads=4 k=3 n=2", "there is no buffer 'nix' (there are: wn, y)"),
    ("gemm y[node] = x @ nix heads=4 k=3 n=2", "there is no buffer 'nix'"),
    ("gemm y[node] = x @ wn heads=0 k=3 n=2", "heads is 0: it must be at least 1"),
    ("gemm y[node] = x @ wn heads=4 k=3 n=0", "n is 0: it must be at least 1"),
    ("gemm v[etype] = v @ w heads=4 k=3 n=2", "cannot walk etype rows: use node, edge"),
    ("gemm y[node@s] = x @ wn heads=4 k=3 n=2", "nodes have no groups: drop @s"),
    (
        "gemm e[edge] = x @ w heads=4 k=3 n=2",
        "'x' is node[4,3] but the rows are edge: use a buffer of edge",
    ),
    ("gemm t[src_pair@r] = x[src] @ w heads=4 k=3 n=2", "'t' is src_pair@s[4,2] but the rows"),
    ("gemm t[src_pair@s] = x[dst] @ w heads=4 k=3 n=2", "src_pair rows have no node at dst"),
    ("gemm y[node] = x[src] @ wn heads=4 k=3 n=2", "node rows have no node at src: gather at no"),
    ("gemm e[edge] = m[src] @ w heads=4 k=3 n=2", "only node buffers can be gathered"),
    ("gemm e[edge] = xs[src] @ w heads=4 k=3 n=2", "'xs' has width 3: it must be heads * k = 12"),
    ("gemm e[edge] = sum(x[src]) @ w heads=4 k=3 n=2", "sum(...) needs dst_pair rows, not edge"),
    ("gemm q[dst_pair@s] = sum(x[dst]) @ w heads=4 k=3 n=2", "read it at src"),
    ("gemm q[dst_pair@s] = sum(x) @ w heads=4 k=3 n=2", "'x' is node[4,3] but the rows are edge@s"),
    ("gemm q[dst_pair@s] = sum(m * m) @ w heads=4 k=3 n=2", "it must be () or (heads,) = (4,)"),
    ("gemm q[dst_pair@s] = sum(u * xs[src]) @ w heads=4 k=3 n=2", "must be heads * k = 12"),
    ("gemm y[node] = x @ w heads=4 k=3 n=2", "with node rows it must be ntype or shared"),
    ("gemm e[edge] = m @ wn heads=4 k=3 n=2", "with edge rows it must be etype or shared"),
    ("gemm e[edge] = m @ w heads=4 k=3 n=4", "it must be (heads, k, n) = (4, 3, 4)"),
    ("gemm e[edge] = m @ w heads=1 k=12 n=2", "with one head (k, *out) will do"),
    (
        "gemm y[edge -> node] = m @ w heads=4 k=3 n=2",
        "scatters without adding up: set accumulate (`+=`)",
    ),
    ("gemm y[src_pair@s -> node] += x[src] @ w heads=4 k=3 n=2", "src_pair rows cannot scatter"),
    ("gemm e[edge -> node] += m @ w heads=4 k=3 n=2", "'e' is edge[8] but the rows are node"),
    ("gemm o[node] = x @ wn heads=4 k=3 n=2", "out 'o' has width 12: it must be heads * n = 8"),
    ("gemm e[edge] = y * m @ w heads=4 k=3 n=2", "'y' is node[8] but the rows are edge"),
    ("gemm e[edge] = m * m @ w heads=4 k=3 n=2", "scale 'm' has row shape (4, 3): it must be ()"),
    ("gemm y[edge -> node] += m @ w + b heads=4 k=3 n=2", "once per row that scatters"),
    ("gemm e[edge] = m @ w + c heads=4 k=3 n=2", "with edge rows it must be etype or shared"),
    ("gemm e[edge] = m @ w + ws heads=4 k=3 n=2", "bias 'ws' has width 24"),
    ("gemm e[edge] = m @ w heads=4 k=3 n=2 only=dst", "only=dst is for node rows, not edge"),
    ("gemm e[edge] = e @ w1 heads=1 k=8 n=8", "weight 'w1' has row shape (6, 2, 4)"),
    ("gemm m[edge] += m @ w3 heads=4 k=3 n=3", "'m' is both read and written: write another"),
    ("gemm e[edge] = sinh(m) @ w heads=4 k=3 n=2", "there is no function 'sinh': use one of add"),
    ("gemm e[edge] = add(m) @ w heads=4 k=3 n=2", "add takes 2 arguments, not 1"),
    ("gemm e[edge] = scale(m) @ w heads=4 k=3 n=2", "scale needs a finite constant"),
    ("gemm e[edge] = relu(m, const=1) @ w heads=4 k=3 n=2", "relu takes no constant: drop it"),
    ("gemm e[edge] = reciprocal(m) @ w heads=4 k=3 n=2", "of padding is no number: use one of abs"),
]
SIZES = " heads=4 k=3 n=2"
BAD_OUTERS = [
    ("outer w[node] = x, y heads=4 k=3 n=2", "with node rows it must be ntype or shared"),
    ("outer w[edge] = x[src], t2 heads=4 k=2 n=2", "heads * k = 8"),
    ("outer w[edge] = x[src], m heads=4 k=3 n=2", "heads * n = 8"),
    ("outer v[edge] = x[src], t2 heads=4 k=3 n=2", "heads * k * n = 24"),
    ("outer w[edge] = a, t2 heads=4 k=1 n=2", "out 'w' has width 24"),
    ("outer v[edge] = m heads=4 k=3 n=1", "k is 3 without a left operand"),
    ("outer w[edge] = xs * x[src], t2 heads=4 k=3 n=2", "'xs' is node[3] but the rows are edge"),
    ("outer ws[node] = relu(x), y heads=4 k=3 n=2", "go through no function"),
    (
        "outer v[edge] = m heads=1 k=1 n=12\ntraverse node\n  h: [4,3] = read x\n  store o = h",
        "give them their own launch",
    ),
]
BAD_TAILS = [
    ("gemm y[node] += x @ wn" + SIZES + "\n  store y = y", "its rows are parts of sums"),
    ("gemm y[edge -> node] += m @ w" + SIZES + "\n  store y = y", "its rows are parts of sums"),
    ("gemm y[node] = x @ wn" + SIZES + " only=dst\n  store y = y", "only=dst: add fill"),
    ("gemm y[node] = x @ wn" + SIZES + "\n  h: [8] = relu(y)", "the tail stores nothing"),
    ("gemm e[edge] = m @ w" + SIZES + "\n  store y = e", "'y' is node[8] but the rows are edge"),
    ("gemm y[node] = x @ wn" + SIZES + "\n  store z = y", "only rows of width 8 are stored"),
    ("gemm q[edge] = u * m @ w" + SIZES + "\n  f: [] = read u\n  store u = f", "of width 8 are"),
    ("gemm y[node] = y @ w8 heads=1 k=8 n=8\n  store y = y", "'y' is read by the product and"),
    ("gemm y[node] = x @ wn" + SIZES + "\n  y: [8] = relu(y)\n  store y = y", "defined already"),
    ("gemm y[node] = x @ wn" + SIZES + "\n  h: [8] = relu(u)\n  store y = h", "no value 'u' here"),
    (
        "gemm y[node] = x @ wn" + SIZES + "\n  h: [8] = read z\n  store y = h",
        "the value has row shape (6,): declare as wide",
    ),
    (
        "gemm e[edge] = m @ w" + SIZES + "\n  h: [4] = read a\n  store e = e",
        "rows are flat here: declare (8,) or ()",
    ),
    (
        "gemm e[edge] = m @ w" + SIZES + "\n  h: [8] = read y\n  store e = h",
        "cannot be read at - of edge rows: read `y[src]` or `y[dst]`",
    ),
    (
        "gemm y[node] = x @ wn" + SIZES + "\n  h: [] = dot(y, y)\n  store y = y",
        "a tail has reads, elementwise functions and stores alone",
    ),
    (
        "gemm y[node] = x @ wn" + SIZES + "\n  init h: [8] sum\n  store y = y",
        "a tail has reads, elementwise functions and stores alone",
    ),
    (
        "gemm y[node] = x @ wn"
        + SIZES
        + "\n  for edge@s\n    h: [8] = read e\n    store e = h\n  store y = y",
        "a tail has reads, elementwise functions and stores alone",
    ),
]
BAD_TRAVERSALS = [
    ("traverse shared\n  h: [8] = read b", "cannot walk shared rows"),
    ("traverse node\n  h: [8] = read y", "stores nothing: add a store, or drop the kernel"),
    ("traverse node", "the body is empty"),
    (node("  for edge@s\n  h: [8] = read y\n  store y = h"), "`for edge@s`: the body is empty"),
    (node("  store y = h"), "`store y = h`: there is no value 'h' here: define it"),
    (node("  store y = b"), "read the buffer first: `v = read b`"),
    (node("  h: [8] = read nix\n  store y = h"), "there is no buffer 'nix'"),
    (node("  h: [7] = read y\n  store y = h"), "the value has row shape (8,): declare that"),
    (node("  h: [8] = read y[src]\n  store y = h"), "cannot be read at src of node rows: read `y`"),
    (node("  h: [8] = read e\n  store y = h"), "'e' is edge[8] but the rows are node"),
    (node("  h: [4,3] = read v\n  store o = h"), "node rows have no edge type"),
    (node("  h: [8] = read b[src]\n  store y = h"), "cannot be read at src of node rows"),
    ("traverse edge@s\n  h: [8] = read y\n  store e = h", "read `y[src]` or `y[dst]`"),
    ("traverse dst_pair@s\n  h: [8] = read y[src]\n  store q = h", "read `y[dst]`"),
    ("traverse edge@r\n  h: [8] = read q\n  store e = h", "'q' is dst_pair@s[8] but the rows"),
    ("traverse edge\n  h: [8] = read q\n  store e = h", "the rows are edge: use a buffer of edge"),
    (node("  h: [8] = read y\n  h: [8] = relu(h)\n  store y = h"), "'h' is defined already"),
    (node("  h: [8] = read y\n  store z = h"), "row shape (6,) but 'h' has (8,): make them equal"),
    (node("  h: [8] = read y\n  store e = h"), "'e' is edge[8] but the rows are node"),
    (node("  h: [8] = read y\n  g: [8] = sinh(h)\n  store y = g"), "there is no function 'sinh'"),
    (node("  h: [8] = read y\n  g: [8] = add(h)\n  store y = g"), "add takes 2 arguments, not 1"),
    (node("  h: [8] = read y\n  g: [8] = relu(h, const=1)\n  store y = g"), "takes no constant"),
    (node("  h: [8] = read y\n  g: [8] = scale(h)\n  store y = g"), "needs a finite constant"),
    (
        node("  h: [8] = read y\n  g: [8] = scale(h, const=inf)\n  store y = g"),
        "needs a finite constant",
    ),
    (
        node("  h: [8] = read y\n  f: [6] = read z\n  g: [8] = add(h, f)\n  store y = g"),
        "row shape (6,) is no prefix of (8,)",
    ),
    (
        node("  h: [8] = read y\n  g: [] = fold(h, axis=1, sum)\n  store y = h"),
        "axis 1 of (8,) cannot be folded by sum: name an axis from 0, and one of sum, mean, max",
    ),
    (
        node("  h: [8] = read y\n  f: [6] = read z\n  g: [] = dot(h, f)\n  store y = h"),
        "row shapes (8,) and (6,) have no inner product",
    ),
    (node("  init h: [8] mean\n  store y = h"), "there is no reduction 'mean': use one of sum"),
    (node("  init h: [0] sum\n  store y = h"), "an extent is below 1"),
    (node("  h: [8] = read y\n  update h h\n  store y = h"), "there is no accumulator 'h' here"),
    (
        node("  init h: [6] sum\n  g: [8] = read y\n  update h g\n  store y = g"),
        "accumulator 'h' has row shape (6,) but 'g' has (8,)",
    ),
    (
        "traverse edge\n  for edge\n    h: [8] = read e\n    store e = h",
        "edge rows cannot nest in edge rows: nest node > dst_pair > edge",
    ),
    (
        "traverse dst_pair@s\n  for edge@r\n    h: [8] = read e\n    store e = h",
        "the edges are of another group than dst_pair@s: walk edge@s",
    ),
    (
        node(
            "  init h: [8] sum\n  for edge@s\n    g: [8] = read e\n    update h g\n"
            "    f: [8] = add(h, g)\n    store e = f"
        ),
        "'h' is read in a loop that still updates it: read it after the loop",
    ),
    (
        node("  for edge@s\n    h: [8] = read e\n    store e = h\n  store y = h"),
        "there is no value 'h' here",
    ),
    *(
        (node(_SOFTMAX.replace(*change)), message)
        for change, message in (
            (("over edge@s", "over edge"), "edges of edge have scores in one loop over them"),
            (("scores edge@s", "scores edge@r"), "edges of edge@s have scores in one loop"),
            (("    score h", "    score a"), "there is no value 'a' here"),
            (("share: [4]", "share: [2]"), "the softmax has row shape (2,) but 'h' has (4,)"),
            ((" to a", " to u"), "buffer 'u' has row shape (): make them equal"),
            (("mul(share, f)", "add(f, share)"), "add multiples of its shares to sums"),
            (("update acc g", "update acc f"), "add multiples of its shares"),
            (("acc: [4,3] sum", "acc: [4,3] max"), "to sums that begin with them"),
            (("store o = acc", "q: [4,3] = read x\n  update acc q\n  store o = acc"), "weights of"),
        )
    ),
    (
        node(_SOFTMAX.replace(" to a", "").replace("    for edge@s", "    for edge")),
        "no scores are over these edges",
    ),
    (
        node(
            "  softmax p: [4] over edge@s\n    scores edge@s\n      h: [4] = read a\n      score h"
        ),
        "nobody has its shares: add `to BUFFER`, or loops of sums",
    ),
    (
        "traverse dst_pair@s\n  for edge@s\n    softmax p: [4] over edge@s to a\n"
        "      scores edge@s\n        h: [4] = read a\n        score h",
        "stands in an inner loop",
    ),
    (
        node("  for edge@s\n    h: [8] = read y[src]\n  store y = h"),
        "there is no value 'h' here",
    ),
]
BAD_LAUNCHES = [
    (
        "gemm y[node] = x @ wn heads=4 k=3 n=2\ngemm t[src_pair@s] = x[src] @ w heads=4 k=3 n=2",
        "kernel 1 `gemm t[src_pair@s] = x[src] @ w heads=4 k=3 n=2`: a launch of several kernels "
        "cannot walk src_pair rows",
    ),
    (
        "traverse node\n  h: [4,3] = read x\n  store o = h\n"
        "gemm q[dst_pair@s] = sum(o[src]) @ w heads=4 k=3 n=2",
        "kernel 1 `gemm q[dst_pair@s] = sum(o[src]) @ w heads=4 k=3 n=2`: reads 'o' at a source "
        "that the same launch writes: split the launch before this kernel",
    ),
    (
        # The other way round: a later kernel may not overwrite what other blocks still read.
        "gemm q[dst_pair@s] = sum(x[src]) @ w heads=4 k=3 n=2\n"
        "traverse node\n  h: [4,3] = read o\n  store x = h",
        "kernel 0 `gemm q[dst_pair@s] = sum(x[src]) @ w heads=4 k=3 n=2`: reads 'x' at a source",
    ),
    (
        "traverse node\n  init acc: [8] sum\n  for edge@s\n    h: [8] = read y[src]\n"
        "    update acc h\n  store y = acc",
        "reads 'y' at a source that the same launch writes",
    ),
]


BAD = BAD_GEMMS + BAD_OUTERS + BAD_TAILS + BAD_TRAVERSALS + BAD_LAUNCHES


@pytest.mark.parametrize(("kernels", "message"), BAD)
def test_bad_launches(kernels, message):
    launch = build(kernels, GOOD + "  buffer w3: etype[4,3,3]\n  buffer w8: ntype[8,8]\n")
    with pytest.raises(KernelError) as caught:
        verify(launch)
    assert message in str(caught.value)
    assert str(caught.value).startswith("kernel ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("launch\n  buffer y: node[8]", "the launch has no kernels"),
        ("launch\n  buffer y: node[8]\n  buffer y: node[8]", "two buffers of that name: rename"),
        ("launch\n  buffer y: node@s[8]", "node has no groups: drop @s"),
        ("launch\n  buffer y: edge@s[8]", "edge buffers hold all edges: drop @s"),
        ("launch\n  buffer y: node[8,0]", "an extent is below 1: give each axis at least 1"),
        (
            "launch\n  buffer y: node[8]\n  buffer z: node[8]\n"
            "  traverse node\n    h: [8] = read y\n    store y = h",
            "buffer 'z' is named by no kernel: drop it",
        ),
    ],
)
def test_bad_buffers(text, message):
    with pytest.raises(KernelError) as caught:
        verify(parse(text))
    assert message in str(caught.value)


NARROW = """launch
  buffer x: node[{shape}] of bfloat16{scratch}
  buffer s: edge[]
  buffer w: shared[64,64]
  buffer y: node[64]
"""


@pytest.mark.parametrize(
    ("shape", "scratch", "kernel", "message"),
    [
        ("48", "", "y[node] = x @ w heads=1 k=64 n=64", "rows are no multiple of 32"),
        ("3,32", "", "y[node] = x @ w heads=1 k=64 n=64", None),
        ("8,24", "", "y[node] = x @ w heads=1 k=64 n=64", "cross"),
        ("64", " in scratch x", "x[node] = y @ w heads=1 k=64 n=64", "scratch stays in cache"),
        ("64", "", "x[node] += y @ w heads=1 k=64 n=64", "'x' of bfloat16 is added to"),
        ("64", "", "y[node] = y @ w + x heads=1 k=64 n=64", "no row that a kernel computes with"),
    ],
)
def test_bfloat16_rows(shape, scratch, kernel, message):
    launch = parse(NARROW.format(shape=shape, scratch=scratch) + f"  gemm {kernel}\n")
    with pytest.raises(KernelError) if message else nullcontext() as caught:
        check_narrow(launch)
    assert not message or message in str(caught.value)


SCRATCH = """launch
  buffer x: node[4]
  buffer s: node[4] in scratch s
  buffer s_flat: node[2,2] in scratch s
  buffer y: node[2,2]
"""
FILL = "  traverse node\n    h: [4] = read x\n    store s = h\n"
ADD = "  traverse node\n    h: [4] = read x\n    store s += h\n"
COPY = "  traverse node\n    r: [2,2] = read s_flat\n    store y = r\n"
SUM = (
    "  traverse node\n    init acc: [2,2] sum\n    for edge\n      r: [2,2] = read s_flat[src]\n"
    "      update acc r\n    store y = acc\n"
)


@pytest.mark.parametrize("kernels", [FILL + COPY, FILL + ADD + COPY])
def test_scratch_has_other_names(kernels):
    verify(parse(SCRATCH + kernels))


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        (FILL + SUM, "kernel 1 `traverse node`: reads scratch 's_flat' at a source"),
        (COPY + FILL, "kernel 0 `traverse node`: reads scratch 's_flat' before the launch has"),
        (ADD + COPY, "kernel 0 `traverse node`: reads scratch 's' before the launch has written"),
    ],
)
def test_scratch_has_the_rows_of_a_block(kernels, message):
    with pytest.raises(KernelError) as caught:
        verify(parse(SCRATCH + kernels))
    assert message in str(caught.value)


def test_names_are_identifiers():
    launch = build("traverse node\n  h: [8] = read y\n  store y = h")
    (buffer,) = launch.buffers
    renamed = Launch(launch.kernels, (dataclasses.replace(buffer, name="y'"),))
    with pytest.raises(KernelError, match="no identifier: use letters, digits and _"):
        verify(renamed)
