"""The float64 answer that a candidate's output must equal before its time counts."""

from collections.abc import Callable
from dataclasses import replace

import torch
from _peers import _torch_hgt, pyg, torch_expert
from _peers.problem import Problem
from torch import Tensor

TOLERANCE = 1e-4
_MAX_BYTES = 6 << 30
_MAX_FLOP = 1e12


def reference(problem: Problem, model: str = "full") -> tuple[Tensor, str]:
    """Output [N, width] in float64, and who computed it.

    PyG's own layer where it fits, else the expert's compaction (the tests hold it to PyG), which
    also stands in for the lighter model that DGL computes.
    """
    double = replace(problem, dtype=torch.float64)
    run: Callable[[], object]
    if model != "full":
        run, author = _torch_hgt.pairs(double, side="source", light=True), "expert, " + model
    elif _pyg_fits(double):
        run, author = pyg.candidates(problem.layer)[0].build(double), "PyG"
    else:
        run, author = torch_expert.candidates(problem.layer)[0].build(double), "expert"
    with torch.inference_mode():
        return double.flatten(run()).clone(), author


def relative_error(got: Tensor, want: Tensor, rows: Tensor) -> float:
    """Largest difference over the largest value, on the rows that are defined; NaN counts."""
    if not bool(rows.any()):
        return 0.0
    difference = (got.double() - want)[rows].abs().max()
    return float(difference / want[rows].abs().max().clamp_min(1e-300))


def _pyg_fits(problem: Problem) -> bool:
    graph, d = problem.graph, problem.width
    match problem.layer:
        case "rgcn":  # a product over all nodes for each relation
            return 2 * graph.num_etypes * graph.num_nodes * d * d < _MAX_FLOP
        case "rgat":  # a weight per edge
            return graph.num_edges * d * d * 8 < _MAX_BYTES
        case "hgt":  # keys and values of all source nodes for each relation, several copies
            counts = torch.tensor(graph.node_offsets).diff()
            rows = int(counts[graph.etype_src_ntype.long().cpu()].sum())
            return (rows + graph.num_edges) * d * 8 * 6 < _MAX_BYTES
