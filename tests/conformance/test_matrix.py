"""Every promoted variant at every width and number of heads, against PyG and an edge loop."""

from __future__ import annotations

import pytest

from hetune.variants.testing.conformance import check_variants
from hetune.variants.testing.layers import WIDTHS

from .cases import SHAPES, matrix_case
from .covering import chosen, each_plan

MATRIX = [(name, width, heads) for name, heads in SHAPES for width in WIDTHS]


@pytest.mark.parametrize(("name", "width", "heads"), MATRIX)
def test_interpreted(name, width, heads):
    case = matrix_case(name, width, heads)
    check_variants(case.module, case.graph, "torch", expected=case.expected, keep=each_plan)


@pytest.fixture(scope="module")
def compiled(compile_ahead) -> None:
    compile_ahead(MATRIX)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("name", "width", "heads"), MATRIX)
def test_compiled(name, width, heads):
    case = matrix_case(name, width, heads)
    keep = chosen(name, width, heads)
    check_variants(case.module, case.graph, "cpp", expected=case.expected, keep=keep)
