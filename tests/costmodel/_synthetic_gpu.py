"""Problems for GPUs with times of a known law: real graphs and variants, a made-up card."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from hetune.costmodel.features.graph import graph_features
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.problems import CandidateSample, LaunchSample, Problem
from hetune.variants.frontend.presets import labeled_preset, preset_program
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.gpu_roofline import GpuModel, gpu_roofline_seconds
from hetune.variants.runtime.launch_columns import column_names
from hetune.variants.runtime.table import CandidateTable

from . import _synthetic

GPU = GpuModel(
    matrix_flops=2e11,
    vector_flops=1e11,
    special=1e10,
    cache_bytes=1 << 17,
    cache_rate=4e10,
    memory_rate=1e10,
    launch_seconds=1e-7,
    programs=16,
)
"""So slow, but for starting kernels, that small graphs keep it busy."""
FINGERPRINT = dataclasses.replace(_synthetic.FINGERPRINT, gpu="Synthetic GPU")
FAMILIES = ("few", "many", "hubs", "sparse")
NOISE = 0.03
RUN_SECONDS = 1e-6


def graph(family: str, number: int) -> HeteroGraph:
    """A graph of some thousand edges; equal arguments, equal graphs."""
    random = np.random.default_rng([FAMILIES.index(family), number])
    nodes = int(random.integers(200, 2000))
    edges = nodes * (2 if family == "sparse" else int(random.integers(5, 15)))
    etypes = {"few": 2, "many": 150}.get(family, 20)
    dst = random.integers(0, nodes, edges)
    if family == "hubs":
        dst[: edges // 4] = random.integers(0, 3, edges // 4)
    return HeteroGraph(
        random.integers(0, nodes, edges),
        dst,
        random.integers(0, etypes, edges),
        num_nodes=nodes,
        num_etypes=etypes,
    )


def table_of(layer: str, width: int) -> CandidateTable:
    return CandidateTable.of(variants_of(preset_program(layer, width, width), "cuda"))


def true_seconds(columns: np.ndarray) -> np.ndarray:
    """The law: the roofline, times what tiles leave empty and what wide walks wait for."""
    of = dict(zip(column_names("cuda"), columns.T, strict=True))
    empty = of["tiles"] * of["tile_rows"] / np.maximum(of["gemm_rows"], 1)
    edges = of["edge_visits"] / np.maximum(of["walks"], 1)
    waiting = np.where(of["walks"] > 0, of["walk_elements"] / (64 * np.maximum(edges, 1)), 0)
    return gpu_roofline_seconds(columns, GPU) * (1 + 0.1 * empty) * (1 + 2 * waiting)


@functools.cache
def problems(
    graphs: int = 3, widths: tuple[int, ...] = (16, 64), layer: str = "rgcn"
) -> tuple[Problem, ...]:
    """One problem for each graph and width, with every variant."""
    random = np.random.default_rng(0)
    return tuple(
        problem(family, number, width, layer, random)
        for family in FAMILIES
        for number in range(graphs)
        for width in widths
    )


@functools.cache
def small_model() -> CostModel:
    """A model with everything that models have, fitted once."""
    return CostModel.fit(problems(), GPU, FINGERPRINT, target="roofline-ratio", folds=2)


def problem(
    family: str, number: int, width: int, layer: str, random: np.random.Generator
) -> Problem:
    here, table = graph(family, number), table_of(layer, width)
    columns = table.columns(Domain(here))
    seconds = true_seconds(columns) * np.exp(NOISE * random.standard_normal(len(columns)))
    samples = [
        LaunchSample(kind, tuple(row), float(time))
        for kind, row, time in zip(table.families, columns.tolist(), seconds, strict=True)
    ]
    candidates = []
    for variant, rows in zip(table.variants, table.rows_of, strict=True):
        launches = tuple(samples[row] for row in rows)
        total = sum(launch.seconds for launch in launches) + RUN_SECONDS
        candidates.append(CandidateSample(variant.id, total, 0.02 * total, launches))
    return Problem(
        f"{family}{number}",
        family,
        tuple(graph_features(here).tolist()),
        labeled_preset(layer, width, width),
        1,
        FINGERPRINT.digest,
        tuple(candidates),
        "cuda",
    )
