"""What cost models see of launches."""

from __future__ import annotations

import numpy as np
import pytest

from hetune.costmodel.features.devices import default_rates, features_of, names_of
from hetune.costmodel.features.graph import graph_features
from hetune.costmodel.features.launch import INCREASING, NAMES, launch_features
from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.plan.variants import DEVICES, variants_of
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.roofline import PARTS, MachineModel, roofline_seconds
from hetune.variants.runtime.table import CandidateTable
from hetune.variants.testing.graphs import AWKWARD, typed_graph

MACHINE = MachineModel()


def features(graph, program=None, threads=2, machine=MACHINE):
    table = CandidateTable.of(variants_of(program or rgcn_program(16, 16)))
    columns = table.columns(Domain(graph))
    return launch_features(columns, graph_features(graph), machine, threads)[0], columns


def column(found, name):
    return found[:, NAMES.index(name)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize(
    "program",
    [rgcn_program(7, 63), rgat_program(16, 4, 2), hgt_program(16, 8, 2)],
    ids=["rgcn", "rgat", "hgt"],
)
def test_every_launch_of_every_graph_has_finite_features(name, program, device):
    graph = AWKWARD[name]()
    columns = CandidateTable.of(variants_of(program, device)).columns(Domain(graph))
    found, _ = features_of(columns, graph_features(graph), default_rates(device), 2)
    assert found.shape == (len(columns), len(names_of(device)))
    assert found.dtype == np.float32
    assert np.isfinite(found).all()


def test_the_first_is_the_prior():
    graph = typed_graph((20, 300), [(0, 1, 2000), (1, 0, 100)])
    found, columns = features(graph, threads=3)
    expected = np.log(roofline_seconds(columns, MACHINE, 3)).astype(np.float32)
    assert column(found, "roofline_seconds").tolist() == expected.tolist()
    shares = found[:, [NAMES.index(f"{name}_share") for name in PARTS]]
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(found)))


def test_gathers_miss_the_less_the_larger_the_cache():
    graph = typed_graph((2000, 300), [(0, 1, 20000)])
    small, _ = features(graph, machine=MachineModel(own_bytes=1 << 12, shared_bytes=1 << 14))
    large, _ = features(graph, machine=MachineModel(own_bytes=1 << 24, shared_bytes=1 << 28))
    for name in ("gathers_missing_own_cache", "gathers_missing_shared_cache"):
        assert ((column(small, name) >= 0) & (column(small, name) <= 1)).all()
        assert (column(small, name) >= column(large, name)).all()
    assert column(small, "gathers_missing_own_cache").max() > 0.5
    assert column(large, "gathers_missing_own_cache").max() < 0.2


def test_more_edges_never_lower_what_time_increases_with():
    small, _ = features(typed_graph((50, 50), [(0, 1, 1000)]))
    large, _ = features(typed_graph((50, 50), [(0, 1, 9000)]))
    for name in INCREASING - {"write_bytes"}:
        assert (column(large, name) >= column(small, name)).all()
