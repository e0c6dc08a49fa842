"""Campaigns: what a file may say, the problems that it comes to, and messages for the rest."""

import functools
import hashlib
import json
import re
import tomllib
from collections import Counter
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import hetune
from hetune.profiling import campaign as campaigns
from hetune.profiling.campaign import (
    PRESETS,
    Campaign,
    Sample,
    load,
    parse,
    problems,
    units,
    units_seconds,
)
from hetune.profiling.campaign.estimate import affordable_variants, least_variants, problem_seconds
from hetune.profiling.campaign.workloads import gradient_stages
from hetune.profiling.corpus import FAMILIES, build, recipe, size_of, with_edges_reversed
from hetune.profiling.jobs.queue import _digest
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import plan_ids, units_of
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.errors import CampaignError, GraphError
from hetune.variants.frontend.presets import HOMOGENEOUS, KERNELS, LAYERS, labeled_preset
from hetune.variants.passes.backward import backward
from hetune.variants.passes.stages import Stage
from hetune.variants.program.labeled import LabeledProgram
from hetune.variants.program.nodes import Program

ROADS = {"graphs": [{"kind": "road", "nodes": 9}], "squared": [8]}


def parsed(**data) -> Campaign:
    return parse({**ROADS, **data}, "mine.toml", 2)


# What a file says.


def test_every_key_is_read(tmp_path):
    (tmp_path / "mine.toml").write_text(
        """
        name = "all keys"
        layers = ["rgat", "hgt"]
        kernels = ["attention"]
        squared = [16, 32]
        widths = [8]
        heads = [1, 4]
        threads = ["all", 1]
        variants = "hybrid*"
        device = "cuda"

        [gradients]
        layers = "gat"
        squared = [8]
        heads = [2]

        [corpus]
        graphs = 2
        seed = 3
        least_edges = 50
        most_edges = 500

        [[graphs]]
        kind = "road"
        nodes = 9

        [[graphs]]
        name = "part"
        family = "own"
        kind = "subsample"
        edges = 0.5
        of = { kind = "clique", nodes = 10 }

        [sample]
        per_graph = 3
        most_seconds = 5
        seed = 1

        [limits]
        rounds = 8
        memory_bytes = 1_000_000_000
        """
    )
    found = load(tmp_path / "mine.toml", threads=6)
    assert found.name == "all keys"
    assert [graph.name for graph in found.graphs] == ["uniform-0", "kg-0", "road-0", "part"]
    assert found.graphs[3] == recipe(
        "part", "subsample", "own", {"edges": 0.5, "of": "clique", "of.nodes": 10}
    )
    assert found.programs == tuple(
        labeled_preset(name, width, width, heads)
        for name in ("rgat", "hgt", "attention")
        for width in (16, 32, 8)
        for heads in (1, 4)
    )
    assert (found.threads, found.variants) == ((6, 1), "hybrid*")
    assert found.sample == Sample(3, 5.0, 1)
    assert found.limits == Limits(rounds=8, memory_bytes=1_000_000_000)
    assert found.device == "cuda"
    assert found.gradients == (labeled_preset("gat", 8, 8, 2),)


def test_the_example_in_the_documents_is_a_campaign(tmp_path):
    page = (Path(__file__).resolve().parents[2] / "docs" / "profiling.md").read_text("utf-8")
    [example] = re.findall(r"^```toml\n(.*?)^```", page, re.M | re.S)
    (tmp_path / "graphs").mkdir()
    np.savez(tmp_path / "graphs" / "mine.npz", src=[0], dst=[1], etype=[0])
    found = parse(tomllib.loads(example), "example", folder=tmp_path)
    assert len(found.graphs) == 28
    assert build(found.graphs[26]).num_edges == 2


def test_json_says_the_same(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**ROADS, "limits": {"rounds": 8}}))
    assert load(path, threads=2) == replace(parsed(limits={"rounds": 8}), name="mine")


