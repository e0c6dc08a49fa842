"""The rules of programs: types that are inferred, and messages of the rules that are broken."""

# ruff: noqa: E501
# Messages stand whole beside what brings them about.

from __future__ import annotations

import pytest

from hetune.variants.errors import ProgramError
from hetune.variants.program.infer import infer
from hetune.variants.program.nodes import Param, Program, Space, Type
from hetune.variants.program.text import parse, show_type
from hetune.variants.program.verify import verify

HEAD = """\
program p(
  x: node[8] feature, e: edge[3] feature, xh: node[2,4] feature,
  w: etype[8,4], wh: etype[2,4,5], wn: ntype[8,2,4], v: shared[4], vh: shared[2,4],
  u: etype[8], b: ntype[8], c: shared[]
) groups(g, k)
  xe: edge[8] = take x edge src
  xg: edge@g[8] = take x edge@g dst
  he: edge[2,4] = take xh edge src
  hk: edge@k[8] = take x edge@k src
  sp: src_pair[8] = take x src_pair src
  dg: dst_pair@g[8] = take x dst_pair@g dst
"""


def with_value(line: str) -> Program:
    return parse(f"{HEAD}  {line}\n  return x\n")


GOOD = [
    ("take x src_pair@g src", "src_pair@g[8]"),
    ("take sp edge", "edge[8]"),
    ("take dg edge@g", "edge@g[8]"),
    ("take xe edge@g", "edge@g[8]"),
    ("take u dst_pair@g", "dst_pair@g[8]"),
    ("take b node", "node[8]"),
    ("take b etype dst", "etype[8]"),
    ("linear xe w", "edge[4]"),
    ("linear dg w", "dst_pair@g[4]"),
    ("linear x wn", "node[2,4]"),
    ("linear he wh", "edge[2,5]"),
    ("linear xe u", "edge[]"),
    ("mul xe u", "edge[8]"),
    ("add c he", "edge[2,4]"),
    ("add x b", "node[8]"),
    ("outer v v", "shared[4,4]"),
    ("one_minus u", "etype[8]"),
    ("add u c", "etype[8]"),
    ("dot xe u", "edge[]"),
    ("dot vh he", "edge[2]"),
    ("dot v he", "edge[2]"),
    ("dot he v", "edge[2]"),
    ("sum xg dst_pair", "dst_pair@g[8]"),
    ("sum xg node", "node[8]"),
    ("max xg node src", "node[8]"),
    ("prod xg edge", "edge[8]"),
    ("min xg src_pair", "src_pair@g[8]"),
    ("sum sp node src", "node[8]"),
    ("sum dg etype", "etype[8]"),
    ("sum u ntype src", "ntype[8]"),
    ("sum x shared", "shared[8]"),
    ("take v edge@g", "edge@g[4]"),
    ("sum dg node", "node[8]"),
    ("softmax xg dst_pair", "edge@g[8]"),
    ("count node@g", "node[]"),
    ("count dst_pair@g", "dst_pair@g[]"),
    ("count node@g src", "node[]"),
    ("count src_pair@g src", "src_pair@g[]"),
    ('einsum "kd,d->k" w v', "etype[8]"),
    ('einsum "kd->dk" w', "etype[4,8]"),
    ("merge xg hk", "edge[8]"),
    ("maximum xe u", "edge[8]"),
    ("outer he vh", "edge[2,4,4]"),
    ("fold he 0 max", "edge[4]"),
    ("fold w 1 mean", "etype[8]"),
    ("concat xe v xe", "edge[20]"),
    ("concat wh wh", "etype[2,4,10]"),
    ("slice he 1 4", "edge[2,3]"),
    ("reshape he [8]", "edge[8]"),
    ("reshape x [2,2,2]", "node[2,2,2]"),
]


@pytest.mark.parametrize(("op", "type_"), GOOD, ids=[op for op, _ in GOOD])
def test_inferred(op, type_):
    program = with_value(f"y: {type_} = {op}")
    verify(program)
    assert show_type(infer(program.lets[-1].op, program.types)) == type_


