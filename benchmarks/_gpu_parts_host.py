"""What the host takes to start ten kernels that do nothing, by five ways."""

import ctypes
import io
import json
import statistics
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _gpu_parts_candidates import NOTHING
from _gpu_parts_runs import Kernels

from hetune.variants.backends.triton.driver import Start

KERNELS = 10
_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED."""
_TURNS = 300
LOOP = r"""
#include <cstdint>
using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       void*, void**, void**);
// Starts a kernel so many times: what a plan's native launcher would do for its kernels.
extern "C" int start(Launch launch, void* function, void* stream, uint64_t address, int count) {
    for (int i = 0; i < count; ++i) {
        uint64_t values[3] = {address, 0, 0};
        void* parameters[3] = {values, values + 1, values + 2};
        if (int status = launch(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr))
            return status;
    }
    return 0;
}
"""


def measured(kernels: Kernels) -> dict[str, Any]:
    """A unit's record: microseconds of the host, and from an idle card until all is done."""
    from _gpu_parts_products import nothing

    out = torch.zeros(64, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    start = kernels.start(NOTHING)

    def driver() -> None:
        for _ in range(KERNELS):
            start((1, 1, 1), [out.data_ptr()], stream)

    def triton() -> None:
        for _ in range(KERNELS):
            nothing[(1,)](out, num_warps=1)

    ways: dict[str, Callable[[], Any]] = {"hetune's driver": driver, "triton's launcher": triton}
    found: dict[str, Any] = {}
    for name, make in (
        ("native loop", lambda: _native(kernels, out)),
        ("torch's graph", lambda: _recorded(start, out)),
        ("cuGraphLaunch", lambda: _graph_launched(start, out)),
    ):
        try:
            ways[name] = make()
        except Exception as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"[:500]}
    for name, run in ways.items():
        for _ in range(20):
            run()
        found[name] = _timed(run)
    return {"kernels": KERNELS, "ways": found}


def _timed(run: Callable[[], Any]) -> dict[str, float]:
    """Medians over turns that each begin with an idle card."""
    host, done, device = [], [], []
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for turn in range(_TURNS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        host.append(time.perf_counter() - start)
        torch.cuda.synchronize()
        done.append(time.perf_counter() - start)
        if turn % 3 == 0:  # what the card alone takes, once it has all of them
            torch.cuda._sleep(600_000)
            begin.record()
            run()
            end.record()
            end.synchronize()
            device.append(begin.elapsed_time(end) * 1e-3)
    names = {"host_us": host, "done_us": done, "device_us": device}
    return {name: round(statistics.median(values) * 1e6, 2) for name, values in names.items()}


def _native(kernels: Kernels, out: torch.Tensor) -> Callable[[], None]:
    """One call of C++ that starts all kernels."""
    folder = tempfile.TemporaryDirectory()
    source, made = Path(folder.name, "loop.cpp"), Path(folder.name, "loop.so")
    source.write_text(LOOP)
    command = ["g++", "-O2", "-shared", "-fPIC", "-o", str(made), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    library, cuda = ctypes.CDLL(str(made)), ctypes.CDLL("libcuda.so.1")
    function, module = _function(kernels, cuda)
    launch = ctypes.cast(cuda.cuLaunchKernel, ctypes.c_void_p)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    address, start = ctypes.c_uint64(out.data_ptr()), library.start

    def run(kept: Any = (folder, module, out)) -> None:
        if status := start(launch, function, stream, address, KERNELS):
            raise RuntimeError(f"cuLaunchKernel: {status}")

    return run


def _function(kernels: Kernels, cuda: Any) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
    """The kernel's handle, and its module's."""
    with zipfile.ZipFile(io.BytesIO(kernels.binary(NOTHING))) as archive:
        cubin = archive.read(f"{NOTHING.name}.cubin")
        symbol = json.loads(archive.read("launch.json"))[NOTHING.name]["symbol"]
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    image = ctypes.create_string_buffer(cubin, len(cubin))
    _call(cuda, "cuModuleLoadData", ctypes.byref(module), image)
    _call(cuda, "cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
    return function, module


def _recorded(start: Start, out: torch.Tensor) -> Callable[[], None]:
    """The kernels as torch's CUDA graph."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream().cuda_stream
        for _ in range(KERNELS):
            start((1, 1, 1), [out.data_ptr()], stream)
    return lambda kept=out: graph.replay()


def _graph_launched(start: Start, out: torch.Tensor) -> Callable[[], None]:
    """The same by one call of the driver, without torch."""
    cuda, graph, instance = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    handle = ctypes.c_void_p(side.cuda_stream)
    _call(cuda, "cuStreamBeginCapture_v2", handle, _RELAXED)
    for _ in range(KERNELS):
        start((1, 1, 1), [out.data_ptr()], side.cuda_stream)
    _call(cuda, "cuStreamEndCapture", handle, ctypes.byref(graph))
    _call(cuda, "cuGraphInstantiateWithFlags", ctypes.byref(instance), graph, ctypes.c_uint64(0))
    stream, launch = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), cuda.cuGraphLaunch

    def run(kept: Any = (out, side)) -> None:
        if status := launch(instance, stream):
            raise RuntimeError(f"cuGraphLaunch: {status}")

    return run


def _call(cuda: Any, name: str, *arguments: Any) -> None:
    if status := getattr(cuda, name)(*arguments):
        raise RuntimeError(f"{name}: {status}")
