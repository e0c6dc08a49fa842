"""Problems with times of a known law: no machine, no kernels, the same ones each time."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from hetune.costmodel.features import graph
from hetune.costmodel.fingerprint import Fingerprint
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.problems import CandidateSample, LaunchSample, Problem
from hetune.variants.frontend.presets import labeled_preset
from hetune.variants.runtime.launch_columns import COLUMNS
from hetune.variants.runtime.roofline import MachineModel, roofline_seconds

MACHINE = MachineModel()
FINGERPRINT = Fingerprint.from_dict(
    {
        "cpu": "Synthetic 3000",
        "cpu_identity": "1/2/3",
        "cpu_flags": None,
        "instructions": ["avx2"],
        "caches": {"L2": 1 << 20},
        "cores": 2,
        "cpus": 2,
        "cpu_quota": None,
        "memory_gib": 8.0,
        "memory_limit_gib": None,
        "system": "None 1",
        "compiler": "gcc 12.2",
        "compiler_flags": ["-O3"],
        "gpu": None,
        "gpu_driver": None,
        "python": "3.11.7",
        "hetune": "0.1",
        "torch": "2.9",
        "numpy": "2.0",
    }
)
KERNELS = ("product", "traversal", "fused")
NOISE = 0.1
LAUNCH_SECONDS, RUN_SECONDS = 3e-6, 1e-5


def problems(
    graph_families: int = 5, graphs: int = 2, widths: tuple[int, ...] = (32, 64), seed: int = 0
) -> list[Problem]:
    """One problem for each graph and width, with six variants of two or three launches."""
    random = np.random.default_rng(seed)
    return [
        problem(f"g{family}-{number}", f"family{family}", width, random)
        for family in range(graph_families)
        for number in range(graphs)
        for width in widths
    ]


@functools.cache
def small_model() -> CostModel:
    """A model with everything that models have, fitted once."""
    few = problems(graph_families=3)
    return CostModel.fit(few, MACHINE, FINGERPRINT, target="roofline-ratio", folds=2)


@functools.cache
def contrary_model() -> CostModel:
    """A model that takes what is slow for fast: it was fitted to the reciprocals of times."""
    wrong = [
        dataclasses.replace(each, candidates=tuple(map(_contrary, each.candidates)))
        for each in problems(graph_families=3)
    ]
    return CostModel.fit(wrong, MACHINE, FINGERPRINT, target="roofline-ratio", folds=0)


def problem(name: str, family: str, width: int, random: np.random.Generator) -> Problem:
    edges, nodes = np.exp(random.uniform(9, 14)), np.exp(random.uniform(8, 11))
    choices = {
        kind: [_columns(kind, edges, nodes, width, block, random) for block in (256, 1024, 4096)]
        for kind in KERNELS
    }
    candidates = []
    for number in range(6):
        kinds = KERNELS[: 2 + number % 2]
        launches = tuple(
            _sample(kind, choices[kind][(number + place) % 3], random)
            for place, kind in enumerate(kinds)
        )
        seconds = sum(launch.seconds + LAUNCH_SECONDS for launch in launches) + RUN_SECONDS
        candidates.append(CandidateSample(f"plan{number}/b1", seconds, 0.02 * seconds, launches))
    shape = tuple(random.uniform(1, 100, len(graph.NAMES)).tolist())
    return Problem(
        name,
        family,
        shape,
        labeled_preset("rgcn", width, width),
        2,
        FINGERPRINT.digest,
        tuple(candidates),
    )


def true_seconds(kind: str, columns: np.ndarray) -> np.ndarray:
    """The law: the roofline, off by a factor that grows with width and shrinks with block size."""
    of = dict(zip(COLUMNS, columns.T, strict=True))
    factor = (of["n"] / 32) ** 0.5 * (of["block_nodes"] / 1024) ** -0.3
    return roofline_seconds(columns, MACHINE, 2) * factor * (1 + KERNELS.index(kind))


def _contrary(candidate: CandidateSample) -> CandidateSample:
    launches = tuple(
        dataclasses.replace(launch, seconds=1e-6 / launch.seconds) for launch in candidate.launches
    )
    seconds = sum(launch.seconds for launch in launches)
    return dataclasses.replace(candidate, seconds=seconds, launches=launches)


def _columns(
    kind: str, edges: float, nodes: float, width: int, block: int, random: np.random.Generator
) -> tuple[float, ...]:
    rows = edges * random.uniform(0.2, 1)
    values = dict.fromkeys(COLUMNS, 0.0) | {
        "matrix_flops": 0.0 if kind == "traversal" else 2 * rows * width * width,
        "vector_flops": edges * width,
        "read_bytes": nodes * width * 4,
        "write_bytes": rows * width * 4,
        "index_bytes": edges * 4,
        "gathers": edges,
        "gathered_bytes": edges * width * 4,
        "table_bytes": nodes * width * 4,
        "gemm_rows": rows,
        "edge_visits": edges,
        "kernels": 1,
        "gemms": float(kind != "traversal"),
        "k": width,
        "n": width,
        "blocks": np.ceil(nodes / block),
        "block_nodes": block,
    }
    return tuple(float(values[name]) for name in COLUMNS)


def _sample(kind: str, columns: tuple[float, ...], random: np.random.Generator) -> LaunchSample:
    [seconds] = true_seconds(kind, np.array([columns]))
    return LaunchSample(kind, columns, float(seconds * np.exp(NOISE * random.standard_normal())))
