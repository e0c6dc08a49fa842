"""Programs whose results for some nodes follow from the edges into them."""

import pytest

from hetune.variants.program.labeled import LabeledProgram
from hetune.variants.program.locality import reads_near_nodes

MESSAGES = "  m: edge[4] = take x edge src\n"
SUM = "  o: node[4] = sum m node\n"


@pytest.mark.parametrize(
    ("body", "is_near"),
    [
        (MESSAGES + SUM, True),
        (MESSAGES + SUM + "  n: edge[4] = take o edge dst\n  p: node[4] = sum n node\n", True),
        (MESSAGES + SUM + "  n: edge[4] = take o edge src\n  p: node[4] = sum n node\n", False),
        (MESSAGES + "  o: node[4] = sum m node src\n", False),
        ("  s: ntype[4] = sum x ntype\n  o: node[4] = take s node\n", False),
        ("  s: shared[4] = sum x shared\n  o: node[4] = take s node\n", False),
        (
            MESSAGES + "  s: etype[4] = sum m etype\n  n: edge[4] = take s edge\n"
            "  o: node[4] = sum n node\n",
            False,
        ),
    ],
    ids=range(7),
)
def test_what_lies_near(body, is_near):
    result = "p" if "  p:" in body else "o"
    text = f"program p(x: node[4] feature)\n{body}  return {result}\n"
    assert reads_near_nodes(LabeledProgram.parse(text).program) == is_near
