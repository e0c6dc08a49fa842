"""Programs that one after the other compute what a whole one does, each near its nodes."""

import pytest
import torch

from hetune.variants.program.interpret import interpret_results
from hetune.variants.program.labeled import LabeledProgram
from hetune.variants.program.locality import reads_near_nodes
from hetune.variants.program.stages import near_programs
from hetune.variants.program.verify import verify
from hetune.variants.testing.graphs import typed_graph

HOP = "  m: edge[4] = take x edge src\n  o: node[4] = sum m node\n"
NORM = "  c: node[] = count node\n  e: edge[] = take c edge src\n"
SCORES = "  d: edge[4] = take x edge dst\n  a: edge[] = dot m d\n  s: edge[] = softmax a node\n"
GRAPH = typed_graph([30, 20], [(0, 1, 90), (1, 0, 90), (0, 0, 20), (1, 1, 9)])


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (HOP + "  p: node[4] = add o x\n", 1),
        (HOP + "  n: edge[4] = take o edge src\n  p: node[4] = sum n node\n", 2),
        # A residual over two hops.
        (
            HOP + "  n: edge[4] = take o edge src\n  q: node[4] = sum n node\n"
            "  y: node[4] = add q o\n  t: edge[4] = take y edge src\n  u: node[4] = sum t node\n"
            "  p: node[4] = add u o\n",
            3,
        ),
        # Degrees at both ends.
        (
            NORM
            + HOP.replace("sum m", "sum v").replace("  o", "  v: edge[4] = mul e m\n  o")
            + "  p: node[4] = mul c o\n",
            2,
        ),
        # Attention that is used twice: computed in both programs, from rows of the first one.
        (
            HOP + SCORES + "  n: edge[4] = take o edge src\n  w: edge[4] = mul s n\n"
            "  p: node[4] = sum w node\n",
            2,
        ),
        (HOP + "  s: shared[4] = sum o shared\n  p: node[4] = add o s\n", 0),
    ],
    ids=range(6),
)
def test_stages_compute_what_the_program_does(body, count):
    text = f"program p(x: node[4] feature)\n{body}  return p\n"
    program = LabeledProgram.parse(text).program
    stages = near_programs(program)
    assert len(stages) == count
    values = {"x": torch.randn(50, 4, dtype=torch.float64)}
    (expected,) = interpret_results(program, values, GRAPH)
    for stage in stages:
        verify(stage)
        assert reads_near_nodes(stage)
        given = {param.name: values[param.name] for param in stage.params}
        results = interpret_results(stage, given, GRAPH)
        values |= dict(zip(stage.results, [rows.double() for rows in results], strict=True))
    if stages:
        torch.testing.assert_close(values["p"], expected)