def test_what_is_left_out():
    found = parse(ROADS, "mine.toml", 5)
    assert found.name == "mine.toml"
    assert found.programs == tuple(labeled_preset(name, 8, 8) for name in LAYERS)
    assert (found.threads, found.variants) == ((5,), "*")
    assert (found.sample, found.limits) == (None, Limits())
    assert found.graphs == (recipe("road-0", "road", "road", {"nodes": 9}),)


def test_widths_are_squares_or_pairs():
    found = parsed(layers=["rgcn"], squared=[], widths=[8, [4, 12]]).programs
    assert [(program.d_in, program.d_out) for program in found] == [(8, 8), (4, 12)]


def test_kernels_stand_in_place_of_layers_or_beside_them():
    alone = parsed(kernels=["linear", "aggregate"])
    assert [program.label for program in alone.programs] == ["linear", "aggregate"]
    both = parsed(layers="rgcn", kernels="attention")
    assert [program.label for program in both.programs] == ["rgcn", "attention"]


OWN = "program p(x: node[6] feature, w: etype[6,4])\n  a: edge[6] = take x edge src\n"
OWN += "  b: edge[4] = linear a w\n  c: node[4] = sum b node\n  return c\n"


def test_programs_of_one_s_own_have_names(tmp_path):
    (tmp_path / "p.program").write_text(OWN)
    data = {key: value for key, value in ROADS.items() if key != "squared"}
    for given in ({"text": OWN}, {"file": "p.program"}):
        found = parse({**data, "programs": [{"name": "mine", **given}]}, "c", folder=tmp_path)
        assert [(p.label, p.text) for p in found.programs] == [("mine", OWN)]
        assert {unit.problem.program.label for unit in units(found)} == {"mine"}
    both = parse({**ROADS, "layers": ["rgcn"], "programs": {"name": "mine", "text": OWN}}, "c")
    assert [program.label for program in both.programs] == ["rgcn", "mine"]


def test_files_are_found_from_the_campaign_s_folder_and_known_by_content(tmp_path):
    (tmp_path / "mine.txt").write_text("a r b\n")
    of = {"kind": "file", "path": "mine.txt"}
    data = {**ROADS, "graphs": [of, {"kind": "subsample", "of": of, "name": "part"}]}
    whole, part = parse(data, "c", folder=tmp_path).graphs
    assert (
        dict(whole.options)["path"] == dict(part.options)["of.path"] == str(tmp_path / "mine.txt")
    )
    assert build(whole).num_edges == build(part).num_edges == 1
    assert (whole.family, part.family) == ("mine", "mine")
    (tmp_path / "mine.txt").write_text("a r b\na r c\n")
    assert parse(data, "c", folder=tmp_path).graphs[0] != whole
    with pytest.raises(CampaignError, match="has changed"):
        build(whole)


# The problems.


def test_all_combinations_come_once():
    found = problems(parsed(squared=[8, 16], widths=[8, [8, 16]], heads=[1, 2], threads=[1, 2]))
    expected = {
        (layer, d_in, d_out, heads, threads)
        for layer in ("rgcn", "rgat", "hgt")
        for d_in, d_out in ((8, 8), (16, 16), (8, 16))
        for heads in ((1,) if layer == "rgcn" else (1, 2))
        for threads in (1, 2)
    }
    asked = [
        (p.program.label, p.program.d_in, p.program.d_out, p.program.heads, p.threads)
        for p in found
    ]
    assert len(asked) == len(expected)
    assert set(asked) == expected


def test_kernels_are_problems_as_layers_are():
    found = problems(parsed(layers=["rgcn"], kernels=[*KERNELS], squared=[8, 16], heads=[1, 2]))
    expected = {(name, 1) for name in ("rgcn", *KERNELS)} | {("attention", 2)}
    asked = [(p.program.label, p.program.heads, p.program.d_in, p.program.d_out) for p in found]
    assert len(asked) == len(set(asked))
    assert set(asked) == {(*one, width, width) for one in expected for width in (8, 16)}
    for problem in found:
        plans = set(plan_ids(problem).values())
        alone = plans <= {"vanilla", "vanilla+one-pass"}
        assert alone == (problem.program.label in KERNELS)


