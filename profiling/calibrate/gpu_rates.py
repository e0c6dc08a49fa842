"""Measuring the numbers that the roofline model takes a GPU for.

Short runs take turns, timed by the device itself. What is not timed (elementwise operations,
exponentials) is taken to be in proportion to matrix products as it is by default, and how many
programs keep the card busy in proportion to its multiprocessors.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from hetune.profiling.calibrate import gpu_probes
from hetune.profiling.calibrate.probes import ROW_BYTES
from hetune.profiling.calibrate.timing import time_probes
from hetune.profiling.measure.stopwatch import CudaStopwatch, Stopwatch
from hetune.variants.runtime.gpu_roofline import GpuModel
from hetune.variants.runtime.replay import CudaRecorder, Recorder

ROUNDS = 20
"""How often everything is timed."""
_PROGRAMS_PER_MULTIPROCESSOR = 4
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GpuProperties:
    """What the driver says of a GPU.

    Attributes:
        cache_bytes: Size of its L2 cache; 0 if it does not say.
        multiprocessors: How many it has.
    """

    cache_bytes: int
    multiprocessors: int

    @classmethod
    def of(cls, device: torch.device) -> GpuProperties:
        """The one that torch knows as this device."""
        facts = torch.cuda.get_device_properties(device)
        return cls(int(getattr(facts, "L2_cache_size", 0)), int(facts.multi_processor_count))


@dataclass(frozen=True, slots=True)
class ProbeSizes:
    """How much is done.

    Attributes:
        side: Of the matrices that are multiplied.
        copied: Bytes that are copied.
        edges: Rows that are picked.
    """

    side: int = 8192
    copied: int = 1 << 30
    edges: int = 4_000_000


def measure_gpu(
    device: torch.device,
    *,
    card: GpuProperties | None = None,
    watch: Stopwatch | None = None,
    recorder: Recorder | None = None,
    sizes: ProbeSizes | None = None,
    rounds: int = ROUNDS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> GpuModel:
    """The roofline model's numbers for a GPU; takes a few seconds.

    Args:
        device: The GPU.
        card: What is known of it; asked of torch if None.
        watch: Times runs; by CUDA events if None.
        recorder: Records kernels to be replayed; CUDA graphs if None.
        sizes: How much is done.
        rounds: How often everything is timed.
        progress: Called with how many rounds are done, and how many there are.

    Raises:
        CompileError: The kernel that picks rows cannot be compiled.
    """
    card, sizes, watch = (
        card or GpuProperties.of(device),
        sizes or ProbeSizes(),
        watch or CudaStopwatch(),
    )
    cache = card.cache_bytes or GpuModel().cache_bytes
    with _float32():
        probes = {
            "product": gpu_probes.product(sizes.side, device),
            "copy": gpu_probes.copied(sizes.copied, device),
            "pick": gpu_probes.picked(max(cache // 2 // ROW_BYTES, 1), sizes.edges, device),
            "start": gpu_probes.started(device),
        }
        try:
            probes["replay"] = gpu_probes.replayed(device, recorder or CudaRecorder())
        except RuntimeError as error:
            _log.warning("kernels cannot be replayed as a CUDA graph here: %s", error)
        return gpu_of(time_probes(probes, rounds, progress=progress, watch=watch), card)


def gpu_of(seconds: Mapping[str, float], card: GpuProperties) -> GpuModel:
    """The roofline model's numbers, from seconds for each unit of every probe.

    Where nothing is replayed, kernels of CUDA graphs take as long as others: none is worth it.
    """
    usual = GpuModel()
    matrix, memory = 1 / seconds["product"], 1 / seconds["copy"]
    return GpuModel(
        matrix_flops=matrix,
        vector_flops=matrix * usual.vector_flops / usual.matrix_flops,
        special=matrix * usual.special / usual.matrix_flops,
        cache_bytes=card.cache_bytes or usual.cache_bytes,
        cache_rate=max(1 / seconds["pick"], memory),
        memory_rate=memory,
        launch_seconds=seconds["start"],
        node_seconds=min(seconds.get("replay", math.inf), seconds["start"]),
        programs=card.multiprocessors * _PROGRAMS_PER_MULTIPROCESSOR,
    )


@contextmanager
def _float32() -> Iterator[None]:
    """Products without tensor cores."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
