"""What the CUDA driver is called with to load kernels, by one that only notes it."""

import ctypes
import io
import json
import zipfile

import pytest

from hetune.variants.backends.triton.driver import Driver, DriverError, LoadedKernel

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
        self.calls: list[tuple] = []

    def __getattr__(self, name):
        def call(*arguments):
            if name == "cuGetErrorString":
                ctypes.cast(arguments[1], ctypes.POINTER(ctypes.c_char_p))[0] = b"no binary for it"
                return 0
            if name == "cuCtxGetCurrent":
                arguments[0]._obj.value = 0xC0
                return 0
            self.calls.append((name, arguments))
            if name == "cuModuleGetFunction":
                arguments[0]._obj.value = 0xF0
            return self.status if name == self.refuses else 0

        return call


def archive(**changes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("kernel_0.cubin", b"\x7fELF a cubin")
        file.writestr("launch.json", json.dumps({"capability": 90, "kernel_0": GOOD | changes}))
    return made.getvalue()


def test_a_kernel_is_loaded():
    library = Library()
    driver = Driver(library)
    kernels = driver.load(archive())
    assert kernels == {"kernel_0": LoadedKernel(driver, 0xC0, 0xF0, 128, 65536)}
    load, get, attribute = library.calls
    assert (load[0], load[1][1].raw) == ("cuModuleLoadData", b"\x7fELF a cubin")
    assert (get[0], get[1][2]) == ("cuModuleGetFunction", b"kernel_0")
    assert (attribute[0], attribute[1][1:]) == ("cuFuncSetAttribute", (8, 65536))


def test_little_shared_memory_is_not_asked_for():
    library = Library()
    Driver(library).load(archive(shared=1024))
    assert [name for name, _ in library.calls] == ["cuModuleLoadData", "cuModuleGetFunction"]


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
