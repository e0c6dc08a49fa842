"""How many steps the slowest program of a kernel takes, and what that adds to a prediction."""

import pytest
import torch
from tests.backends.launches import PAIRS, WALK

from hetune.variants.frontend.layers import rgat_program, rgcn_program
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.phases import phased
from hetune.variants.plan.variants import variants_of
from hetune.variants.program.nodes import Space
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.gpu_chains import Chain, Longest, chains_of
from hetune.variants.runtime.gpu_roofline import GpuModel, gpu_roofline_seconds
from hetune.variants.runtime.launch_columns import column_names
from hetune.variants.runtime.table import CandidateTable
from hetune.variants.testing.graphs import typed_graph

NAMES = column_names("cuda")
SUM, PRODUCT = WALK.format(d=64), PAIRS.format(k=96, n=64)
NODE, PAIR, EDGE = Space.NODE, Space.DST_PAIR, Space.EDGE


def star(edges: int):
    """So many edges of one type that lead to one node, and as many again that lead to others."""
    return typed_graph(
        (edges,),
        [(0, 0, edges), (0, 0, edges)],
        ends=lambda src, dst: (src, torch.where(torch.arange(len(dst)) % 2 == 0, 0, dst)),
    )


@pytest.mark.parametrize(
    ("text", "schedule", "expected"),
    [
        # Parts of 64 edges, four of which a program takes at once; and partial rows.
        (
            SUM,
            GpuSchedule(),
            [
                Chain(EDGE, NODE, "", 4, 2048, most=64),
                Chain(EDGE, NODE, "", 4, 2048, least=65, most=64),
            ],
        ),
        (
            PRODUCT,
            GpuSchedule(tile_rows=128, edges=8),
            [Chain(EDGE, PAIR, "", 8, 64 * 8 * 64, most=64, passes=2)],
        ),
    ],
    ids=["walk", "product"],
)
def test_the_chains_of_a_kernel(text, schedule, expected):
    launch = phased(parse(text))
    assert list(chains_of(launch.kernels, launch, schedule)) == expected


def test_steps_follow_from_the_longest_row():
    graph = star(6000)
    domain = Domain(graph)
    longest = Longest.of(domain)
    degree = int(torch.bincount(graph.dst.long()).max())
    assert longest == Longest(degree, min(degree, 6000))
    assert Chain(EDGE, NODE, "", 4, 1, most=512).steps(longest, domain) == 128
    assert Chain(EDGE, NODE, "", 64, 1, least=512).steps(longest, domain) == -(-degree // 64)
    assert Chain(EDGE, NODE, "", 64, 1, least=degree + 1).steps(longest, domain) == 0
    assert Chain(PAIR, NODE, "", 1, 1).steps(longest, domain) == 2
    assert Chain(EDGE, PAIR, "", 1, 1, most=1024, passes=2).steps(longest, domain) == 2048


def test_an_empty_graph_has_no_steps():
    graph = typed_graph((4, 3), [(0, 1, 0)])
    domain = Domain(graph)
    longest = Longest.of(domain)
    assert Chain(EDGE, NODE, "s", 4, 1).steps(longest, domain) == 0


@pytest.mark.parametrize("program", [rgcn_program(32, 32), rgat_program(16, 16)], ids=str)
def test_hubs_hardly_matter(program):
    """On graphs with as many edges."""
    variants = variants_of(program, "cuda")
    table, gpu = CandidateTable.of(variants), GpuModel()

    def seconds(graph) -> dict[str, float]:
        columns = table.columns(Domain(graph))  # the caller holds the graph
        found = table.totals(gpu_roofline_seconds(columns, gpu))
        return {v.id: float(s) for v, s in zip(variants, found, strict=True)}

    even = seconds(typed_graph((40_000,), [(0, 0, 40_000), (0, 0, 40_000)]))
    hub = seconds(star(40_000))
    assert min(hub.values()) < 2 * min(even.values())
