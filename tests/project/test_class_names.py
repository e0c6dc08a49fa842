"""No two public classes of the product have one name: a name leads to one place."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("variants", "costmodel", "profiling", "service", "clients")
STILL_TWICE = frozenset({"LayerRun", "Let", "Store", "Unit"})
"""Those that are to be renamed: nothing is added to them."""


def test_public_class_names_are_unique():
    names = Counter(
        node.name
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} <= STILL_TWICE
