"""The numbers that tell what a launch does: their names, and what of them the launch decides."""

from __future__ import annotations

from hetune.variants.kernel.blocks import is_node_blocked
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.kernel.nodes import ForEach, Gemm, Launch, Outer, Rows, SegmentSum, Traversal
from hetune.variants.kernel.passes.terms import Term
from hetune.variants.kernel.passes.work import limit_of
from hetune.variants.kernel.walk import statements
from hetune.variants.program.nodes import Space
from hetune.variants.runtime.gpu_columns import GPU_COLUMNS

_WORK = (
    "matrix_flops",
    "vector_flops",
    "special",
    "read_bytes",
    "write_bytes",
    "index_bytes",
    "gathers",
    "touched_bytes",
    "scratch_bytes",
)
COLUMNS = (
    *_WORK,
    "gathered_bytes",
    "table_bytes",
    "pair_gathers",
    "gemm_rows",
    "edge_visits",
    "scatter_bytes",
    "kernels",
    "gemms",
    "segment_sums",
    "k",
    "n",
    "weight_groups",
    "weight_loads",
    "weight_bytes",
    "blocks",
    "block_nodes",
    "unblocked",
    "edge_balanced",
)
"""Names of a row's numbers. None of them depends on the machine.

The first nine and `gathered_bytes` are those of `Work`. The others:

- `table_bytes`: distinct bytes that reads at sources pick from, their mean weighted by the bytes
  gathered; `pair_gathers`: the gathers that read rows of source pairs, not of nodes;
- `gemm_rows`: rows of all products, sums of outer products among them; `k`, `n`: operand and result
  width of a head, their means weighted by operations;
- `edge_visits`: iterations of loops over edges, segment sums included;
- `scatter_bytes`: bytes that products add up at destinations;
- `kernels`, `gemms`, `segment_sums`: how many there are in the launch;
- `weight_groups`: runs of rows with one edge type, in all blocks; `weight_loads`: bytes of weights
  loaded for them; `weight_bytes`: bytes of the weights that are used at all; of sums of outer
  products on a CPU: chunks of rows of one type, bytes of their sums, and of the types' sums;
- `blocks`, `block_nodes`: blocks of destination nodes, hubs aside, and the nodes in one, on
  average; `unblocked`: 1 where the launch walks pairs or edges alone, in no blocks of nodes, or
  runs on a GPU, where all nodes are one block;
- `edge_balanced`: always 0; the packaged models for CPUs were trained with it.
"""

_ELEMENT = 4


def column_names(device: Device) -> tuple[str, ...]:
    """The names of what `CandidateTable.columns` gives for variants of a device."""
    return COLUMNS if device == "cpu" else (*COLUMNS, *GPU_COLUMNS)


def structure_of(launch: Launch, schedule: AnySchedule) -> list[tuple[str, float]]:
    """The numbers that are the same on all graphs, by column."""
    gemms = [kernel for kernel in launch.kernels if isinstance(kernel, Gemm | Outer)]
    weight = [kernel.heads * kernel.k * kernel.n for kernel in gemms]
    if isinstance(schedule, GpuSchedule):
        block_nodes, unblocked = 0, True
    else:
        block_nodes, unblocked = schedule.block_nodes, not is_node_blocked(launch)
    return [
        ("kernels", len(launch.kernels)),
        ("gemms", len(gemms)),
        ("segment_sums", sum(_sums_segments(kernel) for kernel in gemms)),
        ("k", _mean([kernel.k for kernel in gemms], weight)),
        ("n", _mean([kernel.n for kernel in gemms], weight)),
        ("block_nodes", block_nodes),
        ("unblocked", unblocked),
    ]


def _mean(values: list[int], weights: list[int]) -> float:
    total = sum(weights)
    return sum(v * w for v, w in zip(values, weights, strict=True)) / total if total else 0.0


def extra_terms(launch: Launch) -> list[tuple[str, Term]]:
    """What loops and products add to columns beside `Formula`."""
    found: list[tuple[str, Term]] = []
    for kernel in launch.kernels:
        match kernel:
            case Gemm():
                found.append(("gemm_rows", Term(1, (kernel.rows,), limit_of(kernel))))
                if _sums_segments(kernel):
                    found.append(("edge_visits", Term(1, (Rows(Space.EDGE, kernel.rows.group),))))
                if kernel.scatter:
                    width = kernel.heads * kernel.n * _ELEMENT
                    found.append(("scatter_bytes", Term(width, (kernel.rows,))))
            case Outer():
                found.append(("gemm_rows", Term(1, (kernel.rows,))))
                if _sums_segments(kernel):
                    found.append(("edge_visits", Term(1, (Rows(Space.EDGE, kernel.rows.group),))))
            case Traversal():
                visited = (rows for rows in _nested(kernel) if rows.space is Space.EDGE)
                found += [("edge_visits", Term(1, (rows,))) for rows in visited]
    return found


def loops_of(launch: Launch) -> list[Rows]:
    """The domains of all loops."""
    found: list[Rows] = []
    for kernel in launch.kernels:
        if isinstance(kernel, Traversal):
            found += _nested(kernel)
        else:
            found.append(kernel.rows)
            if _sums_segments(kernel):
                found.append(Rows(Space.EDGE, kernel.rows.group))
    return found


def _sums_segments(kernel: Gemm | Outer) -> bool:
    factors = (kernel.factor,) if isinstance(kernel, Gemm) else kernel.factors
    return any(isinstance(factor.x, SegmentSum) for factor in factors)


def _nested(kernel: Traversal) -> list[Rows]:
    inner = (s.rows for s in statements(kernel.body) if isinstance(s, ForEach))
    return [kernel.rows, *inner]
