"""The canonical form: what programs that mean the same have in common, and others do not."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.frontend.presets import PRESETS, preset_program
from hetune.variants.program.canonical import canonical, digest
from hetune.variants.program.interpret import interpret
from hetune.variants.program.labeled import LabeledProgram, needs_canonical_edges
from hetune.variants.program.nodes import Let, Program, operands, with_operands
from hetune.variants.program.text import parse, show
from hetune.variants.program.verify import verify
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.programs import PROGRAMS, random_parameters

MEAN = """
program mean(x: node[8] feature, w: etype[8,4], unused: shared[3])
  xs: edge[8] = take x edge src
  dead: edge[8] = relu xs
  hs: edge[4] = linear xs w
  out: node[4] = sum hs node
  return out
"""
CANONICAL = """\
program layer(x0: node[8] feature, w0: etype[8,4])
  v0: edge[8] = take x0 edge src
  v1: edge[4] = linear v0 w0
  v2: node[4] = sum v1 node
  return v2
"""


def shuffled(program: Program, data: st.DataObject) -> Program:
    """The same program: other names, parameters and values in another order that is allowed."""
    choose = data.draw
    names = [value.name for value in (*program.params, *program.lets)]
    new = dict(
        zip(names, choose(st.permutations([f"n{i}" for i in range(len(names))])), strict=True)
    )
    known, lets, left = {p.name for p in program.params}, [], list(program.lets)
    while left:
        ready = [let for let in left if known.issuperset(operands(let.op))]
        let = choose(st.sampled_from(ready))
        left.remove(let)
        known.add(let.name)
        reads = tuple(new[name] for name in operands(let.op))
        lets.append(Let(new[let.name], let.type, with_operands(let.op, reads)))
    params = [replace(param, name=new[param.name]) for param in program.params]
    return replace(
        program,
        name="other",
        params=tuple(choose(st.permutations(params))),
        lets=tuple(lets),
        results=tuple(new[name] for name in program.results),
    )


def test_names_and_unused_values_go():
    assert show(canonical(parse(MEAN))) == CANONICAL


GROUPED = """
program mean(x: node[8] feature, w: etype[8,4]) groups(unused, few: fewer_src, rest: fewer_dst)
  xf: edge@few[8] = take x edge@few src
  hf: edge@few[4] = linear xf w
  xr: edge@rest[8] = take x edge@rest src
  hr: edge@rest[4] = linear xr w
  h: edge[4] = merge hf hr
  out: node[4] = sum h node
  return out
"""


def test_names_of_groups_go_and_their_rules_stay():
    one = parse(GROUPED)
    renamed = parse(GROUPED.replace("few:", "a:").replace("@few", "@a").replace("rest", "b"))
    other = parse(GROUPED.replace("few: fewer_src", "few: fewer_dst"))
    found = canonical(one)
    verify(found)
    assert "groups(g0: fewer_src, g1: fewer_dst)" in show(found)
    assert canonical(found) == found
    assert digest(renamed) == digest(one) != digest(other)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_a_program_with_a_canonical_form_of_its_own(name):
    found = canonical(PROGRAMS[name])
    verify(found)
    assert canonical(found) == found


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_names_and_order_do_not_matter(name, data):
    program = PROGRAMS[name]
    other = shuffled(program, data)
    verify(other)
    assert digest(other) == digest(program)


def test_all_else_matters():
    programs = [
        rgcn_program(8, 8),
        rgcn_program(8, 16),
        rgcn_program(16, 8),
        rgcn_program(8, 8, "add"),
        rgcn_program(8, 8, bias=False),
        rgat_program(8, 8),
        rgat_program(8, 4, 2),
        rgat_program(8, 8, slope=0.1),
        hgt_program(8, 8),
        hgt_program(8, 8, 2),
        *(preset_program(name, 32, 32) for name in PRESETS),
    ]
    assert len({digest(program) for program in programs}) == len(programs)


@pytest.mark.parametrize("name", ["hgt, 2 heads", "rgat, root and residual", "two layers"])
def test_it_computes_the_same(name):
    program = PROGRAMS[name]
    graph = AWKWARD["relations without edges"]()
    values = random_parameters(program, graph)
    renamed = canonical(program)
    by_name = dict(zip(_in_order(program), (p.name for p in renamed.params), strict=True))
    given_values = {by_name[name]: value for name, value in values.items()}
    expected = interpret(program, values, graph)
    torch.testing.assert_close(interpret(renamed, given_values, graph), expected, rtol=0, atol=0)


def _in_order(program: Program) -> list[str]:
    """The parameters' names, as a walk from the result meets them."""
    found: dict[str, None] = {}
    by_name = {let.name: let for let in program.lets}
    params = {param.name for param in program.params}

    def walk(name: str) -> None:
        if name in params:
            found.setdefault(name)
        else:
            for operand in operands(by_name[name].op):
                walk(operand)

    walk(program.result)
    return list(found)


def test_a_labeled_program_is_told_apart_by_its_digest():
    one = LabeledProgram.of(rgat_program(8, 4, 2), "mine")
    other = LabeledProgram.parse(show(canonical(rgat_program(8, 4, 2))))
    assert one == other
    assert (one.label, other.label) == ("mine", "layer")
    assert (one.d_in, one.d_out, one.heads) == (8, 8, 2)
    assert one.describe() == "mine 8->8, 2 heads"
    assert one.program == rgat_program(8, 4, 2)


def test_who_needs_canonical_edges():
    """Rows that weights of node types made, where edges read them."""
    assert {name for name in PRESETS if needs_canonical_edges(preset_program(name, 8, 8))} == {
        "hgt"
    }