def test_only_linear_changes_widths():
    [problem] = problems(parsed(kernels=["linear"], squared=[], widths=[[8, 16]]))
    assert (problem.program.d_in, problem.program.d_out) == (8, 16)


def test_layers_for_one_type_of_edges_have_widths_of_their_own():
    inner = {"layers": ["gcn", "gat"], "widths": [[256, 32]], "heads": [1, 4]}
    found = problems(parsed(layers=["rgcn"], homogeneous=inner))
    assert {problem.program.describe() for problem in found} == {
        "rgcn 8->8",
        "gcn 256->32",
        "gat 256->32",
        "gat 256->32, 4 heads",
    }
    assert {p.program.label for p in problems(parsed(homogeneous=inner))} == {"gcn", "gat"}


def test_scores_are_the_programs_that_batches_of_triples_run():
    found = problems(parsed(scores={"layers": ["distmult"], "squared": [8, 16]}))
    assert {problem.program.describe() for problem in found} == {"distmult 8->1", "distmult 16->1"}
    tables = {"entity": torch.ones(3, 8), "r": torch.ones(2, 8)}
    model = hetune.kge.scores["distmult"].model(**tables)
    assert LabeledProgram.of(model.program) in {problem.program for problem in found}


def test_programs_without_types_take_two_turns():
    inner = {"squared": [8, 16], "heads": [1, 2]}
    found = problems(
        parsed(
            **SAMPLED | {"sample": {"per_graph": 5}},
            homogeneous=inner,
            layers=["rgcn", "rgat", "hgt"],
        )
    )
    sums, scored = {"gcn", "sage", "gin"}, {"gat", "gatv2"}
    by_graph: dict[str, list[str]] = {}
    for problem in found:
        by_graph.setdefault(problem.graph.name, []).append(problem.program.label)
    for labels in by_graph.values():
        assert {"rgcn", "rgat", "hgt"} < set(labels)
        assert len(sums & set(labels)) == len(scored & set(labels)) == 1


def test_stages_of_gradients_are_problems_on_graphs_and_on_reversed_ones():
    inner = {"layers": ["rgcn", "gat"], "squared": [8, 16]}
    found = problems(parsed(layers=["hgt"], gradients=inner))
    labels = Counter(p.program.label for p in found)
    assert labels == {"hgt": 1, "rgcn gradient": 4, "gat gradient": 4}
    [graph] = {p.graph for p in found if p.program.label == "hgt"}
    expected = {
        (LabeledProgram.of(stage.program).digest, stage.is_reversed)
        for width in (8, 16)
        for stage in _stages(labeled_preset("rgcn", width, width).program)
    }
    stages = [p for p in found if p.program.label == "rgcn gradient"]
    assert {(p.program.digest, p.graph == with_edges_reversed(graph)) for p in stages} == expected
    assert {p.graph for p in stages} == {graph, with_edges_reversed(graph)}
    for problem in stages:
        again = ProblemSpec.from_dict(json.loads(json.dumps(asdict(problem))))
        assert again == problem
        assert units_of(again) == units_of(problem)


def _stages(program: Program) -> list[Stage]:
    found = backward(program, [param.name for param in program.params]).stages
    return [stage for stage in found if not stage.is_weights]


def test_gradients_have_the_graphs_that_their_layers_have(tmp_path):
    (tmp_path / "mine.txt").write_text("a r b\n")
    data = {"graphs": [{"kind": "file", "path": "mine.txt"}]}
    for layer, is_canonical in {"rgcn": False, "hgt": True}.items():
        inner = {"layers": layer, "squared": [8]}
        found = problems(parse({**data, "gradients": inner}, "c", folder=tmp_path))
        options = [dict(p.graph.options) for p in found]
        canonical = {o.get("canonical", o.get("of.canonical", False)) for o in options}
        assert canonical == {is_canonical}


