"""What cost models see of launches on GPUs."""

from __future__ import annotations

import numpy as np
import pytest

from hetune.costmodel.features import devices, launch
from hetune.costmodel.features.gpu_launch import INCREASING, NAMES, gpu_launch_features
from hetune.costmodel.features.graph import graph_features
from hetune.variants.errors import ModelError
from hetune.variants.frontend.layers import rgcn_program
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.gpu_roofline import GpuModel, gpu_roofline_seconds
from hetune.variants.runtime.roofline import PARTS, MachineModel
from hetune.variants.runtime.table import CandidateTable
from hetune.variants.testing.graphs import typed_graph

GPU = GpuModel()


def features(graph, program=None, gpu=GPU):
    table = CandidateTable.of(variants_of(program or rgcn_program(16, 16), "cuda"))
    columns = table.columns(Domain(graph))
    return gpu_launch_features(columns, graph_features(graph), gpu)[0], columns


def column(found, name):
    return found[:, NAMES.index(name)]


def test_the_first_is_the_prior():
    found, columns = features(typed_graph((20, 300), [(0, 1, 2000), (1, 0, 100)]))
    expected = np.log(gpu_roofline_seconds(columns, GPU)).astype(np.float32)
    assert column(found, "roofline_seconds").tolist() == expected.tolist()
    shares = found[:, [NAMES.index(f"{name}_share") for name in PARTS]]
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(found)))


def test_schedules_tell_launches_apart():
    found, _ = features(typed_graph((20, 300), [(0, 1, 2000), (1, 0, 100)]))
    assert len(np.unique(column(found, "tile_rows"))) > 1
    assert len(np.unique(column(found, "walk_elements"))) > 1


def test_waves_are_programs_over_what_keeps_the_card_busy():
    graph = typed_graph((20, 300), [(0, 1, 2000)])
    small, _ = features(graph, gpu=GpuModel(programs=1))
    large, _ = features(graph, gpu=GpuModel(programs=64))
    for name, waves in (("tiles", "tile_waves"), ("walks", "walk_waves")):
        there = column(small, name) > 0
        assert there.any()
        assert column(small, waves)[there] == pytest.approx(column(small, name)[there], abs=1e-5)
        apart = (column(small, waves) - column(large, waves))[there]
        assert apart == pytest.approx(np.full(len(apart), np.log(64)), abs=1e-4)


def test_gathers_miss_the_less_the_larger_the_cache():
    graph = typed_graph((2000, 300), [(0, 1, 20000)])
    small, _ = features(graph, gpu=GpuModel(cache_bytes=1 << 12))
    large, _ = features(graph, gpu=GpuModel(cache_bytes=1 << 28))
    name = "gathers_missing_cache"
    assert ((column(small, name) >= 0) & (column(small, name) <= 1)).all()
    assert (column(small, name) >= column(large, name)).all()
    assert column(small, name).max() > 0.5 > column(large, name).max()


def test_more_edges_never_lower_what_time_increases_with():
    small, _ = features(typed_graph((50, 50), [(0, 1, 1000)]))
    large, _ = features(typed_graph((50, 50), [(0, 1, 9000)]))
    for name in INCREASING - {"write_bytes"}:
        # Where more programs share more edges of an idle card, the last one's share decides.
        rounding = 0.01 if name == "roofline_seconds" else 1e-5
        assert (column(large, name) >= column(small, name) - rounding).all()


@pytest.mark.parametrize(("device", "rates"), [("cpu", MachineModel()), ("cuda", GPU)])
def test_rates_know_their_device(device, rates):
    assert devices.known(device) == devices.device_of(rates) == device
    assert devices.default_rates(device) == rates
    assert set(devices.names_of(device)) >= devices.increasing_of(device)
    assert (devices.names_of(device) == launch.NAMES) == (device == "cpu")


def test_another_device_is_none():
    with pytest.raises(ModelError, match="no cost models for the device 'tpu': take one of cpu"):
        devices.known("tpu")
