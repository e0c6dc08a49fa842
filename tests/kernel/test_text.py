"""The text form: canonical, readable, and the same launch again when parsed."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetune.variants.errors import KernelError
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import (
    Apply,
    Buffer,
    Def,
    Direct,
    EdgeSoftmax,
    Element,
    FoldAxis,
    ForEach,
    Gather,
    Gemm,
    Init,
    Inner,
    Launch,
    Outer,
    Read,
    Rows,
    Schedule,
    ScoreLoop,
    SegmentSum,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.parse import parse, parse_schedule
from hetune.variants.kernel.text import show, show_schedule
from hetune.variants.program.nodes import End, Space, Type
from hetune.variants.testing.launches import random_launch

BFLOAT16 = Element.BFLOAT16
EDGES, PAIRS, NODES = Rows(Space.EDGE, "s"), Rows(Space.DST_PAIR, "s"), Rows(Space.NODE)

KERNELS = [
    (
        Gemm("t", Gather("x", End.SRC), "w", Rows(Space.SRC_PAIR, "s"), 1, 64, 64),
        "gemm t[src_pair@s] = x[src] @ w heads=1 k=64 n=64",
    ),
    (
        Gemm("y", Direct("t"), "w", EDGES, 4, 16, 8, True, True, "a", None),
        "gemm y[edge@s -> node] += a * t @ w heads=4 k=16 n=8",
    ),
    (
        Gemm("y", SegmentSum("x", End.SRC, "a"), "w", PAIRS, 2, 3, 5, False, False, None, "b"),
        "gemm y[dst_pair@s] = sum(a * x[src]) @ w + b heads=2 k=3 n=5",
    ),
    (
        Gemm("y", SegmentSum("m", End.NONE), "w", PAIRS, 1, 3, 5, True, False),
        "gemm y[dst_pair@s -> node] = sum(m) @ w heads=1 k=3 n=5",
    ),
    (
        Gemm("sum", Direct("sum"), "w", NODES, 1, 3, 5, False, True, "sum", "w"),
        "gemm sum[node] += sum * sum @ w + w heads=1 k=3 n=5",
    ),
    (
        Gemm("y", Gather("x", End.NONE), "w", NODES, 0, -1, 5),
        "gemm y[node] = x[-] @ w heads=0 k=-1 n=5",
    ),
    (
        Gemm("y", Direct("x"), "w", NODES, 1, 3, 5, bias="b", only=End.DST, fill=True),
        "gemm y[node] = x @ w + b heads=1 k=3 n=5 only=dst fill",
    ),
    (
        Gemm(
            "t",
            Direct("x", "leaky_relu", 0.5),
            "w",
            EDGES,
            1,
            3,
            5,
            scale="c",
            tail=(
                Def("h", (5,), Apply("gelu", ("t",))),
                Write("t", "t"),
                Write("y", "h", True),
            ),
        ),
        """\
gemm t[edge@s] = c * leaky_relu(x, const=0.5) @ w heads=1 k=3 n=5
    h: [5] = gelu(t)
    store t = t
    store y += h""",
    ),
    (
        Gemm("y", Direct("x", "relu"), "w", NODES, 1, 3, 5, only=End.DST, fill=True),
        "gemm y[node] = relu(x) @ w heads=1 k=3 n=5 only=dst fill",
    ),
    (
        Outer("w", Gather("x", End.SRC), SegmentSum("y", End.SRC, "a"), PAIRS, 2, 3, 5),
        "outer w[dst_pair@s] = x[src], sum(a * y[src]) heads=2 k=3 n=5",
    ),
    (
        Outer("w", None, Direct("y"), NODES, 1, 1, 5, True, "c"),
        "outer w[node] += c * y heads=1 k=1 n=5",
    ),
    (Traversal(NODES, ()), "traverse node"),
    (
        Traversal(
            NODES,
            (
                Init("acc", (4, 16), "max"),
                ForEach(
                    PAIRS,
                    (
                        ForEach(
                            EDGES,
                            (
                                Def("h", (4, 16), Read("x", End.SRC)),
                                Def("c", (), Apply("leaky_relu", ("h",), 1e-05)),
                                Def("d", (4,), Inner("h", "h")),
                                Def("f", (16,), FoldAxis("h", 0, "mean")),
                                Update("acc", "h"),
                            ),
                        ),
                        Write("p", "c", True),
                    ),
                ),
                Write("y", "acc"),
            ),
        ),
        """\