def test_a_program_without_gradients_is_refused():
    text = "program p(x: node[2,3,6] feature, w: shared[3,6])\n"
    text += "  a: node[2,3] = dot x w\n  return a\n"
    with pytest.raises(CampaignError, match="mine has no gradients: "):
        gradient_stages(LabeledProgram.parse(text, "mine"))


def test_sums_over_everything_are_not_drawn_where_nothing_can_check_them():
    data = {"corpus": {"graphs": 6, "least_edges": 100_000, "most_edges": 1_000_000}}
    inner = {"squared": [32, 256], "layers": ["rgcn"]}
    data |= {"graphs": [], **inner, "gradients": inner, "sample": {"per_graph": 6}}
    sizes = [(sum(size_of(p.graph)), p.program) for p in problems(parsed(**data))]
    sums = {size * p.d_in for size, p in sizes if p.label == "rgcn gradient"}
    assert 1 << 21 < max(sums) <= 1 << 24
    assert max(size * p.d_in for size, p in sizes if p.label == "rgcn") > 1 << 24


def test_rows_that_fill_the_memory_are_not_drawn():
    inner = {"layers": ["gcn"], "squared": [8, 2048]}
    data = {"corpus": {"graphs": 6, "least_edges": 500_000, "most_edges": 1_000_000}}
    data |= {"graphs": [], "squared": [], "homogeneous": inner, "sample": {"per_graph": 2}}
    found = problems(parsed(**data))
    assert len({p.graph.name for p in found}) == 6
    for problem in found:
        nodes, _ = size_of(problem.graph)
        assert nodes * (problem.program.d_in + problem.program.d_out) * 4 <= 1 << 30
    assert {p.program.d_in for p in found} == {8, 2048}


SAMPLED = {
    "corpus": {"graphs": 2 * len(FAMILIES), "most_edges": 2000},
    "graphs": [],
    "squared": [8, 8, 8, 16],
    "sample": {"per_graph": 4},
}


def test_a_sample_gives_each_graph_its_share_of_layers_and_widths():
    found = problems(parsed(**SAMPLED))
    by_graph: dict[str, list[ProblemSpec]] = {}
    for problem in found:
        by_graph.setdefault(problem.graph.name, []).append(problem)
    assert len(by_graph) == 2 * len(FAMILIES)
    for members in by_graph.values():
        assert len(set(members)) == len(members) == 4
        assert {member.program.label for member in members} == {"rgcn", "rgat", "hgt"}
    first = Counter(problem.program.d_out for problem in found[: len(by_graph)])
    assert first[8] > first[16] > 0


def test_kernels_take_turns_with_layers():
    found = problems(parsed(**SAMPLED, layers=["hgt", "rgcn"], kernels=["aggregate", "linear"]))
    by_graph: dict[str, set[str]] = {}
    for problem in found:
        by_graph.setdefault(problem.graph.name, set()).add(problem.program.label)
    assert set(map(frozenset, by_graph.values())) == {
        frozenset({"hgt", "rgcn", "aggregate", "linear"})
    }


def test_the_order_is_mixed_and_always_the_same():
    found = problems(parsed(**SAMPLED))
    assert found == problems(parsed(**SAMPLED))
    turns = [found[start : start + 26] for start in range(0, len(found), 26)]
    for turn in turns:
        assert len({problem.graph.name for problem in turn}) == 26
    assert len({problem.graph.family for problem in found[:13]}) > 6
    other = parsed(**{**SAMPLED, "sample": {"per_graph": 4, "seed": 1}})
    assert found != problems(other)


