"""What variants for a GPU amount to, and what a card should take for them."""

import dataclasses

import numpy as np
import pytest
import torch

from hetune.variants.backends.triton.emit import emit
from hetune.variants.errors import VariantError
from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.device import DEVICES
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.plan import lower as lowering
from hetune.variants.plan.sides import default_variant
from hetune.variants.plan.variants import DEFAULT_SCHEDULES, device_of, variants_of
from hetune.variants.runtime import devices
from hetune.variants.runtime.choice import choose
from hetune.variants.runtime.cost_estimates import RooflineEstimator
from hetune.variants.runtime.devices import torch_device
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.gpu_roofline import (
    GpuModel,
    gpu_roofline_parts,
    gpu_roofline_seconds,
)
from hetune.variants.runtime.launch_columns import column_names
from hetune.variants.runtime.memory import layout_of
from hetune.variants.runtime.roofline import PARTS
from hetune.variants.runtime.table import CandidateTable

PROGRAMS = {"rgcn": rgcn_program(32, 32), "rgat": rgat_program(16, 16), "hgt": hgt_program(8, 8)}


def random_graph(*, num_nodes: int, num_edges: int, num_etypes: int, seed: int) -> HeteroGraph:
    draw = torch.Generator().manual_seed(seed)
    src, dst = torch.randint(num_nodes, (2, num_edges), generator=draw)
    etype = torch.randint(num_etypes, (num_edges,), generator=draw)
    return HeteroGraph(src, dst, etype, num_nodes=num_nodes, num_etypes=num_etypes)


@pytest.fixture(scope="module")
def graph():
    return random_graph(num_nodes=300, num_edges=2000, num_etypes=5, seed=0)


@pytest.fixture(scope="module", params=PROGRAMS)
def variants(request):
    return variants_of(PROGRAMS[request.param], "cuda")


def named(table, columns, name):
    return columns[:, column_names(table.device).index(name)]


def test_devices_share_plans_and_have_schedules_of_their_own(variants):
    ids = [variant.id for variant in variants]
    assert len(set(ids)) == len(ids) == len({variant.key for variant in variants})
    program = variants[0].plan.program
    plans = {id.rpartition("/")[0] for id in ids}
    on_cpus = {variant.id.rpartition("/")[0] for variant in variants_of(program, "cpu")}
    special = {plan for plan in on_cpus if "+separate-products" in plan or "+edge-scores" in plan}
    # On CPUs alone there is one pass, in the place of separate sums where products take sums.
    apart = {plan: "" if plan.startswith("src") else "+separate-sums" for plan in on_cpus}
    assert plans == {plan.replace("+one-pass", apart[plan]) for plan in on_cpus - special}
    assert len(special) == (2 if "rgat" in program.name else 1)
    kinds = {type(s) for variant in variants for s in variant.schedules}
    assert kinds == {GpuSchedule}
    assert {type(s) for v in variants_of(program, "cpu") for s in v.schedules} == {Schedule}


@pytest.mark.parametrize("device", DEVICES)
def test_the_default_variant_is_one_of_the_device(device):
    found = variants_of(PROGRAMS["rgat"], device)
    assert device_of(found) == device
    assert any(variant.has_default_schedule for variant in found)
    if device == "cpu":
        assert default_variant(found).id == "hybrid+weights-first+one-pass/b1024"
    else:
        for side in ("", "src", "dst"):
            chosen = default_variant(found, side=side)
            assert chosen.id == "src+weights-first/t64-p2048"
            assert chosen.choices.schedule == DEFAULT_SCHEDULES["cuda"]


def test_columns_count_programs(variants, graph):
    table, domain = CandidateTable.of(variants), Domain(graph)
    columns = table.columns(domain)
    assert columns.shape == (len(table.launches), len(column_names("cuda")))
    assert np.isfinite(columns).all()
    assert (named(table, columns, "tiles") + named(table, columns, "walks") >= 1).all()
    assert (named(table, columns, "blocks") == 1).all()
    for row, (launch, schedule) in enumerate(table.launches):
        assert named(table, columns, "tile_rows")[row] == schedule.tile_rows
        same = dataclasses.replace(schedule, tile_rows=2 * schedule.tile_rows)
        if (launch, same) in table.launches:
            larger = table.launches.index((launch, same))
            tiles = named(table, columns, "tiles")
            assert tiles[larger] <= tiles[row] <= 2 * tiles[larger]


