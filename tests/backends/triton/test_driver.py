"""What the CUDA driver is called with, by one that only notes it."""

import ctypes
import io
import json
import struct
import threading
import zipfile

import pytest

from hetune.variants.backends.triton.driver import Driver, DriverError

GOOD = {
    "symbol": "kernel_0",
    "types": "*fp32 *i32 i32",
    "num_warps": 4,
    "shared": 65536,
    "global_scratch": 0,
    "profile_scratch": 0,
}


class Library:
    """Answers as ``libcuda`` does, and remembers the calls."""

    def __init__(self, refuses: str = "", status: int = 209) -> None:
        self.refuses, self.status = refuses, status
        self.context: int | None = 0xC0
        self.calls: list[tuple] = []

    def __getattr__(self, name):
        def call(*arguments):
            if name == "cuGetErrorString":
                ctypes.cast(arguments[1], ctypes.POINTER(ctypes.c_char_p))[0] = b"no binary for it"
                return 0
            if name == "cuCtxGetCurrent":
                arguments[0]._obj.value = self.context
                return 0
            self.calls.append((name, arguments))
            if name == "cuLaunchKernel":
                pointers = arguments[-2]
                self.given = [
                    ctypes.cast(pointers[0], ctypes.POINTER(ctypes.c_void_p))[0],
                    ctypes.cast(pointers[1], ctypes.POINTER(ctypes.c_void_p))[0],
                    ctypes.cast(pointers[2], ctypes.POINTER(ctypes.c_int32))[0],
                    ctypes.cast(pointers[3], ctypes.POINTER(ctypes.c_void_p))[0],
                    len(pointers),
                ]
            return self.status if name == self.refuses else 0

        return call


def archive(**changes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("kernel_0.cubin", b"\x7fELF a cubin")
        file.writestr("launch.json", json.dumps({"capability": 90, "kernel_0": GOOD | changes}))
    return made.getvalue()


def test_a_kernel_is_loaded_and_started():
    library = Library()
    kernels = Driver(library).load(archive())
    assert list(kernels) == ["kernel_0"]
    load, get, attribute = library.calls
    assert (load[0], load[1][1].raw) == ("cuModuleLoadData", b"\x7fELF a cubin")
    assert (get[0], get[1][2]) == ("cuModuleGetFunction", b"kernel_0")
    assert (attribute[0], attribute[1][1:]) == ("cuFuncSetAttribute", (8, 65536))
    kernels["kernel_0"]((7, 2, 1), (0x1000, 0x2000, 33), 5)
    name, (_, *sizes, shared, stream, _, extra) = library.calls[-1]
    assert (name, sizes) == ("cuLaunchKernel", [7, 2, 1, 128, 1, 1])
    assert (shared, stream, extra) == (65536, 5, None)
    assert library.given == [0x1000, 0x2000, 33, None, 5]


def test_little_shared_memory_is_not_asked_for():
    library = Library()
    Driver(library).load(archive(shared=1024))
    assert [name for name, _ in library.calls] == ["cuModuleLoadData", "cuModuleGetFunction"]


def test_it_is_started_in_the_context_that_it_was_loaded_in():
    """Which another thread, or one that has turned to another device, has not."""
    library = Library()
    start = Driver(library).load(archive())["kernel_0"]
    for library.context in (None, 0xC1, 0xC0):
        library.calls.clear()
        start((1, 1, 1), (0x1000, 0x2000, 33), 5)
        entered = [call[1][0].value for call in library.calls if call[0] == "cuCtxSetCurrent"]
        assert entered == ([] if library.context == 0xC0 else [0xC0])
        assert library.calls[-1][0] == "cuLaunchKernel"


def test_what_the_driver_refuses_is_named():
    with pytest.raises(DriverError, match="cuModuleLoadData: no binary for it"):
        Driver(Library("cuModuleLoadData")).load(archive())
    with pytest.raises(DriverError, match="needs scratch memory") as info:
        Driver(Library()).load(archive(global_scratch=64))
    assert info.value.is_kernel_s


@pytest.mark.parametrize(
    ("refuses", "status", "is_kernel_s"),
    [
        ("cuModuleLoadData", 209, True),
        ("cuModuleGetFunction", 500, True),
        ("cuFuncSetAttribute", 1, True),
        ("cuModuleLoadData", 2, False),
        ("cuModuleLoadData", 700, False),
    ],
    ids=["another GPU's", "no such function", "too much shared memory", "a full card", "a fault"],
)
def test_who_is_at_fault(refuses, status, is_kernel_s):
    library = Library(refuses, status)
    with pytest.raises(DriverError) as info:
        Driver(library).load(archive())
    assert info.value.is_kernel_s == is_kernel_s
    loaded = refuses != "cuModuleLoadData"
    assert (library.calls[-1][0] == "cuModuleUnload") == loaded


def test_arguments_are_counted():
    start = Driver(Library()).load(archive())["kernel_0"]
    with pytest.raises(struct.error, match="5 items"):
        start((1, 1, 1), (1, 2), 0)


def test_parameters_lie_where_c_has_them_and_are_each_thread_s_own():
    library = Library()
    start = Driver(library).load(archive(types="*fp32 i32 i32 i32"))["kernel_0"]
    places = []

    def run(first):
        start((1, 1, 1), (first, 2, 3, 4), 0)
        places.append(list(library.calls[-1][1][-2]))

    for first in (0x1000, 0x2000):
        thread = threading.Thread(target=run, args=(first,))
        thread.start()
        thread.join()
    run(0x3000)
    run(0x3000)
    offsets = [[place - each[0] for place in each] for each in places]
    assert offsets == [[0, 8, 12, 16, 24, 32]] * 4
    assert places[2] == places[3]
    assert ctypes.c_int32.from_address(places[3][3]).value == 4
