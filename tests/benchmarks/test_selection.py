"""What selection is judged on, in which order it is measured, and what is kept of it."""

import dataclasses
import json

import pytest
from tests.costmodel._synthetic import problems, small_model
from tests.profiling._filled import fill

pytest.importorskip("matplotlib")

import selection
from _selection_finals import finalists, key, settle
from _selection_graphs import FEW, GRAPHS, PAIRS, specs, split
from tests.profiling._made_up import MACHINE as MEASURED_ON
from tests.profiling._made_up import measurement

from hetune.costmodel.evaluate.report import MODEL, evaluate
from hetune.costmodel.model import bundle
from hetune.costmodel.problems import CandidateSample, Problem
from hetune.profiling.store.store import Store
from hetune.variants.frontend.presets import labeled_preset


def problem(graph: str, family: str, times: dict[str, float]) -> Problem:
    candidates = tuple(CandidateSample(v, t, 0.01 * t, ()) for v, t in times.items())
    return Problem(graph, family, (), labeled_preset("rgcn", 64, 64), 2, "m", candidates)


def test_all_pairs_of_widths_are_there_once():
    assert len(PAIRS) == len(set(PAIRS)) == 16
    assert set(FEW) < set(PAIRS)


def test_every_graph_is_seen_before_any_is_seen_again_and_large_ones_get_few_pairs():
    wanted = specs(GRAPHS)
    first = wanted[: 3 * len(GRAPHS)]
    assert {(s.program.d_in, s.program.d_out) for s in first} == {PAIRS[0]}
    assert [s.graph.name for s in first[::3]] == [graph.name for graph in GRAPHS]
    assert [s.program.label for s in first[:3]] == ["rgcn", "rgat", "hgt"]
    large = {graph.name for graph in GRAPHS if graph.large}
    assert len(wanted) == 48 * (len(GRAPHS) - len(large)) + 12 * len(large)
    assert {(s.program.d_in, s.program.d_out) for s in wanted if s.graph.name in large} == set(FEW)


def test_hgt_gets_canonical_graphs_and_no_family_is_a_generated_one():
    wanted = specs(GRAPHS)
    for spec in wanted:
        assert dict(spec.graph.options).get("canonical", False) == (spec.program.label == "hgt")
        assert spec.graph.family.startswith("real/")
    assert len({spec.graph.family for spec in wanted}) == 9


def test_stages_of_gradients_are_judged_on_graphs_that_are_not_large():
    few = [graph for graph in GRAPHS if graph.name in ("umls", "imdb")]
    wanted = specs(few, ["hgt", "hgt gradient"], [(64, 64)])
    assert [(s.graph.name, s.program.label, s.graph.kind) for s in wanted] == [
        ("umls", "hgt", "file"),
        ("umls", "hgt gradient", "file"),
        ("umls", "hgt gradient", "reversed"),
        ("imdb", "hgt", "file"),
    ]


def test_drawn_twins_of_real_graphs_are_not_trained_on():
    found = [problem(f, f, {"a": 1.0}) for f in ("hub", "aifb", "fb15k", "real/rdf", "road")]
    training, judged = split(found)
    assert [p.family for p in training] == ["hub", "road"]
    assert [p.family for p in judged] == ["real/rdf"]


@pytest.fixture
def report():
    judged = [
        problem("g1", "real/rdf", {"a": 1.0, "b": 1.3}),
        problem("g2", "real/rdf", {"a": 2.0, "b": 1.0}),
    ]
    return evaluate(judged, {MODEL: lambda p: "b"}, {"split": "s"})


def test_the_record_is_json_and_says_which_goals_are_met(report):
    record = json.loads(json.dumps(selection.as_record(report)))
    assert record["scores"][MODEL]["regret"] == pytest.approx(1.3**0.5)
    assert record["inputs"][0]["input"] == "rgcn/g1/64x64"
    assert record["inputs"][0][MODEL] == "b 1300"
    met = {name: goal["met"] for name, goal in record["goals"].items()}
    assert met == {
        "regret, geometric mean": False,
        "regret, 95th percentile": False,
        "slower than best fixed by more than noise, share": True,
        "slower than best fixed, at worst": True,
    }
    assert record["goals"]["regret, geometric mean"]["reached"] == pytest.approx(1.3**0.5)


def test_an_empty_store_is_said_and_no_error(tmp_path, capsys):
    place = tmp_path / "store.db"
    Store.open(place).close()
    assert selection.main(["--store", str(place), "--out", str(tmp_path / "out.json")]) == 0
    assert "run `hetune profile default`" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "out.json").exists()


