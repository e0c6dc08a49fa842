"""What every rewrite does besides, and what happens when one goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from textwrap import dedent

import pytest

from hetune.variants.errors import PassError, ProgramError
from hetune.variants.passes.compact import Compact
from hetune.variants.passes.pipeline import run_passes
from hetune.variants.program.nodes import Program
from hetune.variants.program.text import parse

PROGRAM = """
    program p(x: node[4] feature, w: etype[4,3])
      xs: edge[4] = take x edge src
      h: edge[3] = linear xs w
      out: node[3] = sum h node
      return out
    """


def test_equal_values_get_one_name_and_dead_ones_go(check_rewrite):
    check_rewrite(
        None,
        """
        program p(x: node[4] feature, w: etype[4,3])
          a: edge[4] = take x edge src
          b: edge[4] = take x edge src
          ha: edge[3] = linear a w
          hb: edge[3] = linear b w
          dead: edge[4] = relu a
          m: edge[3] = add ha hb
          out: node[3] = sum m node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,3])
          a: edge[4] = take x edge src
          ha: edge[3] = linear a w
          m: edge[3] = add ha ha
          out: node[3] = sum m node
          return out
        """,
    )


@dataclass(frozen=True)
class LosesTheResult:
    """A pass with a bug."""

    name: str = "nowhere"

    def __call__(self, program: Program) -> Program:
        return replace(program, results=(self.name,))


def test_a_pass_that_breaks_a_program_is_named():
    steps = (Compact(), LosesTheResult())
    with pytest.raises(PassError) as caught:
        run_passes(steps, parse(dedent(PROGRAM)))
    assert str(caught.value).startswith("pass LosesTheResult(name='nowhere') broke program 'p': ")
    assert "nowhere" in str(caught.value).partition(": ")[2]


@dataclass(frozen=True)
class Stumbles:
    """A pass that builds what is no program."""

    def __call__(self, program: Program) -> Program:
        raise ProgramError("nothing fits")


def test_a_pass_that_cannot_be_applied_is_named():
    with pytest.raises(PassError) as caught:
        run_passes((Compact(), Stumbles()), parse(dedent(PROGRAM)))
    assert str(caught.value) == "pass Stumbles() broke program 'p': nothing fits"


def test_a_program_that_was_broken_before_is_no_passs_fault():
    broken = replace(parse(dedent(PROGRAM)), results=("nowhere",))
    with pytest.raises(ProgramError) as caught:
        run_passes((Compact(),), broken)
    assert not isinstance(caught.value, PassError)


def test_passes_are_values():
    assert Compact() == Compact()
    assert Compact("s") != Compact()
    assert repr(Compact("s", linear=False)) == ("Compact(group='s', linear=False, scores=True)")