traverse node
    init acc: [4,16] max
    for dst_pair@s
      for edge@s
        h: [4,16] = read x[src]
        c: [] = leaky_relu(h, const=1e-05)
        d: [4] = dot(h, h)
        f: [16] = fold(h, axis=0, mean)
        update acc h
      store p += c
    store y = acc""",
    ),
    (
        # Names that are also words of the language.
        Traversal(
            Rows(Space.EDGE),
            (
                Def("init", (), Read("read")),
                Def("for", (), Apply("scale", ("init",), -2.0)),
                Def("inf", (), Read("inf")),
                Init("update", (), "sum"),
                EdgeSoftmax(
                    "softmax",
                    (),
                    Rows(Space.EDGE),
                    (
                        ScoreLoop(Rows(Space.EDGE, "a"), (Def("score", (), Read("b")),), "score"),
                        ScoreLoop(Rows(Space.EDGE, "b"), (Def("to", (), Read("b")),), "to"),
                    ),
                    "to",
                    (ForEach(Rows(Space.EDGE), (Update("update", "softmax"),)),),
                ),
                Update("update", "for"),
                Write("store", "update"),
            ),
        ),
        """\
traverse edge
    init: [] = read read
    for: [] = scale(init, const=-2.0)
    inf: [] = read inf
    init update: [] sum
    softmax softmax: [] over edge to to
      scores edge@a
        score: [] = read b
        score score
      scores edge@b
        to: [] = read b
        score to
      for edge
        update update softmax
    update update for
    store store = update""",
    ),
]


@pytest.mark.parametrize(("kernel", "text"), KERNELS)
def test_kernel_text(kernel, text):
    launch = Launch((kernel,), (Buffer("x", Type(Space.NODE, (4, 16))),))
    assert show(launch) == f"launch\n  buffer x: node[4,16]\n  {text}\n"
    assert parse(show(launch)) == launch


@pytest.mark.parametrize(
    ("buffer", "text"),
    [
        (Buffer("b", Type(Space.NODE)), "node[]"),
        (Buffer("b", Type(Space.SRC_PAIR, (3,), "g1")), "src_pair@g1[3]"),
        (Buffer("b", Type(Space.SHARED, (2, 3, 4))), "shared[2,3,4]"),
        (Buffer("b", Type(Space.EDGE, (3,)), "s"), "edge[3] in scratch s"),
        (Buffer("b", Type(Space.NODE, (32,)), "", BFLOAT16), "node[32] of bfloat16"),
        (Buffer("b", Type(Space.NODE), "s", BFLOAT16), "node[] of bfloat16 in scratch s"),
    ],
)
def test_buffer_text(buffer, text):
    launch = Launch((), (buffer,))
    assert show(launch) == f"launch\n  buffer b: {text}\n"
    assert parse(show(launch)) == launch


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_round_trip_of_random_launches(seed):
    launch = random_launch(seed)
    assert parse(show(launch)) == launch
    assert show(parse(show(launch))) == show(launch)


def test_constants_survive_exactly():
    for const in (0.1, 1 / 3, 1e300, -5e-324, 3, float("inf"), float("-inf")):
        body = (Def("v", (), Apply("scale", ("u",), const)),)
        launch = Launch((Traversal(NODES, body),), ())
        assert parse(show(launch)) == launch


HEAD = "launch\n  buffer x: node[2]\n"


SOFTMAX = (
    HEAD
    + """  traverse node
    softmax p: [2] over edge to x
      scores edge
        v: [2] = read x
        score v