def test_all_variants_are_measured_on_the_graphs_that_are_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HETUNE_DATA", str(tmp_path))
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "umls.npz").touch()
    asked = []
    monkeypatch.setattr(selection, "run_units", lambda units, *_, **__: asked.append(units) or {})
    arguments = ["--store", str(tmp_path / "store.db"), "--pairs", "32x32"]
    assert selection.main(["measure", *arguments]) == 0
    (units,) = asked
    assert len(units) == 97
    assert len({unit.problem for unit in units}) == 3
    shown = capsys.readouterr().out
    assert "measured: nothing" in shown
    assert "skipped fb15k" in " ".join(shown.split())
    with pytest.raises(SystemExit, match="finals are kept apart"):
        selection.main(["finals", *arguments])
    assert selection.main(["finals", *arguments, "--finals", str(tmp_path / "finals.db")]) == 0
    assert asked[1] == []  # nothing was measured of which there were finalists


FIRST = {"a": 1.0, "b": 1.05, "c": 1.6, "d": 2.0}


def test_finalists_are_those_that_may_be_fastest():
    assert finalists(problem("g", "real/rdf", FIRST)) == {"a", "b"}
    assert finalists(problem("g", "real/rdf", {"a": 1.0, "c": 1.6})) == set()


def test_a_final_decides_and_the_others_keep_their_distance():
    first = problem("g", "real/rdf", FIRST)
    (found,) = settle([first], [[problem("g", "real/rdf", {"a": 2.2, "b": 2.1, "c": 0.1})]])
    times = {c.variant: c.seconds for c in found.candidates}
    assert found.best.variant == "b"
    assert times["a"] == pytest.approx(2.2)
    assert times["b"] == pytest.approx(2.1)
    assert times["c"] / times["d"] == pytest.approx(0.8)
    assert times["d"] == pytest.approx(2.0 * (2.2 + 2.0) / 2)
    other = problem("h", "real/rdf", FIRST)
    assert settle([other], [[found]]) == [other]


def test_of_several_sessions_medians_count_whatever_the_machine_did():
    first = problem("g", "real/rdf", FIRST)
    usual, slow = {"a": 1.0, "b": 1.1}, {"a": 3.0, "b": 3.3}
    sessions = [[problem("g", "real/rdf", times)] for times in (usual, slow, {"a": 1.4, "b": 1.0})]
    (found,) = settle([first], sessions)
    times = {c.variant: c.seconds for c in found.candidates}
    assert times["b"] / times["a"] == pytest.approx(1.1)
    assert times["d"] / times["c"] == pytest.approx(2.0 / 1.6)
    (alike,) = settle([first], sessions[:2])
    assert alike.candidates[0].error == pytest.approx(0.0, abs=1e-9)
    assert found.candidates[0].error > 0.05 * found.candidates[0].seconds  # sessions disagree


def test_choices_of_an_unsteady_machine_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("hetune.profiling.store.problems.MOST_DRIFT", 0.5)
    first = problem("busy", "real/rdf", FIRST)
    first = dataclasses.replace(first, machine=MEASURED_ON.digest)
    same = ("family", "program", "threads", "machine")
    facts = {name: getattr(first, name) for name in same}
    drifts = [(graph, d) for graph in ("busy", "one plan") for d in (0.6, 0.7, 0.0)]
    drifts += [(graph, d) for graph in ("calm", "quiet") for d in (0.6, 0.1, 0.0)]
    options = selection.parser().parse_args(["--threads", str(first.threads), "--layers", "rgcn"])
    with Store.open(tmp_path / "store.db") as store:
        store.add(
            [
                measurement(
                    n,
                    graph=graph,
                    graph_fingerprint=graph,
                    plan=graph if graph == "one plan" else f"{n}",
                    drift=drift,
                    **facts,
                )
                for n, (graph, drift) in enumerate(drifts)
            ],
            MEASURED_ON,
        )
        _, judged = selection._problems(store, options, [])
        found = selection._inputs(store, options) - {key(each) for each in judged}
    assert found == {key(first)}
    assert selection.named(found) == ["rgcn/busy/64x64"]


def test_a_bundle_is_judged_on_a_store(tmp_path, capsys):
    """Trained families for the baselines, real ones to judge on, and the record of both."""
    place, out = tmp_path / "store.db", tmp_path / "selection.json"
    fill(place, problems(graph_families=2))
    fill(place, problems(graph_families=2, seed=5), prefix="real/")
    bundle.save(small_model(), tmp_path / "bundle")
    arguments = ["--store", str(place), "--bundle", str(tmp_path / "bundle"), "--threads", "2"]
    assert selection.main([*arguments, "--out", str(out)]) == 0
    record = json.loads(out.read_text())
    assert record["judged"]["inputs"] == 8
    assert record["scores"][MODEL]["overhead_runs"] is None  # measured on a machine made up
    assert record["scores"]["first-run autotuning"]["overhead_runs"] > 1
    assert "The last column is what choosing took" in " ".join(capsys.readouterr().out.split())
    few = ("--pairs", "32x32", "--graphs", "g0-0,g0-1")
    assert selection.main([*arguments, *few, "--out", str(out)]) == 0
    assert json.loads(out.read_text())["judged"]["inputs"] == 2