def test_starts_are_those_of_the_kernels_that_run(variants, graph):
    table = CandidateTable.of(variants)
    starts = named(table, table.columns(Domain(graph)), "starts")
    for variant, rows in zip(table.variants, table.rows_of, strict=True):
        for launch, schedule, row in zip(
            variant.plan.launches, variant.schedules, rows, strict=True
        ):
            names = [kernel.function.name for kernel in emit(launch, schedule).kernels]
            assert starts[row] == sum(not name.endswith("_join") for name in names)


def test_tiles_hold_rows_of_one_type():
    """One product for each edge type's source pairs: every type has a last tile of its own."""
    graph = random_graph(num_nodes=200, num_edges=900, num_etypes=3, seed=1)
    (src,) = [v for v in variants_of(rgcn_program(8, 8), "cuda") if v.id == "src/t32-p2048"]
    table = CandidateTable.of((src,))
    columns = table.columns(Domain(graph))
    pairs = Domain(graph).index("").relation_stats.src_pairs
    assert named(table, columns, "tiles").max() == np.ceil(pairs / 32).sum()


def test_a_device_index_gives_the_same_columns(variants, graph):
    table = CandidateTable.of(variants)
    on_device = table.columns(Domain(graph, torch.device("cpu")))
    assert np.array_equal(on_device, table.columns(Domain(graph)))


def test_seconds_never_fall_with_slower_cards(variants, graph):
    columns = CandidateTable.of(variants).columns(Domain(graph))
    card = GpuModel()
    seconds = gpu_roofline_seconds(columns, card)
    assert gpu_roofline_parts(columns, card).shape == (len(columns), len(PARTS))
    assert (seconds > 0).all()
    assert np.isfinite(seconds).all()
    for name in ("matrix_flops", "vector_flops", "special", "cache_rate", "memory_rate"):
        slower = dataclasses.replace(card, **{name: getattr(card, name) / 8})
        assert (gpu_roofline_seconds(columns, slower) >= seconds).all()
    slower = dataclasses.replace(card, launch_seconds=1e-3)
    assert (gpu_roofline_seconds(columns, slower) > seconds).all()


def test_the_roofline_model_chooses_for_both(graph):
    program, estimator = PROGRAMS["rgcn"], RooflineEstimator()
    for device in DEVICES:
        found = variants_of(program, device)
        choice = choose(found, graph, estimator)
        assert choice.id in {variant.id for variant in found}
        assert choice.source == "the roofline model"
        assert all(candidate.peak_bytes > 0 for candidate in choice.candidates)


