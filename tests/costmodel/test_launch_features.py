"""What cost models see of launches."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetune.costmodel.features.devices import default_rates, features_of, names_of
from hetune.costmodel.features.graph import NAMES as GRAPH_NAMES
from hetune.costmodel.features.graph import graph_features
from hetune.costmodel.features.launch import INCREASING, NAMES, launch_features
from hetune.variants.errors import ModelError
from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.kernel.device import DEVICES
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.launch_columns import COLUMNS
from hetune.variants.runtime.roofline import (
    PARTS,
    MachineModel,
    roofline_parts,
    roofline_seconds,
)
from hetune.variants.runtime.table import CandidateTable
from hetune.variants.testing.graphs import AWKWARD, typed_graph

from ._launch_numpy import computed_by_numpy

MACHINE = MachineModel()
PAGE = Path(__file__).resolve().parents[2] / "docs" / "features.md"


def features(graph, program=None, threads=2, machine=MACHINE):
    table = CandidateTable.of(variants_of(program or rgcn_program(16, 16), "cpu"))
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


def test_rows_that_other_cores_have_written_are_fetched_once():
    graph = typed_graph((200, 300), [(0, 1, 20000)])
    table = CandidateTable.of(variants_of(rgcn_program(64, 64), "cpu"))
    columns = table.columns(Domain(graph))
    of_pairs, gathers = (columns[:, COLUMNS.index(n)] for n in ("pair_gathers", "gathers"))
    pairs, alone = of_pairs > 0, (of_pairs > 0) & (of_pairs == gathers)
    assert 0 < alone.sum() <= pairs.sum() < len(pairs)

    def lines(threads, machine=MACHINE):
        parts = roofline_parts(columns, machine, threads)
        beyond = parts - roofline_parts(columns, replace(machine, exchange_seconds=0.0), threads)
        assert not np.delete(beyond, PARTS.index("gather"), 1).any()
        return beyond.sum(axis=1) / machine.exchange_seconds

    assert not lines(1).any()
    assert not lines(2)[~pairs].any()
    # Rows of 200 pairs, all of which every core reads.
    assert lines(2)[alone].tolist() == pytest.approx([200 * 64 * 4 / 64] * int(alone.sum()))
    assert lines(3)[alone].tolist() == pytest.approx([2 * 200 * 64 * 4 / 64] * int(alone.sum()))
    assert not lines(2, replace(MACHINE, shared_bytes=200)).any()


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


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_compiled_are_those_of_numpy(name, threads):
    graph = AWKWARD[name]()
    for program in (rgcn_program(7, 63), rgat_program(16, 4, 2), hgt_program(16, 8, 2)):
        columns = CandidateTable.of(variants_of(program, "cpu")).columns(Domain(graph))
        assert_alike(columns, graph_features(graph), MACHINE, threads)


@given(seed=st.integers(0, 1 << 32), rows=st.integers(0, 9), threads=st.integers(1, 64))
def test_the_compiled_are_those_of_numpy_whatever_the_numbers(seed, rows, threads):
    """Drawn so that both sides of every comparison come up."""
    random = np.random.default_rng(seed)
    columns = np.exp(random.uniform(-1, 25, (rows, len(COLUMNS)))) * random.integers(0, 2)
    gathers, pairs = COLUMNS.index("gathers"), COLUMNS.index("pair_gathers")
    columns[:, pairs] = columns[:, gathers] * random.uniform(size=rows)
    columns[:, COLUMNS.index("blocks")] = random.integers(1, 100, rows)
    columns[:, COLUMNS.index("unblocked")] = random.integers(0, 2, rows)
    rates = np.exp(random.uniform(5, 25, 10)).tolist()
    machine = MachineModel(*rates[:8], rates[8] * 1e-9, rates[9] * 1e-9, random.uniform())
    of_graph = random.uniform(size=len(GRAPH_NAMES)) * random.integers(0, 2)
    assert_alike(columns, of_graph, machine, threads)


def assert_alike(columns, of_graph, machine, threads):
    found, seconds = launch_features(columns, of_graph, machine, threads)
    wanted, by_numpy = computed_by_numpy(columns, of_graph, machine, threads)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(seconds, by_numpy, rtol=1e-12)


@pytest.mark.parametrize("shape", [(3, len(COLUMNS) - 1), (len(COLUMNS),), (2, len(COLUMNS) + 1)])
def test_rows_of_other_numbers_are_refused(shape):
    with pytest.raises(ModelError, match=f"give {len(COLUMNS)} for each"):
        launch_features(np.ones(shape), np.ones(len(GRAPH_NAMES)), MACHINE, 2)


# The page.


@pytest.mark.parametrize("device", DEVICES)
def test_every_feature_is_documented_and_nothing_else(device):
    _, cpu, gpu = re.split(r"^## Launch features.*\n", PAGE.read_text(encoding="utf-8"), flags=re.M)
    cells = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", {"cpu": cpu, "cuda": gpu}[device], re.M)
    named = [name for cell in cells for name in re.findall(r"\w+", cell)]
    assert sorted(named) == sorted(names_of(device))
    assert len(set(named)) == len(named)