def test_a_sample_measures_some_variants_of_what_is_costly():
    data = {**SAMPLED, "squared": [8, 256]}
    data["corpus"] = {"graphs": 6, "least_edges": 20_000, "most_edges": 1_000_000}
    data["sample"] = {"per_graph": 4, "most_seconds": 3}
    campaign = parsed(**data)
    costly = [
        problem
        for problem in problems(replace(campaign, sample=Sample(4)))
        if affordable_variants(problem, size_of(problem.graph), campaign.limits, 3)
        < least_variants(problem)
    ]
    found: dict[ProblemSpec, list[str]] = {}
    for unit in units(campaign):
        found.setdefault(unit.problem, []).append(plan_ids(unit.problem)[unit.variant])
    assert costly
    assert not found.keys() & set(costly)
    parts = set()
    for problem, plans in found.items():
        every = plan_ids(problem).values()
        drawn, schedules = Counter(plans), Counter(every)
        most = max(drawn.values())
        assert all(drawn[plan] >= min(most - 1, count) for plan, count in schedules.items())
        parts.add(len(plans) / len(every))
        cost = problem_seconds(problem, size_of(problem.graph), campaign.limits, len(plans))
        assert cost <= 3
    assert max(parts) == 1 > min(parts)
    assert units(campaign) == units(campaign)


def test_what_a_problem_should_take_counts_all_its_variants():
    for problem in problems(parsed(**SAMPLED)):
        size, limits = size_of(problem.graph), Limits()
        counted = problem_seconds(problem, size, limits, len(units_of(problem)))
        assert problem_seconds(problem, size, limits) == counted


def test_a_sample_leaves_out_what_would_be_given_up():
    data = {**SAMPLED, "limits": {"unit_seconds": 1e-9}}
    assert problems(parsed(**data)) == ()


def test_hgt_takes_files_split_by_node_types(tmp_path):
    (tmp_path / "mine.txt").write_text("a r b\n")
    data = {**ROADS, "graphs": [{"kind": "file", "path": "mine.txt"}]}
    found = problems(parse(data, "c", folder=tmp_path))
    split = {p.program.label: dict(p.graph.options).get("canonical", False) for p in found}
    assert split == {"rgcn": False, "rgat": False, "hgt": True}


def test_units_are_the_variants_that_match():
    every = units(parsed(layers=["rgcn"]))
    some = units(parsed(layers=["rgcn"], variants="vanilla*/b256"))
    assert 0 < len(some) < len(every)
    assert set(some) < set(every)
    assert all(unit.variant.startswith("vanilla") for unit in some)


# What it costs.


def cost_of(layer, nodes=1000, edges=10_000, width=32, **limits):
    problem = ProblemSpec(parsed().graphs[0], labeled_preset(layer, width, width, 1), 2)
    return problem_seconds(problem, (nodes, edges), Limits(**limits))


@pytest.mark.parametrize("name", [*LAYERS, *KERNELS])
def test_more_work_costs_more(name):
    cost = functools.partial(cost_of, name)
    assert 0 < cost() < cost(nodes=100_000) < 120
    assert cost() < cost(edges=100_000)
    assert cost() < cost(width=64)
    assert cost() < cost(rounds=14)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_problem_s_seconds_are_no_bound(layer):
    assert cost_of(layer, 1_000_000, 10_000_000, 256, problem_seconds=50) > 50


def test_units_cost_what_their_problems_cost():
    found = parsed(layers=["rgcn", "hgt"], kernels=["attention"])
    alone = [problem_seconds(p, size_of(p.graph), Limits()) for p in problems(found)]
    assert units_seconds(units(found), Limits()) == pytest.approx(sum(alone))


# The presets.


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_campaigns_of_generated_graphs(preset):
    found = load(preset, threads=2)
    assert found.name == preset
    assert {graph.family for graph in found.graphs} == set(FAMILIES)
    kinds = {dict(g.options).get("of", g.kind) for g in found.graphs}
    assert kinds <= {"typed", "road", "clique", "community"}


@functools.cache
def units_of_preset(preset: str) -> tuple[Unit, ...]:
    return units(load(preset, threads=2))


