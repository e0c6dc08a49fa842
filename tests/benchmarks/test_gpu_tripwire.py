"""CUDA C++ beside Triton, as far as it needs no GPU: what is started, and what the table says."""

import ctypes
import shutil
import types

import _gpu_by_hand
import _gpu_roofline
import numpy as np
import pytest
import torch
from _gpu_by_hand import by_hand, compiled
from _gpu_report import tripwire_lines
from _gpu_tripwire import TRIED, Tripwire, TunedBackend, in_double, shares_of

from hetune.profiling.calibrate.probes import AGGREGATION
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.passes.fuse import fused
from hetune.variants.runtime.domain import Domain

SUM = _gpu_roofline._parsed(AGGREGATION)
SOFTMAX = fused(_gpu_roofline._parsed(_gpu_roofline.ATTENTION), "cuda")


def bound(launch):
    torch.manual_seed(0)
    dst = torch.cat([torch.full((5000,), 3), torch.full((65,), 7), torch.randint(8, 20, (40,))])
    graph = HeteroGraph(torch.randint(0, 20, dst.shape), dst, num_nodes=20)
    domain = Domain(graph, torch.device("cpu"))
    values = _gpu_roofline.buffers_of(launch, domain, domain.device)
    return graph, domain, values


def numbers(address, count, kind=ctypes.c_int):
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(kind)), (count,))


class Library:
    """Adds up as `sum_*` and `sum_merge` do, one part after the other."""

    def __init__(self):
        self.started = []

    def cuLaunchKernel(self, function, blocks, *rest):
        _, _, threads, _, _, _, _, given, _ = rest
        a = _gpu_by_hand._Arrays.from_address(given[0])
        merges = function.value == 2
        self.started.append((function.value, blocks * threads, a.count))
        for part in range(a.first, a.first + a.count):
            row, slot, begin, end = (
                int(numbers(address, part + 1)[part]) for address in (a.row, a.slot, a.begin, a.end)
            )
            if merges:
                partial = numbers(a.partial, 72 * end, ctypes.c_float).reshape(end, 72)
                total = partial[begin:, 8:].sum(0)
            else:
                src, weight = numbers(a.src, end), numbers(a.weight, end, ctypes.c_float)
                table = numbers(a.table, 20 * 64, ctypes.c_float).reshape(20, 64)
                total = weight[begin:] @ table[src[begin:]]
            if slot < 0:
                numbers(a.out, 20 * 64, ctypes.c_float).reshape(20, 64)[row] = total
            else:
                room = numbers(a.partial, 72 * (slot + 1), ctypes.c_float)
                room.reshape(slot + 1, 72)[slot, 8:] = total
        return 0


def test_kernels_are_started_over_parts_and_then_over_each_level_of_partial_rows(monkeypatch):
    library = Library()
    driver = types.SimpleNamespace(library=library)
    kernels = {
        name: types.SimpleNamespace(
            driver=driver, function=2 if "merge" in name else 1, threads=128
        )
        for name in (*_gpu_by_hand._WALKS, "sum_merge")
    }
    monkeypatch.setattr(_gpu_by_hand, "_kernels", lambda: kernels)
    monkeypatch.setattr(_gpu_by_hand, "_resident", lambda kernel: 2)
    stream = types.SimpleNamespace(cuda_stream=0)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    _graph, domain, values = bound(SUM)
    runs = by_hand("sum", SUM, domain, values)
    assert {"cuda sum_32_2", "cuda sum_16_4_stays", "cuda sum_bulk"} < set(runs)
    expected = in_double(domain.index(""), values)
    for name in ("cuda sum_32_2", "cuda sum_16_2", "cuda sum_bulk"):
        values["y"].fill_(torch.nan)
        library.started.clear()
        runs[name]()
        torch.testing.assert_close(values["y"].double(), expected, rtol=1e-4, atol=1e-4)
        (_, threads, count), *merges = library.started
        assert [(kernel, merged) for kernel, _, merged in merges] == [(2, 3), (2, 1)]
        assert threads == 256 if name == "cuda sum_bulk" else threads >= count * int(name[9:11])


def test_what_sums_and_softmax_sums_have_to_give():
    graph, domain, values = bound(SUM)
    index = domain.index("")
    dst = torch.repeat_interleave(torch.arange(20), index.indptr.long().diff())
    dense = torch.zeros(20, 20, dtype=torch.float64)
    dense.index_put_((dst, index.src.long()), values["a"].double(), accumulate=True)
    torch.testing.assert_close(in_double(index, values), dense @ values["x"].double())
    graph, domain, values = bound(SOFTMAX)
    q, k, v = (values[name].double() for name in "qkv")
    shares = torch.softmax((q @ k.T)[7, domain.index("").src[dst == 7].long()], 0)
    found = in_double(domain.index(""), values)
    torch.testing.assert_close(found[7], shares @ v[domain.index("").src[dst == 7].long()])
    assert not found[0].any()
    assert graph.num_edges == len(dst)


@pytest.mark.parametrize("launch", [SUM, SOFTMAX])
def test_each_try_is_another_text_which_says_what_triton_is_told(launch):
    texts = {t: TunedBackend(t).source(launch, GpuSchedule()).text for t in TRIED}
    assert len(set(texts.values())) == len(set(map(str, TRIED))) == len(TRIED)
    for tried, text in texts.items():
        assert not tried.warps or text.count(f'"num_warps": {tried.warps},') == 2
        assert not tried.stages or text.count(f"num_stages={tried.stages}):") == 2
        loads = 2 if launch is SUM else 1
        assert not tried.streams or text.count('eviction_policy="evict_first"') == loads
        assert not tried.streams or text.count('cache_modifier=".cs"') == 2


def test_the_table_says_where_a_cuda_printer_is_worth_its_while():
    times = {"product": 9, "copy": 9, "pick 16": 2, "edges=4": 4, "cuda sum_32_2": 2.4}
    times = {name: {"median_ms": ms} for name, ms in times.items()}
    candidates = shares_of({"bounds_ms": {"bytes": 1.5, "pick": 2.0}, "times": times})
    assert candidates == {"edges=4": 0.5, "cuda sum_32_2": 0.8333}
    lines = tripwire_lines(
        {
            "tripwire/sum/am": {"candidates": candidates},
            "tripwire/sum/mag": {"candidates": {"edges=4": 0.71, "cuda sum_32_2": 0.9}},
            "tripwire/sum/road": {"failed": "no"},
        }
    )
    assert lines[0].split()[-2:] == ["am", "mag"]
    assert lines[1].split() == ["edges=4", "50.0%", "71.0%"]
    assert lines[-1].endswith(": am")
    assert [unit.key for unit in Tripwire(None).units("am")] == [
        "tripwire/sum/am",
        "tripwire/softmax/am",
    ]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_the_kernels_compile_for_a_gpu():
    cubin = compiled("sm_90")
    assert all(f"{name}\0".encode() in cubin for name in _gpu_by_hand._WALKS)