def test_a_gpu_s_peak_counts_all_scratch_and_no_threads(graph):
    found = variants_of(PROGRAMS["rgat"], "cuda")
    before = torch.get_num_threads()
    peaks = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            peaks.append(
                [c.peak_bytes for c in choose(found, graph, RooflineEstimator()).candidates]
            )
    finally:
        torch.set_num_threads(before)
    assert sorted(peaks[0]) == sorted(peaks[1])


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("tpu", "no device 'tpu': take one of cpu, cuda"),
        ("cpu:1", "no device 'cpu:1'"),
        ("cuda:one", "no device 'cuda:one'"),
        ("cuda", "no GPU: torch sees none here"),
    ],
)
def test_devices_that_are_not_here(device, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(VariantError, match=message):
        torch_device(device)


def test_devices_that_are_here(monkeypatch):
    assert torch_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(devices.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(devices.torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(devices.torch.cuda, "current_device", lambda: 1)
    assert torch_device("cuda") == torch.device("cuda", 1)
    assert torch_device("cuda:0") == torch.device("cuda", 0)
    with pytest.raises(VariantError, match="there are 2 GPUs, numbered from 0"):
        torch_device("cuda:2")


def with_schedules(name, plan, **options):
    found = next(v for v in variants_of(PROGRAMS[name], "cuda") if v.id == f"{plan}/t64-p2048")
    schedules = tuple(dataclasses.replace(s, **options) for s in found.schedules)
    return dataclasses.replace(found, schedules=schedules)


def by_schedule(name, plan, graph, **options):
    """A variant's columns, by name, with other settings in its schedules: sums over launches."""
    table = CandidateTable.of((with_schedules(name, plan, **options),))
    return dict(zip(column_names("cuda"), table.columns(Domain(graph)).sum(axis=0), strict=True))


def with_launches(name, plan, device):
    """A variant of a plan as it is lowered for a device, with the schedule of a GPU."""
    found = next(v for v in variants_of(PROGRAMS[name], device) if v.id.startswith(f"{plan}/"))
    return dataclasses.replace(found, schedules=(GpuSchedule(),) * len(found.plan.launches))


@pytest.fixture
def unfused(monkeypatch):
    """What `with_launches` finds for CPUs, of kernels that stand alone."""

    def found(name, plan):
        variant = with_launches(name, plan, "cpu")
        with monkeypatch.context() as patch:
            patch.setattr(lowering, "fused", lambda launch, *_: launch)
            return dataclasses.replace(variant, plan=lowering.lower(variant.plan.program))

    return found


def columns_of(variant, graph):
    """Its columns, by name: sums over launches."""
    columns = CandidateTable.of((variant,)).columns(Domain(graph)).sum(axis=0)
    return dict(zip(column_names("cuda"), columns, strict=True))


def test_softmaxes_in_one_pass_are_counted_as_they_run(graph):
    once = columns_of(with_launches("rgat", "src+weights-first", "cuda"), graph)
    apart = columns_of(with_launches("rgat", "src+weights-first", "cpu"), graph)
    assert apart["edge_visits"] - once["edge_visits"] == 2 * graph.num_edges
    assert apart["scratch_bytes"] > once["scratch_bytes"]
    # What nodes need to know, then shares, then sums.
    assert apart["kernels"] == once["kernels"] + 2
    assert apart["starts"] == once["starts"] + 2


def test_elementwise_walks_are_counted_with_their_products(graph, unfused):
    """HGT's last product: the activation before it, and the skip connection behind."""
    plan = "src+scores-src+folded"
    fused = columns_of(with_launches("hgt", plan, "cuda"), graph)
    apart = columns_of(unfused("hgt", plan), graph)
    assert fused["starts"] == apart["starts"] - 4
    assert fused["kernels"] == apart["kernels"] - 4  # the softmax's shares and sum are part of it
    assert fused["walks"] < apart["walks"]
    assert fused["tiles"] == apart["tiles"]
    assert fused["write_bytes"] == apart["write_bytes"]
    assert fused["scratch_bytes"] < apart["scratch_bytes"]


def test_walks_have_programs_for_parts(graph):
    found = by_schedule("rgcn", "src", graph)
    assert found["walks"] == np.ceil(graph.num_nodes / 16) + np.ceil(graph.num_edges / (16 * 64))


def test_peaks_count_what_schedules_need(graph, unfused):
    def bytes_of(found):
        return layout_of(found.plan, found.schedules, Domain(graph)).scratch_bytes

    def scratch(name, plan, **options):
        return bytes_of(with_schedules(name, plan, **options))

    # In one pass no scores are in memory, nor what a node's shares are found with.
    scores, plan = 4 * graph.num_edges + 2 * 4 * graph.num_nodes, "src+scores-src+folded"
    assert (
        bytes_of(with_launches("rgat", "src+weights-first", "cpu"))
        == scratch("rgat", "src+weights-first") + scores
    )
    # Neither activated rows nor the last product's.
    plan = "src+scores-src+folded"
    assert bytes_of(with_launches("hgt", plan, "cpu")) == scratch("hgt", plan) + scores
    rows = 8 * 8 * graph.num_nodes
    assert bytes_of(unfused("hgt", plan)) == scratch("hgt", plan) + scores + rows
    # 32 floats for each part of nodes with several.
    assert scratch("rgcn", "src") == 0
    pieces = -(-Domain(graph).index("").in_degree // 8)
    parts = int(pieces[pieces > 1].sum())
    assert pieces.max() <= 8
    assert scratch("rgcn", "src", part_edges=8) == 4 * 32 * parts
