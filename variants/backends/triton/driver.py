"""Loads and starts cubins through the CUDA driver, without Triton and without a compiler.

Written against the driver's documented interface; it asks for a GPU only when something is loaded.
"""

from __future__ import annotations

import ctypes
import io
import json
import struct
import threading
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

from hetune.variants.errors import CompileError

Start = Callable[[tuple[int, int, int], Sequence[int], int], None]
"""Starts a kernel: grid, arguments (addresses and counts in order), stream."""

_MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""
_STATIC_LIMIT = 48 << 10
"""Shared memory above this has to be asked for."""
_WARP = 32
_OF_KERNELS = frozenset((1, 200, 209, 218, 222, 223, 500))
"""Statuses that tell of a kernel alone.

An invalid value (more shared memory than there is), image or PTX, none for this GPU, PTX that is
too new or may not be compiled, and no function of its name.
"""


class DriverError(Exception):
    """The driver refuses a call; the text is its reason.

    Attributes:
        is_kernel_s: Whether the kernel is at fault, which then no machine with this GPU can load.
    """

    def __init__(self, text: str, *, is_kernel_s: bool = False) -> None:
        super().__init__(text)
        self.is_kernel_s = is_kernel_s


@dataclass(frozen=True, slots=True)
class Driver:
    """The CUDA driver.

    Attributes:
        library: ``libcuda``, or what answers like it.
    """

    library: Any

    def load(self, binary: bytes) -> dict[str, Start]:
        """The kernels of a zip file that `compile_unit` wrote, in the current context, by name.

        They may be started in any thread, and stay loaded.

        Raises:
            DriverError: The driver refuses one, or the file needs what is not given here.
        """
        context, kernels = ctypes.c_void_p(), dict[str, Start]()
        self._call("cuCtxGetCurrent", ctypes.byref(context))
        with zipfile.ZipFile(io.BytesIO(binary)) as archive, ExitStack() as unloading:
            launch = json.loads(archive.read("launch.json"))
            for name in [name for name, how in launch.items() if isinstance(how, dict)]:
                module = self._module(archive.read(f"{name}.cubin"))
                unloading.callback(self.library.cuModuleUnload, module)
                kernels[name] = self._kernel(module, launch[name], context)
            unloading.pop_all()  # for nothing was refused
        return kernels

    def _module(self, cubin: bytes) -> ctypes.c_void_p:
        module, image = ctypes.c_void_p(), ctypes.create_string_buffer(cubin, len(cubin))
        self._call("cuModuleLoadData", ctypes.byref(module), image)
        return module

    def _kernel(
        self, module: ctypes.c_void_p, how: dict[str, Any], context: ctypes.c_void_p
    ) -> Start:
        if how["global_scratch"] or how["profile_scratch"]:
            raise DriverError("the kernel needs scratch memory of the driver's", is_kernel_s=True)
        function = ctypes.c_void_p()
        symbol = how["symbol"].encode()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, symbol)
        shared, threads = int(how["shared"]), int(how["num_warps"]) * _WARP
        if shared > _STATIC_LIMIT:
            self._call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)
        # Kernels end with pointers to scratch memory, of which there is none.
        kinds = ["P" if kind[0] == "*" else "i" for kind in how["types"].split()] + ["P", "P"]
        form, own = struct.Struct("".join(kinds)), _Own(kinds)
        current, launch = self.library.cuCtxGetCurrent, self.library.cuLaunchKernel

        def start(grid: tuple[int, int, int], arguments: Sequence[int], stream: int) -> None:
            form.pack_into(own.memory, 0, *arguments, 0, 0)
            # A fresh thread has no context, and torch turns to other devices.
            current(own.context_place)
            if own.context.value != context.value:
                self._call("cuCtxSetCurrent", context)
            block = threads, 1, 1
            status = launch(function, *grid, *block, shared, stream, own.pointers, None)
            if status:
                raise self._error("cuLaunchKernel", status)

        return start

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise self._error(name, status)

    def _error(self, name: str, status: int) -> DriverError:
        text = ctypes.c_char_p()
        self.library.cuGetErrorString(status, ctypes.byref(text))
        said = text.value.decode() if text.value else f"error {status}"
        return DriverError(f"{name}: {said}", is_kernel_s=status in _OF_KERNELS)


class _Own(threading.local):
    """What each thread starts a kernel with: memory for its parameters, and pointers to them.

    Args:
        kinds: The parameters, as `struct` calls them; each lies where C would have it.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self.memory = ctypes.create_string_buffer(struct.calcsize("".join(kinds)))
        first = ctypes.addressof(self.memory)
        ends = [struct.calcsize("".join(kinds[: i + 1])) for i in range(len(kinds))]
        self.pointers = (ctypes.c_void_p * len(kinds))(
            *(first + end - struct.calcsize(kind) for end, kind in zip(ends, kinds, strict=True))
        )
        self.context = ctypes.c_void_p()
        self.context_place = ctypes.byref(self.context)


@cache
def cuda_driver() -> Driver:
    """This machine's driver.

    Raises:
        CompileError: There is none.
    """
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise CompileError(
            f"there is no CUDA driver here ({error}): install NVIDIA's, or run on the CPU"
        ) from error
    one, count = ctypes.c_void_p, ctypes.c_uint
    library.cuLaunchKernel.argtypes = (one, *(count,) * 7, one, one, one)
    return Driver(library)
