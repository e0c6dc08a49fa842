"""A variant's id is printed from its choices, and no product code takes one apart."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from .test_import_order import modules

PRINTED_IN = {"hetune.variants.passes.choices", "hetune.variants.plan.choices"}
PARTS = {
    *("vanilla", "hybrid", "weights-first", "folded", "edge-scores"),
    *("separate-sums", "separate-products", "+separate-sums", "+separate-products"),
}
"""Parts of ids that mean nothing else."""
TAKES_APART = {
    *("partition", "rpartition", "split", "rsplit", "startswith", "endswith"),
    *("removeprefix", "removesuffix", "replace", "find", "rfind", "count"),
}
ID = re.compile(
    r"(\b|_)(variant|plan)(_id)?$|(\b|_)(variant|candidate|chosen|v|each)\.(id|plan_id|variant|plan)$"
)
"""Ends of expressions that are ids of variants, or their plans' part."""


def taken_apart(tree: ast.AST) -> Iterator[str]:
    """What reads a part of an id."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=read, attr=name)) if name in TAKES_APART:
                if ID.search(ast.unparse(read)):
                    yield ast.unparse(node)
            case ast.Compare(left=ast.Constant(value=str()), ops=[ast.In() | ast.NotIn()]):
                if ID.search(ast.unparse(node.comparators[0])):
                    yield ast.unparse(node)
            case ast.Subscript(value=read, slice=ast.Slice()) if ID.search(ast.unparse(read)):
                yield ast.unparse(node)
            case ast.Constant(value=str(text)) if text in PARTS:
                yield repr(text)


@pytest.mark.parametrize(
    "text",
    [
        "'hybrid' in variant",
        "'b256' not in self.variant",
        "variant.rpartition('/')[0]",
        "v.id.startswith(plan)",
        "unit.variant.split('/')",
        "candidate.plan.removesuffix(end)",
        "plan_id[:6]",
        "x == 'separate-sums'",
    ],
)
def test_what_takes_ids_apart_is_found(text):
    assert list(taken_apart(ast.parse(text)))


@pytest.mark.parametrize("text", ["variant.id == other", "ids[variant]", "path.split('/')"])
def test_other_uses_are_not(text):
    assert not list(taken_apart(ast.parse(text)))


def test_no_product_code_takes_ids_apart():
    found = {
        module: list(taken_apart(ast.parse(path.read_text())))
        for module, path in modules().items()
        if module not in PRINTED_IN
    }
    assert {module: read for module, read in found.items() if read} == {}