@pytest.mark.parametrize(
    ("preset", "minutes", "most_units", "most_programs"),
    [("smoke", 2, 1_500, 3), ("default", 20, 15_000, 100)],
)
def test_presets_keep_their_promise_of_time(preset, minutes, most_units, most_programs):
    found = load(preset, threads=2)
    asked = units_of_preset(preset)
    assert units_seconds(asked, found.limits) < 60 * minutes
    # What that leaves out: setting up a unit at all, and compiling, which is by program.
    assert len(asked) <= most_units
    assert len({unit.problem.program for unit in asked}) <= most_programs


def test_the_default_campaign_spans_what_models_have_to_know():
    found = load("default", threads=2)
    sizes = sorted(size_of(graph)[1] for graph in found.graphs)
    assert 80 <= len(sizes) <= 100
    assert sizes[0] < 300 < 1_000_000 < sizes[-1]
    assert all(after < 6 * before for before, after in pairwise(sizes))
    asked = {unit.problem for unit in units_of_preset("default")}
    layers = Counter(problem.program.label for problem in asked)
    assert layers.keys() == {*LAYERS, *(f"{name} gradient" for name in LAYERS), "gcn", "gat"}
    assert max(layers.values()) < 1.6 * min(layers.values())
    chosen = [p for p in asked if len(set(plan_ids(p).values())) > 1]
    assert len(chosen) > 0.9 * len(asked)
    squares = Counter(p.program.d_out for p in asked if p.program.d_in == p.program.d_out)
    assert min(squares[width] for width in (32, 64, 128, 256)) > 25
    assert {p.program.heads for p in asked} == {1, 4, 8}
    rows = {p.program.d_in for p in asked if p.program.label in HOMOGENEOUS}
    assert min(rows) == 8
    assert max(rows) == 2048
    assert {p.threads for p in asked} == {1, 2}


# On a GPU.


def test_problems_of_gpus_say_so_and_have_one_thread():
    cpu, gpu = (parsed(threads=[1, 2], heads=[1, 2], device=device) for device in ("cpu", "cuda"))
    assert {(p.device, p.threads) for p in problems(cpu)} == {("cpu", 1), ("cpu", 2)}
    assert {(p.device, p.threads) for p in problems(gpu)} == {("cuda", 1)}
    assert len(problems(gpu)) == len(problems(cpu)) / 2
    assert not {unit.key for unit in units(gpu)} & {unit.key for unit in units(cpu)}


def test_nothing_is_left_away_for_times_of_gpus_that_nobody_knows():
    sample = {"per_graph": 3, "most_seconds": 1e-6}
    assert problems(parsed(sample=sample)) == ()
    found = parsed(sample=sample, device="cuda")
    assert units(found) == tuple(u for p in problems(found) for u in units_of(p))
    assert {p.program.label for p in problems(found)} == {"rgcn", "rgat", "hgt"}


def test_a_device_may_be_given_in_place_of_the_campaign_s():
    assert [load(name).device for name in PRESETS] == ["cpu", "cpu", "cpu", "cuda"]
    assert load("default", device="cuda") == replace(load("default"), device="cuda")
    assert load("gpu", device="cpu").device == "cpu"
    with pytest.raises(CampaignError, match="no device 'gpu': take one of cpu, cuda"):
        load("default", device="gpu")


def test_the_campaign_for_gpus_is_small():
    asked = problems(load("gpu"))
    assert 40 <= len(asked) <= 52
    assert {p.device for p in asked} == {"cuda"}
    assert {(p.program.d_out, p.program.heads) for p in asked} == {(32, 1), (64, 1), (128, 1)}


