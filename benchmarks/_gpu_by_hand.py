"""The kernels of `_gpu_walks.cu`: compiled, loaded and bound to a graph's parts."""

import ctypes
import functools
import io
import json
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from _gpu_timing import Run
from torch import Tensor

from hetune.variants.backends.triton.arguments import Level
from hetune.variants.backends.triton.driver import LoadedKernel, cuda_driver
from hetune.variants.backends.triton.emit import emit
from hetune.variants.backends.triton.parts import RowParts, carried, parts_of
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Launch
from hetune.variants.runtime.domain import Domain

KINDS = ("sum", "softmax")
_SOURCE = Path(__file__).with_name("_gpu_walks.cu")
_WALKS = (
    *(
        f"{kind}_{lanes}_{edges}{stays}"
        for kind in KINDS
        for lanes in (32, 16)
        for edges in (2, 4)
        for stays in ("", "_stays")
    ),
    "sum_bulk",
)
_STAY = ("_stays", "_bulk")
"""Ends of names of kernels of which each multiprocessor has as many blocks as fit."""
_PARTIAL, _WARP, _WARPS = 72, 32, 4


class _Arrays(ctypes.Structure):
    """What the kernels of `_gpu_walks.cu` are given."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("row", "slot", "begin", "end", "src", "weight")),
        *((name, ctypes.c_void_p) for name in ("query", "key", "table", "partial", "out")),
        *((name, ctypes.c_int) for name in ("first", "count")),
    )


def by_hand(
    kind: str, launch: Launch, domain: Domain, values: Mapping[str, Tensor]
) -> dict[str, Run]:
    """The kernels of `_gpu_walks.cu` over the parts that hetune's default schedule has."""
    kernels, level = _kernels(), emit(launch, GpuSchedule()).kernels[0].grid.rows
    assert isinstance(level, Level)
    parts, src = parts_of(level.table.cut, domain.index), domain.index("").src
    slots = carried(level.table.cut, domain.index)
    partial = torch.empty(max(slots, 1), _PARTIAL, device=src.device)
    runs = {}
    arrays = _arrays(parts, src, partial, values)
    for name in (name for name in _WALKS if name.startswith(kind)):
        starts = list(_starts(kernels, kind, name, arrays, parts))
        runs[f"cuda {name}"] = functools.partial(_run, starts, (parts, src, partial))
    return runs


def _arrays(
    parts: RowParts, src: Tensor, partial: Tensor, values: Mapping[str, Tensor]
) -> dict[str, int]:
    arrays = {
        "row": parts.row,
        "slot": parts.slot,
        "begin": parts.begin[0],
        "end": parts.end[0],
        "src": src,
        "partial": partial,
        "out": values["y"],
    }
    names = {"a": "weight", "q": "query", "k": "key", "v": "table", "x": "table"}
    arrays |= {names[name]: tensor for name, tensor in values.items() if name in names}
    return {name: tensor.data_ptr() for name, tensor in arrays.items()}


def _starts(
    kernels: Mapping[str, LoadedKernel],
    kind: str,
    name: str,
    arrays: Mapping[str, int],
    parts: RowParts,
) -> Iterator[tuple[LoadedKernel, int, _Arrays]]:
    """Kernel, grid and arrays of each level of parts."""
    first = 0
    for level, count in enumerate(parts.levels):
        kernel = kernels[f"{kind}_merge" if level else name]
        lanes = 16 if not level and f"{kind}_16" in name else _WARP
        blocks = -(-count * lanes // kernel.threads)
        if not level and name.endswith(_STAY):
            blocks = min(blocks, _resident(kernel))
        if count:
            yield kernel, blocks, _Arrays(**arrays, first=first, count=count)
        first += count


def _run(starts: list[tuple[LoadedKernel, int, _Arrays]], kept: tuple[Any, ...]) -> None:
    """Starts kernels in order; what they read is kept as long as this may be called."""
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    for kernel, blocks, arrays in starts:
        given = (ctypes.c_void_p * 1)(ctypes.addressof(arrays))
        function, size = ctypes.c_void_p(kernel.function), kernel.threads
        status = kernel.driver.library.cuLaunchKernel(
            function, blocks, 1, 1, size, 1, 1, 0, stream, given, None
        )
        if status:
            raise kernel.driver.error("cuLaunchKernel", status)


def _resident(kernel: LoadedKernel) -> int:
    """Blocks that are on the card at once."""
    count = ctypes.c_int()
    function, none = ctypes.c_void_p(kernel.function), ctypes.c_size_t(0)
    status = kernel.driver.library.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(count), function, kernel.threads, none
    )
    if status:
        raise kernel.driver.error("cuOccupancyMaxActiveBlocksPerMultiprocessor", status)
    return count.value * torch.cuda.get_device_properties(0).multi_processor_count


@functools.cache
def _kernels() -> Mapping[str, LoadedKernel]:
    """Compiled by nvcc, and loaded as hetune loads its own."""
    names = (*_WALKS, *(f"{kind}_merge" for kind in KINDS))
    cubin = compiled("sm_{}{}".format(*torch.cuda.get_device_capability(0)))
    how = {"num_warps": _WARPS, "shared": 0, "global_scratch": 0, "profile_scratch": 0}
    binary = io.BytesIO()
    with zipfile.ZipFile(binary, "w") as archive:
        for name in names:
            archive.writestr(f"{name}.cubin", cubin)
        archive.writestr("launch.json", json.dumps({n: {**how, "symbol": n} for n in names}))
    torch.cuda.current_stream().synchronize()  # there is a context from here on
    return cuda_driver().load(binary.getvalue())


def compiled(target: str) -> bytes:
    """The cubin of `_gpu_walks.cu`.

    Args:
        target: Such as ``"sm_90"``.
    """
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "walks.cubin")
        command = [nvcc, "-cubin", f"-arch={target}", "-O3", "-std=c++17", str(_SOURCE)]
        done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"nvcc does not compile {_SOURCE.name}: {done.stderr[-1000:]}")
        return made.read_bytes()