BAD = [
    (
        "y: edge[8] = take x edge",
        "taking node to edge by the end NONE is not possible: take SRC or DST",
    ),
    (
        "y: src_pair[8] = take x src_pair dst",
        "taking node to src_pair by the end DST is not possible: take SRC",
    ),
    (
        "y: edge[8] = take dg edge",
        "dst_pair@g[8] has rows for the group 'g' but the edges are of '': take edges of the same group",
    ),
    (
        "y: edge[8] = take xe edge",
        "edges are taken from all edges to a named group: use the value itself",
    ),
    (
        "y: node[8] = take xe node",
        "rows of edge cannot be taken to node: take goes from node to edges or pairs, from pairs to edges, from all edges to a group, from etype to edges or pairs, from ntype to node or etype, and from shared to all",
    ),
    ("y: edge[4] = linear xe xe", "edge[8] is no weight: take one from ntype, etype or shared"),
    ("y: etype[4] = linear u w", "etype[8] is a weight: multiply weights with einsum"),
    (
        "y: node[4] = linear x w",
        "an etype value cannot join node rows, which have no edge type: use it on edges or pairs",
    ),
    (
        "y: edge[2,4] = linear xe wn",
        "an ntype value cannot join edge rows: use it on nodes, or take it to etype",
    ),
    (
        "y: edge[4] = linear he w",
        "row shapes [2, 4] and [8, 4] do not multiply: give [K] and [K,...], or per head [H,K] and [H,K,D]",
    ),
    (
        "y: edge[8] = add xe xg",
        "operands live in edge and edge@g: take or sum them to one space and group",
    ),
    (
        "y: edge[8] = add xe x",
        "operands live in edge and node: take or sum them to one space and group",
    ),
    (
        "y: etype[8] = add u b",
        "operands live in etype and ntype: take the ntype value to etype first",
    ),
    ("y: edge[8] = add xe he", "row shape [8] is no prefix of [2, 4]: make the leading axes equal"),
    ("y: edge[8] = add xe", "add takes 2 operands, not 1: name that many"),
    ("y: edge[8] = leaky_relu xe", "leaky_relu has the constant None: give it a finite number"),
    ("y: edge[8] = relu xe 0.5", "relu takes no constant: leave 0.5 out"),
    ("y: edge[8] = clamp_min xe", "clamp_min has the constant None: give it a finite number"),
    (
        "y: edge[2,4,4] = outer he v",
        "outer takes row shapes [K] and [D], or per head [H,K] and [H,D]: reshape the operands",
    ),
    ("y: edge[2] = fold he 2 sum", "the row shape [2, 4] has no axis 2: count its axes from 0"),
    (
        "y: edge[2,8] = concat he xe",
        "row shapes [2, 4] and [8] do not go side by side: make all axes equal but the last",
    ),
    ("y: edge[] = concat c c", "row shapes [] and [] do not go side by side"),
    ("y: edge[8] = concat xe", "there is nothing to put side by side: give two parts or more"),
    ("y: edge[16] = concat xe x", "operands live in edge and node: take or sum them to one space"),
    (
        "y: edge[2,0] = slice he 4 4",
        "the row shape [2, 4] has no elements 4 to 4 on its last axis: stay within it, and take one at least",
    ),
    (
        "y: edge[] = dot xe v",
        "row shapes [8] and [4] have no inner product: give equal shapes, or leave the leading axis of one out",
    ),
    ("y: edge[] = dot xe c", "row shapes [8] and [] have no inner product"),
    (
        "y: node[8] = sum x node",
        "rows of node cannot be reduced to node: reductions go where take comes from, and take goes from node to edges or pairs, from pairs to edges, from all edges to a group, from etype to edges or pairs, from ntype to node or etype, and from shared to all",
    ),
    (
        "y: etype[8] = sum dg etype src",
        "reducing dst_pair to etype by the end SRC is not possible: take NONE",
    ),
    (
        "y: node[8] = max dg node src",
        "reducing dst_pair to node by the end SRC is not possible: take DST",
    ),
    (
        "y: edge[8] = sum xe edge",
        "edges are reduced from a named group to all edges: use the value itself",
    ),
    ("y: node[8] = softmax x node", "scores are node[8]: softmax needs edge rows"),
    ("y: edge[8] = softmax xe edge", "no softmax over edge: take node or dst_pair"),
    (
        "y: edge[] = count edge",
        "edge has no edges to count at the end DST: count per node or dst_pair",
    ),
    ("y: node[] = count node@q", "the program has no group 'q': add it to its groups"),
    ("y: edge@q[8] = take x edge@q src", "the program has no group 'q': add it to its groups"),
    (
        'y: shared[] = einsum "a,a" v v',
        "'a,a' does not name 2 operands and a result: write it like 'khd,hd->hk'",
    ),
    (
        'y: shared[] = einsum "a->" x',
        "node[8] is no weight: einsum multiplies weights only, use linear",
    ),
    (
        'y: shared[] = einsum "ab->" v',
        "'ab' does not name the axes of the row shape [4]: give one letter per axis",
    ),
    (
        'y: etype[] = einsum "a,a->" u v',
        "axis 'a' has 8 elements in one operand and 4 in another: make them equal",
    ),
    (
        'y: etype[] = einsum "a->b" u',
        "the result 'b' repeats an axis or has one that no operand has: correct it",
    ),
    (
        "y: edge[8] = merge xg xg",
        "merge needs one part for each of some groups: name each group once",
    ),
    ("y: edge[8] = merge xe", "edge[8] is no group of edges: merge rows of edge@group"),
    ("y: edge[9] = reshape xe [9]", "[8] has 8 elements but [9] has 9: keep the width"),
    (
        "y: edge[8,0] = reshape xe [8,0]",
        "the result has the row shape [8, 0]: extents are at least 1",
    ),
    (
        "y: edge[4] = linear xe nothing",
        "'nothing' is not defined before it is used: define it, or reorder",
    ),
    (
        "y: edge[5] = linear xe w",
        "declared as edge[5] but gives edge[4]: correct the declared type",
    ),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=[line for line, _ in BAD])
