"""Kernels of one launch or of a whole plan, started by one native call (`start.cpp`)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from hetune.variants.backends.triton.bound_kernels import BoundKernel
from hetune.variants.backends.triton.driver import DriverError, LoadedKernel
from hetune.variants.registry import load_packaged

ALIGNMENT = 16
"""Bytes at which pointers of kernels that were compiled ahead must lie."""
_ELEMENT = 4
"""Bytes of a float32."""
_SCRATCH_POINTERS = 2
"""Parameters that every kernel ends with: pointers to memory of the driver's, of which is none."""
_APART = 512
"""Bytes at a multiple of which the memory of a launch begins."""
_NO_OFFSETS: Mapping[str, int] = MappingProxyType({})
_NO_VIEWS: Mapping[str, str] = MappingProxyType({})


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("threads", ctypes.c_uint32),
        ("shared", ctypes.c_uint32),
        ("parameters", ctypes.c_uint32),
    )


class _Patch(ctypes.Structure):
    _fields_ = (
        ("parameter", ctypes.c_int64),
        ("address", ctypes.c_int64),
        ("offset", ctypes.c_uint64),
    )


class _Calls(ctypes.Structure):
    _fields_ = (
        ("get_context", ctypes.c_void_p),
        ("set_context", ctypes.c_void_p),
        ("launch", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("kernels", ctypes.c_void_p),
        ("num_kernels", ctypes.c_int64),
        ("parameters", ctypes.c_void_p),
        ("num_parameters", ctypes.c_int64),
        ("patches", ctypes.c_void_p),
        ("num_patches", ctypes.c_int64),
        ("num_addresses", ctypes.c_int64),
    )


class NativeLaunch(NamedTuple):
    """A launch's part of a native call.

    Attributes:
        kernels: What it starts.
        own: Where buffers begin in its own memory: bytes, by name.
        nbytes: Size of that memory.
    """

    kernels: Sequence[BoundKernel]
    own: Mapping[str, int]
    nbytes: int


class NativeStart:
    """Starts kernels in order on the current stream. Threads may call it at the same time.

    What they need for a moment comes from torch's allocator, with every call.

    Args:
        kernels: All of them loaded, in one context; each with where, in the memory of a call, the
            buffers begin that have a place there: bytes, by name.
        nbytes: Size of that memory.
        device: Where it is.
        views: Buffers by further names that kernels have for them.
    """

    def __init__(
        self,
        kernels: Sequence[tuple[BoundKernel, LoadedKernel, Mapping[str, int]]],
        nbytes: int,
        device: torch.device,
        views: Mapping[str, str],
    ) -> None:
        parameters, patches, names = list[int](), list[_Patch](), dict[str, int]()
        started = list[_Kernel]()
        for kernel, loaded, offsets in kernels:
            begin = len(parameters)
            for of in kernel.pointers:
                if isinstance(of, str):  # the address of the memory is the first one
                    name = of if of in offsets else views.get(of, of)
                    place = 0 if name in offsets else names.setdefault(name, len(names) + 1)
                    patches.append(_Patch(len(parameters), place, offsets.get(name, 0)))
                parameters.append(0 if isinstance(of, str) else of.data_ptr())
            parameters += kernel.counts + (0,) * _SCRATCH_POINTERS
            grid = (ctypes.c_uint32 * 3)(*kernel.grid)
            count = len(parameters) - begin
            started.append(_Kernel(loaded.function, grid, loaded.threads, loaded.shared, count))
        self._kernels, self._loaded = [kernel for kernel, _, _ in kernels], kernels[0][1]
        self._names, self._device, self._elements = tuple(names), device, nbytes // _ELEMENT
        self._addresses = ctypes.c_uint64 * (1 + len(names))
        driver = self._loaded.driver
        arrays = (
            (_Kernel * len(started))(*started),
            (ctypes.c_uint64 * len(parameters))(*parameters),
            (_Patch * len(patches))(*patches),
        )
        self._kept = arrays
        self._calls = _Calls(
            *map(driver.address, ("cuCtxGetCurrent", "cuCtxSetCurrent", "cuLaunchKernel")),
            self._loaded.context,
            *(part for array in arrays for part in (ctypes.addressof(array), len(array))),
            1 + len(names),
        )
        self._start = start_library().hetune_start

    def __call__(self, buffers: Mapping[str, Tensor]) -> bool:
        """Starts them all; or none, and says so, where a buffer does not lie at a multiple of 16.

        Args:
            buffers: Those that have no place in the memory of a call.

        Raises:
            DriverError: The driver refuses one.
        """
        memory = torch.empty(self._elements, dtype=torch.float32, device=self._device)
        given = [buffers[name].data_ptr() for name in self._names]
        addresses = self._addresses(memory.data_ptr(), *given)
        answer: int = self._start(ctypes.byref(self._calls), addresses, _stream(self._device))
        if answer > 0:
            raise self._error(*divmod(answer, 1 << 32))
        return not answer

    def _error(self, number: int, status: int) -> DriverError:
        name = "cuCtxSetCurrent"
        if number:
            function = self._kernels[number - 1].lowered.function
            name = f"cuLaunchKernel of {function.name} ({function.comment})"
        return self._loaded.driver.error(name, status)


def native_start(
    launches: Sequence[NativeLaunch],
    device: torch.device,
    offsets: Mapping[str, int] = _NO_OFFSETS,
    nbytes: int = 0,
    views: Mapping[str, str] = _NO_VIEWS,
) -> NativeStart | None:
    """One call for launches that follow each other; None if Triton has to start a kernel of theirs.

    Args:
        launches: In order. They have their own memory in turns.
        device: Where they run.
        offsets: Where buffers that they share begin in memory of the call.
        nbytes: Size of that memory.
        views: Buffers by further names that launches have for them.
    """
    begin = -(-nbytes // _APART) * _APART
    found = list[tuple[BoundKernel, LoadedKernel, Mapping[str, int]]]()
    for kernels, own, size in launches:
        places = {**offsets, **{name: begin + place for name, place in own.items()}}
        nbytes = max(nbytes, begin + size)
        for kernel in kernels:
            arrays = (of.data_ptr() for of in kernel.pointers if isinstance(of, Tensor))
            if kernel.loaded is None or any(address % ALIGNMENT for address in arrays):
                return None
            found.append((kernel, kernel.loaded, places))
    return NativeStart(found, nbytes, device, views) if found else None


@cache
def start_library() -> ctypes.CDLL:
    """`start.cpp`, compiled.

    Raises:
        CompileError: There is no compiler, or it refused the source.
    """
    package = "hetune.variants.backends.triton"
    library = load_packaged(package, "start.cpp", "gpu-start", "kernels of a plan, started")
    library.hetune_start.restype = ctypes.c_int64
    library.hetune_start.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return library


def _stream(device: torch.device) -> int:
    """The current one's handle; the default one's on what is no GPU."""
    if device.type != "cuda":
        return 0
    # As `torch.cuda.current_stream`, which makes an object of it: that takes as long as a kernel.
    stream: int = torch._C._cuda_getCurrentRawStream(device.index)
    return stream
