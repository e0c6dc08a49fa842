"""Every promoted variant at every width and number of heads, against PyG and an edge loop."""

from __future__ import annotations

import pytest

from hetune.variants.testing.conformance import check_variants
from hetune.variants.testing.layers import LAYERS, WIDTHS

from .cases import SHAPES, matrix_case
from .covering import chosen, each_plan, shapes_of

MATRIX = [(name, width, heads) for name, heads in SHAPES for width in WIDTHS]


@pytest.mark.parametrize(("name", "width", "heads"), MATRIX)
def test_interpreted(name, width, heads):
    case = matrix_case(name, width, heads)
    check_variants(case.module, case.graph, "torch", expected=case.expected, keep=each_plan)


@pytest.mark.parametrize(
    ("name", "width", "heads"), [(name, *shape) for name in LAYERS for shape in shapes_of(name)]
)
def test_compiled(name, width, heads, compile_ahead):
    compile_ahead([(name, width, heads)])
    case = matrix_case(name, width, heads)
    keep = chosen(name, width, heads)
    check_variants(case.module, case.graph, "cpp", expected=case.expected, keep=keep)
