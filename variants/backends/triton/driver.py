"""Loads cubins through the CUDA driver, without Triton and without a compiler.

Written against the driver's documented interface; it asks for a GPU only when something is loaded.
"""

from __future__ import annotations

import ctypes
import io
import json
import zipfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

from hetune.variants.errors import CompileError

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
class LoadedKernel:
    """A kernel that the driver has loaded; it stays so.

    Attributes:
        driver: Whose it is.
        context: Handle of the context that it was loaded in, in which alone it can be started.
        function: Its handle.
        threads: Of a program.
        shared: Bytes of a program's dynamic shared memory.
    """

    driver: Driver
    context: int
    function: int
    threads: int
    shared: int


@dataclass(frozen=True, slots=True)
class Driver:
    """The CUDA driver.

    Attributes:
        library: ``libcuda``, or what answers like it.
    """

    library: Any

    def load(self, binary: bytes) -> dict[str, LoadedKernel]:
        """The kernels of a zip file that `compile_unit` wrote, in the current context, by name.

        Raises:
            DriverError: The driver refuses one, or the file needs what is not given here.
        """
        context, kernels = ctypes.c_void_p(), dict[str, LoadedKernel]()
        self._call("cuCtxGetCurrent", ctypes.byref(context))
        with zipfile.ZipFile(io.BytesIO(binary)) as archive, ExitStack() as unloading:
            launch = json.loads(archive.read("launch.json"))
            for name in [name for name, how in launch.items() if isinstance(how, dict)]:
                module = self._module(archive.read(f"{name}.cubin"))
                unloading.callback(self.library.cuModuleUnload, module)
                kernels[name] = self._kernel(module, launch[name], context.value or 0)
            unloading.pop_all()  # for nothing was refused
        return kernels

    def address(self, name: str) -> int:
        """Where a function of the driver begins, for code that is no Python."""
        return ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value or 0

    def error(self, name: str, status: int) -> DriverError:
        """What a function of the driver says by a status that is not 0."""
        text = ctypes.c_char_p()
        self.library.cuGetErrorString(status, ctypes.byref(text))
        said = text.value.decode() if text.value else f"error {status}"
        return DriverError(f"{name}: {said}", is_kernel_s=status in _OF_KERNELS)

    def _module(self, cubin: bytes) -> ctypes.c_void_p:
        module, image = ctypes.c_void_p(), ctypes.create_string_buffer(cubin, len(cubin))
        self._call("cuModuleLoadData", ctypes.byref(module), image)
        return module

    def _kernel(self, module: ctypes.c_void_p, how: dict[str, Any], context: int) -> LoadedKernel:
        if how["global_scratch"] or how["profile_scratch"]:
            raise DriverError("the kernel needs scratch memory of the driver's", is_kernel_s=True)
        function = ctypes.c_void_p()
        symbol = how["symbol"].encode()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, symbol)
        shared, threads = int(how["shared"]), int(how["num_warps"]) * _WARP
        if shared > _STATIC_LIMIT:
            self._call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)
        return LoadedKernel(self, context, function.value or 0, threads, shared)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise self.error(name, status)


@cache
def cuda_driver() -> Driver:
    """This machine's driver.

    Raises:
        CompileError: There is none.
    """
    try:
        return Driver(ctypes.CDLL("libcuda.so.1"))
    except OSError as error:
        raise CompileError(
            f"there is no CUDA driver here ({error}): install NVIDIA's, or run on the CPU"
        ) from error
