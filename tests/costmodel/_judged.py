"""Problems whose times are written down, for tests of how choices are judged."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from hetune.costmodel.features.graph import NAMES
from hetune.costmodel.problems import CandidateSample, LaunchSample, Problem
from hetune.variants.frontend.layers import rgcn_program
from hetune.variants.frontend.presets import LAYERS, labeled_preset
from hetune.variants.program.labeled import LabeledProgram
from hetune.variants.runtime.launch_columns import COLUMNS


def problem(
    times: Mapping[str, float],
    *,
    graph: str = "g",
    fingerprint: str = "",
    family: str | None = None,
    layer: str = "rgcn",
    d_in: int = 64,
    d_out: int = 64,
    iqr: float = 0.0,
    nodes: float = 100.0,
    work: Mapping[str, float] | None = None,
    etypes: int = 4,
    largest: int = 50,
    share: float = 0.5,
    table: float = 0.0,
) -> Problem:
    """A problem from its variants' seconds; each runs one launch.

    Args:
        times: Seconds by variant.
        graph: Name of the graph.
        fingerprint: Digest of its content.
        family: Its family; of its own by default.
        layer: Label of the program.
        d_in: Width in.
        d_out: Width out.
        iqr: Interquartile range of every time, as a share of it; its error is half of that.
        nodes: What the graph's features follow.
        work: FLOPs of the matrix products by variant; all alike by default.
        etypes: Relations of the graph.
        largest: Edges of its largest relation.
        share: Of its edges, those that hybrid plans transform on the source side.
        table: Bytes of the rows that its launches read at sources.
    """
    known = {
        "num_nodes": nodes,
        "num_etypes": etypes,
        "relation_edges_max": largest,
        "src_side_edge_share": share,
    }
    return Problem(
        graph=graph,
        family=family or f"{graph}-like",
        graph_features=tuple(float(known.get(name, 1.0)) for name in NAMES),
        program=program(layer, d_in, d_out),
        threads=2,
        machine="m",
        candidates=tuple(
            CandidateSample(
                name,
                t,
                t * iqr,
                (launch(t, (work or {}).get(name, 1e9), table=table),),
                error=t * iqr / 2,
            )
            for name, t in times.items()
        ),
        graph_fingerprint=fingerprint,
    )


@functools.cache
def program(label: str, d_in: int = 64, d_out: int = 64) -> LabeledProgram:
    """That of the layer of this name, or some other one."""
    if label in LAYERS:
        return labeled_preset(label, d_in, d_out)
    return LabeledProgram.of(rgcn_program(d_in, d_out, "add", root=False, bias=False), label)


def launch(seconds: float, flops: float, family: str = "fused", table: float = 0.0) -> LaunchSample:
    """A launch of so many FLOPs in matrix products, in one block."""
    columns = {"matrix_flops": flops, "blocks": 1.0, "kernels": 1.0, "table_bytes": table}
    return LaunchSample(family, tuple(columns.get(name, 0.0) for name in COLUMNS), seconds)
