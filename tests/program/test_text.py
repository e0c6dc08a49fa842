"""Text of programs: what is printed, what is read, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.full import FULL

from hetune.variants.errors import ProgramError
from hetune.variants.program.functions import FOLDS, MAP_ARITY, REDUCTIONS
from hetune.variants.program.nodes import (
    Concat,
    Count,
    Dot,
    Einsum,
    End,
    Fold,
    Group,
    Let,
    Linear,
    Map,
    Merge,
    Param,
    Program,
    Reduce,
    Reshape,
    Rule,
    Slice,
    Softmax,
    Space,
    Take,
    Type,
)
from hetune.variants.program.text import parse, show, show_op, show_type

OPS = [
    (Take("x", Space.EDGE, End.SRC), "take x edge src"),
    (Take("x", Space.SRC_PAIR, End.SRC, "s"), "take x src_pair@s src"),
    (Take("x", Space.EDGE), "take x edge"),
    (Linear("x", "w"), "linear x w"),
    (Map("add", ("a", "b")), "add a b"),
    (Map("leaky_relu", ("a",), 0.2), "leaky_relu a 0.2"),
    (Map("scale", ("a",), -1e-30), "scale a -1e-30"),
    (Dot("x", "y"), "dot x y"),
    (Reduce("x", Space.NODE, end=End.DST), "sum x node"),
    (Reduce("x", Space.NODE, "max", End.SRC), "max x node src"),
    (Reduce("x", Space.DST_PAIR, "prod"), "prod x dst_pair"),
    (Reduce("x", Space.NTYPE, "min", End.DST), "min x ntype dst"),
    (Softmax("x", Space.DST_PAIR), "softmax x dst_pair"),
    (Count(Space.NODE), "count node"),
    (Count(Space.DST_PAIR, "d"), "count dst_pair@d"),
    (Einsum("khd,hd->hk", ("w", "a")), 'einsum "khd,hd->hk" w a'),
    (Merge(("a", "b")), "merge a b"),
    (Reshape("x", (4, 16)), "reshape x [4,16]"),
    (Reshape("x", ()), "reshape x []"),
    (Fold("x", 1, "mean"), "fold x 1 mean"),
    (Concat(("a", "b")), "concat a b"),
    (Slice("x", 0, 4), "slice x 0 4"),
]


@pytest.mark.parametrize(("op", "text"), OPS, ids=[text for _, text in OPS])
def test_operator(op, text):
    assert show_op(op) == text
    read = parse(f"program p()\n  y: edge@g[3] = {text}\n  return y\n")
    assert read.lets == (Let("y", Type(Space.EDGE, (3,), "g"), op),)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (Type(Space.NODE, (64,)), "node[64]"),
        (Type(Space.EDGE), "edge[]"),
        (Type(Space.DST_PAIR, (4, 16), "d"), "dst_pair@d[4,16]"),
    ],
)
def test_type(type_, text):
    assert show_type(type_) == text


def test_program():
    text = """\
program rgcn(x: node[8] feature, w: etype[8,4]) groups(s: fewer_src, d)
  xs: edge[8] = take x edge src
  hs: edge[4] = linear xs w
  out: node[4] = sum hs node
  return out
"""
    program = parse(text)
    assert program.groups == (Group("s", Rule.FEWER_SRC), Group("d"))
    assert [param.role for param in program.params] == ["feature", "weight"]
    assert show(program) == text


def test_long_heads_take_a_line_per_parameter():
    params = tuple(Param(f"weight_number_{i}", Type(Space.SHARED, (64, 64))) for i in range(5))
    program = Program("wide", params, (), ("weight_number_0",))
    assert show(program).splitlines()[:2] == ["program wide(", "  weight_number_0: shared[64,64],"]
    assert parse(show(program)) == program


def test_comments_and_blank_lines_are_ignored():
    loose = "# a\n\nprogram p(\n\n x : node[ 2, 3 ] feature)  # b\n\n\n return x # c"
    assert parse(loose) == Program(
        "p", (Param("x", Type(Space.NODE, (2, 3)), "feature"),), (), ("x",)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected 'program', found 'end of text'"),
        ("program p() return x y", "line 1: expected the end of the text, found 'y'"),
        ("program p(x: nodes[])\n return x", "line 1: no space is called 'nodes'; there are node,"),
        ("program p()\n y: edge[] = tkae x\n return y", "line 2: no operator is called 'tkae'"),
        ("program p()\n y: edge[] = dot x\n return y", "line 2: expected a name, found the end of"),
        ("program p()\n y: edge[1.5] = dot x x\n", "line 2: 1.5 is no extent of a row shape"),
        (
            "program p()\n y: edge[] = dot x x z\n",
            "line 2: expected the end of the line, found 'z'",
        ),
        ("program p()\n y: edge[] = sum x node@g\n", "line 2: @g stands where the group follows"),
        ("program p()\n y; edge[]", "line 2: unexpected character ';'"),
    ],
)
def test_refused(text, message):
    with pytest.raises(ProgramError) as error:
        parse(text)
    assert str(error.value).startswith(message)


names = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,6}\Z").filter(
    lambda name: name not in ("program", "return", "groups", "src", "dst", "feature")
)
shapes = st.lists(st.integers(0, 99), max_size=3).map(tuple)
groups = st.just("") | names
types = st.builds(Type, st.sampled_from(Space), shapes, groups)
args = st.lists(names, min_size=1, max_size=3).map(tuple)
# Rows always reach nodes by one end of their edges.
reductions = st.builds(
    Reduce, names, st.sampled_from(Space), st.sampled_from(REDUCTIONS), st.sampled_from(End)
).filter(lambda op: op.space is not Space.NODE or op.end is not End.NONE)
ops = st.one_of(
    st.builds(Take, names, st.sampled_from(Space), st.sampled_from(End), groups),
    st.builds(Linear, names, names),
    st.builds(
        Map,
        st.sampled_from(sorted(MAP_ARITY)),
        args,
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
    ),
    st.builds(Dot, names, names),
    reductions,
    st.builds(Softmax, names, st.sampled_from(Space)),
    st.builds(Count, st.sampled_from(Space), groups),
    st.builds(Einsum, st.sampled_from(["kd,d->k", "->", "a,->a"]), args),
    st.builds(Merge, args),
    st.builds(Reshape, names, shapes),
    st.builds(Fold, names, st.integers(0, 3), st.sampled_from(FOLDS)),
    st.builds(Concat, args),
    st.builds(Slice, names, st.integers(0, 9), st.integers(0, 9)),
)
programs = st.builds(
    Program,
    names,
    st.lists(st.builds(Param, names, types, st.sampled_from(["feature", "weight"]))).map(tuple),
    st.lists(st.builds(Let, names, types, ops)).map(tuple),
    st.lists(names, min_size=1, max_size=3).map(tuple),
    st.lists(st.builds(Group, names, st.sampled_from([None, *Rule]))).map(tuple),
)


@given(programs)
@settings(max_examples=150 if FULL else 50, deadline=None)
def test_parse_reads_what_show_prints(program):
    assert parse(show(program)) == program
