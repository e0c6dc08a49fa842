"""Kernels use torch's OpenMP library: one thread pool in the process."""

import ctypes
from pathlib import Path

import pytest
import torch

from hetune.variants.registry import KernelSource

PARALLEL = """
#include <cstdint>
#include <omp.h>
extern "C" __attribute__((visibility("default"))) int64_t sum(int64_t n, int64_t* threads) {
    int64_t total = 0;
    #pragma omp parallel
    {
        #pragma omp single
        *threads = omp_get_num_threads();
        #pragma omp for reduction(+ : total)
        for (int64_t i = 0; i < n; ++i) total += i;
    }
    return total;
}
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux only")
def test_threads_are_those_of_torch_and_one_library_is_mapped(registry):
    function = registry.load(KernelSource("sum", PARALLEL, "sum")).sum
    function.argtypes = [ctypes.c_int64, ctypes.c_void_p]
    function.restype = ctypes.c_int64
    threads = ctypes.c_int64()
    before = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            assert function(1000, ctypes.byref(threads)) == 499_500
            assert threads.value == count
    finally:
        torch.set_num_threads(before)
    maps = Path("/proc/self/maps").read_text().splitlines()
    libraries = {line.split()[-1] for line in maps if "libgomp" in line or "libomp" in line}
    # XGBoost brings its own, for its own code: another test may have loaded it.
    assert len({name for name in libraries if "xgboost" not in name}) == 1, libraries