"""
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty: it must start with `launch`"),
        ("kernel", "line 1 `kernel`: found 'kernel' where 'launch' is expected"),
        ("launch now", "'now' follows the end of the statement: remove it"),
        ("launch\n   buffer x: node[2]", "indented by 3 spaces: indent it by 2"),
        ("launch\n  buffer x: nodes[2]", "no space 'nodes': use one of node, edge"),
        ("launch\n  buffer x: node", "found the end of the line where '[' is expected"),
        ("launch\n  buffer x: node[2.5]", "2.5 is not an integer"),
        ("launch\n  buffer x: node[2 3]", "found '3' where ',' is expected"),
        ("launch\n  traverse node\nlaunch", "line 3 `launch`: only one launch is expected"),
        ("launch\n  traverse node\n  buffer x: node[]", "a buffer follows a kernel"),
        (HEAD + "  gemm x = x @ w", "found '=' where '[' is expected"),
        (HEAD + "  gemm x[node] = x[up] @ w", "'up' is no end of an edge: write src or dst"),
        (HEAD + "  gemm x[node] = relu(x, 2) @ w", "found '2' where 'const' is expected"),
        (HEAD + "  gemm x[node] = relu(x[src]) @ w", "found '[' where ')' is expected"),
        (HEAD + "  gemm x[node] = x @ w heads=1", "where 'k' is expected"),
        (HEAD + "  traverse node\n    yield x", "no statement starts with 'yield'"),
        (HEAD + "  traverse node\n    v: [2] = read", "the line ends where a buffer is expected"),
        (HEAD + "  traverse node\n    v: [2] = x ? y", "line 4 `v: [2] = x ? y`: '?' has no mean"),
        (HEAD + "  traverse node\n    v: [2] = add(x y)", "found 'y' where ',' is expected"),
        (HEAD + "  traverse node\n      v: [2] = read x", "indented by 6 spaces: indent it by 4"),
        (SOFTMAX.replace("        score v\n", ""), "no score: end the loop with `score VALUE`"),
        (SOFTMAX.replace("score v", "store x = v\n        score v"), "made of definitions alone"),
        (SOFTMAX + "        u: [2] = read x\n", "follows the score: move it above"),
        (SOFTMAX + "      store x = v\n", "a softmax has `scores` and `for` loops alone"),
        (SOFTMAX + "      for edge\n        update v v\n      scores edge\n", "above all sums"),
    ],
)
def test_malformed_text(text, message):
    with pytest.raises(KernelError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_blank_lines_are_skipped():
    assert parse("\nlaunch\n\n  buffer x: node[2]\n\n") == parse("launch\n  buffer x: node[2]")


def test_schedule_text():
    schedule = Schedule(block_nodes=256, unroll=4)
    text = "schedule block_nodes=256 row_tile=5 col_vectors=4 lanes=16 unroll=4"
    assert show_schedule(schedule).startswith(text)
    assert parse_schedule(text) == schedule
    assert parse_schedule(show_schedule(schedule)) == schedule
    assert parse_schedule("schedule") == Schedule()
    for setting in dataclasses.fields(Schedule):
        assert f" {setting.name}=" in show_schedule(Schedule())


def test_schedule_text_of_a_gpu():
    schedule = GpuSchedule(tile_rows=128, part_edges=32)
    text = "gpu_schedule tile_rows=128 part_edges=32"
    assert parse_schedule(text) == schedule
    assert parse_schedule(show_schedule(schedule)) == schedule
    assert parse_schedule("gpu_schedule") == GpuSchedule()
    for setting in dataclasses.fields(GpuSchedule):
        assert f" {setting.name}=" in show_schedule(schedule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schedule tiles=3", "there is no setting 'tiles': use one of block_nodes"),
        ("schedule unroll=fast", "found 'fast' where an integer is expected"),
        ("plan", "found 'plan' where 'schedule' is expected"),
        ("gpu_schedule lanes=4", "there is no setting 'lanes': use one of tile_rows"),
    ],
)
def test_malformed_schedule(text, message):
    with pytest.raises(KernelError) as caught:
        parse_schedule(text)
    assert message in str(caught.value)
