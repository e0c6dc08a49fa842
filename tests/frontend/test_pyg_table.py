"""The table of PyG's convolutions that do not compile, against those that tests compile."""

from __future__ import annotations

import re
from pathlib import Path

from tests.frontend.message_passing_cases import CASES, pyg

PAGE = Path(__file__).parents[2] / "docs" / "library.md"
BY_HAND = {"RGCNConv", "FastRGCNConv", "RGATConv", "HGTConv"}
SETS = {"SignedConv", "HANConv", "HeteroConv"}
"""Of `test_roll_up` and `test_dictionaries`."""


def test_the_table_names_what_does_not_compile():
    all_of_them = {name for name in pyg.conv.__all__ if not name.startswith("CuGraph")}
    compiled = {*CASES, *BY_HAND, *SETS}
    table = PAGE.read_text().partition("| convolution | why not |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert (
        set(re.findall(r"`(\w+)`", " ".join(rows))) == all_of_them - {"MessagePassing"} - compiled
    )
