"""Rewrites for other backends are refused, not compiled to something else."""

import pytest

from hetune.variants.backends.cpp.emit import emit
from hetune.variants.errors import KernelError
from hetune.variants.kernel.as_run import as_run
from hetune.variants.kernel.fuse_rows import fuse_rows
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse

HEAD = "launch\n  buffer x: node[4]\n  buffer w: shared[4,4]\n  buffer y: node[4]\n"
ALONE = "  gemm y[node] = x @ w heads=1 k=4 n=4\n"
TAIL = "    store y = p\n"


@pytest.mark.parametrize(
    "product",
    [ALONE.replace("= x", "= relu(x)"), ALONE.replace("y[", "p[") + TAIL],
    ids=["operand", "tail"],
)
def test_functions_of_a_products_rows(product):
    with pytest.raises(KernelError, match=r"elementwise functions of its rows: the C\+\+ backend"):
        emit(parse(HEAD + product), Schedule())


def test_a_cpu_s_schedule_leaves_launches_as_they_are():
    walk = "  traverse node\n    v: [4] = read t\n    r: [4] = relu(v)\n    store y = r\n"
    scratch = "  buffer t: node[4] in scratch t\n"
    launch = parse(HEAD + scratch + ALONE.replace("y[", "t[") + walk)
    assert as_run(launch, Schedule()) is launch
    assert fuse_rows(launch) != launch