# What goes wrong.


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"widhts": [8]}, "unknown key 'widhts'; known are corpus, device, gradients, graphs, "
         "heads, homogeneous, kernels, layers, limits, name, programs, sample, scores, squared, "
         "threads, variants, widths"),
        ({"device": "gpu"}, "no device 'gpu': take one of cpu, cuda"),
        ({"name": 3}, "name is 3: give a text"),
        ({"layers": ["gcn"]}, "layers is ['gcn']: take of hgt, rgat, rgcn"),
        ({"layers": []}, "layers is []: take of hgt, rgat, rgcn"),
        ({"layers": ["linear"]}, "layers is ['linear']: take of hgt, rgat, rgcn"),
        ({"layers": [], "kernels": ["linear"]}, "layers is []: take of hgt, rgat, rgcn"),
        ({"kernels": ["rgcn"]}, "kernels is ['rgcn']: take of aggregate, attention, linear"),
        ({"kernels": []}, "kernels is []: take of aggregate, attention, linear"),
        ({"kernels": ["linear", "aggregate"], "widths": [[8, 4]]}, "rows of width 8 are as wide "
         "after 'aggregate', not 4: take equal widths, or a campaign of its own"),
        ({"kernels": ["attention"], "heads": [3]}, "width 8 does not divide into 3 heads: take "
         "others"),
        ({"squared": []}, "it has no widths: give squared or widths"),
        ({"squared": [0]}, "squared is [0]: give whole numbers of 1 or more"),
        ({"widths": [[8, 8, 8]]}, "widths is [[8, 8, 8]]: give widths such as 64, or pairs such as "
         "[64, 16]"),
        ({"heads": [1.5]}, "heads is [1.5]: give whole numbers of 1 or more"),
        ({"heads": []}, "heads is []: give whole numbers of 1 or more"),
        ({"heads": [3]}, "width 8 does not divide into 3 heads: take others"),
        ({"threads": ["some"]}, "threads is ['some']: give whole numbers from 1 to 1024, or "
         "\"all\""),
        ({"threads": [2, 1025]}, "threads is [2, 1025]: give whole numbers from 1 to 1024, or "
         "\"all\""),
        ({"graphs": []}, "it has no graphs: give [corpus] or [[graphs]]"),
    ],
)  # fmt: skip
def test_a_wrong_campaign_is_refused(data, message):
    with pytest.raises(CampaignError) as error:
        parsed(**data)
    assert str(error.value) == f"mine.toml: {message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"homogeneous": {"kernels": ["linear"]}},
            "mine.toml, homogeneous: unknown key 'kernels'; known are heads, layers, squared, "
            "widths",
        ),
        (
            {"homogeneous": {"layers": ["rgcn"], "squared": [8]}},
            "mine.toml, homogeneous: layers is ['rgcn']: take of gat, gatv2, gcn, gin, sage",
        ),
        (
            {"homogeneous": {"layers": ["gcn"]}},
            "mine.toml, homogeneous: it has no widths: give squared or widths",
        ),
        ({"graphs": [{}]}, "mine.toml, graphs[0]: kind is None: give a text"),
        ({"graphs": ["road"]}, "mine.toml, graphs[0] is 'road': give a table of keys and values"),
        (
            {"graphs": [{"kind": "grid"}]},
            "mine.toml, graphs[0]: graph 'grid-0': no kind 'grid'; take one of clique, community, "
            "file, published, reversed, road, subsample, typed",
        ),
        (
            {"graphs": [{"kind": "road", "nodes": [9]}]},
            "mine.toml, graphs[0]: nodes is [9]: give a number, a text, or a boolean",
        ),
        (
            {"graphs": [{"kind": "subsample", "of": {"nodes": 9}}]},
            "mine.toml, graphs[0], of: kind is None: give a text",
        ),
        (
            {"graphs": [{"kind": "road", "nodes": 9, "name": "a"}] * 2},
            "mine.toml: two graphs are called 'a': give each a name of its own",
        ),
        (
            {"corpus": {"graphs": 3, "sizes": 2}},
            "mine.toml, corpus: no option 'sizes'; it takes graphs, least_edges, most_edges, seed",
        ),
        ({"sample": {}}, "mine.toml, sample: the option 'per_graph' is missing: give it"),
        (
            {"limits": {"rounds": "many"}},
            "mine.toml, limits: rounds is 'many', of type str: give one of type int",
        ),
        (
            {"sample": {"per_graph": 0}},
            "mine.toml, sample: per_graph=0, most_seconds=inf and "
            "seed=0: take 1 or more problems, more than 0 seconds, and a seed of 0 or more",
        ),
    ],
)
def test_a_wrong_part_of_a_campaign_is_named(data, message):
    with pytest.raises(CampaignError) as error:
        parsed(**data)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"variants": "hybird*"},
            "no variant of its programs has an id that matches 'hybird*': take another pattern, "
            "such as 'hybrid*'; `hetune variants` shows ids",
        ),
        (
            {"sample": {"per_graph": 3, "most_seconds": 1e-6}},
            "all problems should take too long: give its sample more most_seconds, or its limits "
            "more unit_seconds; or take smaller graphs or widths",
        ),
    ],
)
def test_a_campaign_that_measures_nothing_is_refused(data, message):
    with pytest.raises(CampaignError) as error:
        units(parsed(**data))
    assert str(error.value) == f"the campaign 'mine.toml' has nothing to measure: {message}"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "graphs = ", "a.toml is no TOML: "),
        ("a.toml", "heads = 1\nheads = 2", "a.toml is no TOML: "),
        ("a.json", "{", "a.json is no JSON: "),
        ("a.json", '{"heads": 1, "heads": 2}', "the key 'heads' stands there twice"),
        ("a.json", "[" * 100_000, "a.json is no JSON: "),
        ("a.json", "[1]", "a.json is [1]: give a table of keys and values"),
        ("a.toml", b"\xff", "a.toml is no TOML: "),
    ],
)
def test_files_that_are_none(name, text, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CampaignError) as error:
        load(path)
    assert message in str(error.value)