def test_broken_value(line, message):
    with pytest.raises(ProgramError) as error:
        verify(with_value(line))
    assert str(error.value).startswith(f"value 'y' = {line.split(' = ')[1]}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("program p()\n return y\n", "the result 'y' is not defined: return a value or param"),
        (
            "program p(x: shared[], x: shared[])\n return x\n",
            "value 'x' is defined twice: give the second one another name",
        ),
        (
            "program p(x: shared[]) groups(a, a)\n return x\n",
            "group 'a' is listed twice: list it once",
        ),
        (
            "program p(x: node[3])\n return x\n",
            "parameter 'x' is a weight in node: give it a type space (ntype, etype, shared), or make it a feature",
        ),
        (
            "program p(x: shared[3] feature)\n return x\n",
            "parameter 'x' is a feature in shared: features are given per node or edge",
        ),
        (
            "program p(x: ntype[3] constant)\n return x\n",
            "parameter 'x' is a constant in ntype: constants are given per node or edge",
        ),
        (
            "program p(x: node[3] input)\n return x\n",
            "parameter 'x' has the role 'input': take one of weight, feature, constant",
        ),
        (
            "program p(x: node[0] feature)\n return x\n",
            "parameter 'x' has the row shape [0]: extents are at least 1",
        ),
        (
            "program p(x: edge@g[3] feature) groups(g)\n return x\n",
            "parameter 'x' has the group 'g': parameters have rows for all; take the group inside the program",
        ),
    ],
)
def test_broken_program(text, message):
    with pytest.raises(ProgramError) as error:
        verify(parse(text))
    assert str(error.value) == message


@pytest.mark.parametrize("name", ["1x", "a.b"])
def test_names_are_those_of_kernels(name):
    with pytest.raises(ProgramError) as error:
        verify(Program("p", (Param(name, Type(Space.SHARED)),), (), (name,)))
    assert str(error.value) == (
        f"a value's name is {name!r}: take letters, digits and '_', no digit first, and none of "
        "program, return, groups"
    )