def test_a_campaign_that_is_not_there(tmp_path):
    with pytest.raises(CampaignError) as error:
        load(tmp_path / "none.toml")
    assert str(error.value) == (
        f"{tmp_path / 'none.toml'} cannot be read (No such file or directory): give the path of a "
        "TOML or JSON file, or one of smoke, default, full, gpu"
    )
    missing = {"kind": "file", "path": "none.txt"}
    with pytest.raises(CampaignError, match="cannot be read"):
        parse({**ROADS, "graphs": [missing]}, "c", folder=tmp_path)


def test_the_names_are_those_that_the_folder_has():
    folder = campaigns.read.resources.files("hetune.profiling") / "presets"
    assert {path.name for path in folder.iterdir()} == {f"{name}.toml" for name in PRESETS}


def test_a_file_that_is_no_graph_is_the_caller_s_business(tmp_path):
    (tmp_path / "mine.txt").write_text("")
    data = {**ROADS, "graphs": [{"kind": "file", "path": "mine.txt"}], "sample": {"per_graph": 1}}
    with pytest.raises(GraphError, match="mine"):
        problems(parse(data, "c", folder=tmp_path))


def test_sampling_reads_a_file_as_often_for_many_problems_as_for_one(tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_text("a r b\n")
    data = {**ROADS, "graphs": [{"kind": "file", "path": "mine.txt"}], "squared": [4, 8, 16]}
    reads = []
    monkeypatch.setattr(
        "hetune.profiling.corpus.sources.load",
        lambda *args, **options: reads.append(1) or hetune.load(*args, **options),
    )
    for count in (1, 3):
        sample = {"layers": ["rgcn"], "sample": {"per_graph": count}}
        found = units(parse({**data, **sample}, "c", folder=tmp_path))
        assert len({unit.problem for unit in found}) == count
    assert len(reads) == 2 * 2  # to choose problems, and their variants


def test_a_job_s_digest_is_that_of_all_facts_and_keys_as_json():
    keys = {hashlib.sha256(str(number).encode()).hexdigest() for number in range(1000)}
    whole = json.dumps(["mine", {"rounds": 3}, False, None, sorted(keys)])
    found = _digest(["mine", {"rounds": 3}, False, None], keys)
    assert found == hashlib.sha256(whole.encode()).hexdigest()
