"""`hetune run` and `bench`: the main job on tiny graphs, and the messages for what goes wrong."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, save_file

import hetune as library
from hetune.clients.cli import compare, layer_run
from hetune.clients.cli.files import read_arrays
from hetune.clients.cli.options import read_options
from hetune.clients.cli.sources import GraphSource, LayerSource, features
from hetune.variants.errors import GraphFileError, InputError
from hetune.variants.frontend.presets import preset_programs
from hetune.variants.graph import Vocabulary
from hetune.variants.plan.variants import variants_of
from hetune.variants.registry import Registry

WIDTH = ("--layer", "rgcn", "--width", "8")
QUICK = (*WIDTH, "--top", "1", "--rounds", "2")


def test_the_file_holds_what_the_compiled_module_returns(hetune, graph_file, tmp_path):
    path = tmp_path / "out.safetensors"
    result = hetune("run", graph_file, *QUICK, "--inverse", "--seed", 3, "--out", path)
    assert result.exit_code == 0, result.output

    graph = GraphSource(str(graph_file), inverse=True).open()
    layer = library.compile(LayerSource("rgcn", 8, seed=3).module(graph))
    x = features(graph, 8, seed=3)
    choice = layer.explain(x, graph)
    with torch.no_grad():
        expected = layer(x, graph, variant=choice.id)
    assert torch.equal(load_file(path)["out"], expected)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    assert metadata["graph_fingerprint"] == graph.fingerprint
    assert (metadata["layer"], metadata["variant"]) == ("rgcn", choice.id)

    assert "30 nodes of 2 types, 240 edges of 6 types" in result.stdout
    assert f"{choice.id}: {choice.reason}" in result.stdout
    (chosen,) = (line for line in result.stdout.splitlines() if line.startswith(" >"))
    assert choice.id in chosen
    assert "vanilla/" in result.stdout
    assert "outputs agree" in result.stdout
    assert "indexes and folded weights are not counted" in " ".join(result.stdout.split())
    assert f"wrote [30, 8] float32 to {path}" in result.stdout
    assert "\x1b" not in result.output
    assert [p.name for p in tmp_path.iterdir()] == ["out.safetensors"]


def test_a_variant_can_be_asked_for(hetune, graph_file, tmp_path):
    path = tmp_path / "out.safetensors"
    result = hetune("run", graph_file, *QUICK, "--variant", "vanilla/b256", "--out", path)
    assert result.exit_code == 0, result.output
    assert "vanilla/b256: as asked for" in result.stdout
    with safe_open(path, "pt") as file:
        assert file.metadata()["variant"] == "vanilla/b256"


def test_on_a_graph_of_one_side_a_hybrid_variant_is_the_plan_of_that_side(hetune, tmp_path):
    path = tmp_path / "many_to_few.npz"
    np.savez(path, src=np.arange(3, 33), dst=np.arange(30) % 3, etype=np.zeros(30, int))
    result = hetune("run", path, *QUICK, "--variant", "hybrid/b256")
    assert result.exit_code == 0, result.output
    assert "dst/b256: what hybrid/b256 runs on this graph" in result.stdout
    (chosen,) = (line for line in result.stdout.splitlines() if line.startswith(" >"))
    assert "dst/b256" in chosen


def test_weights_and_features_from_files(hetune, graph_file, tmp_path):
    graph = GraphSource(str(graph_file)).open()
    module = LayerSource("rgcn", 8, seed=7).module(graph)
    x = torch.randn(30, 8)
    save_file(module.state_dict(), tmp_path / "weights.safetensors")
    np.savez(tmp_path / "x.npz", author=x[:15].numpy(), paper=x[15:].numpy())
    files = ("--weights", tmp_path / "weights.safetensors", "--features", tmp_path / "x.npz")
    path = tmp_path / "out.safetensors"
    result = hetune("run", graph_file, *QUICK, *files, "--out", path)
    assert result.exit_code == 0, result.output
    want = module(x, graph)
    assert torch.allclose(load_file(path)["out"], want, rtol=0, atol=1e-5 * want.abs().max().item())


@pytest.mark.skipif(not Path("/proc/self/fd/1").exists(), reason="no files for open files")
def test_results_alone_go_to_standard_output_that_is_asked_for(graph_file):
    command = "from hetune.clients.cli.start import main; main()"
    arguments = [*map(str, (graph_file, *QUICK))]

    def written(*more):
        return subprocess.run(
            [sys.executable, "-c", command, *more], capture_output=True, check=True, timeout=300
        )

    outcome = written("run", *arguments, "--out", "/proc/self/fd/1")
    assert load(outcome.stdout)["out"].shape == (30, 8)
    assert b"float32 to /proc/self/fd/1" in outcome.stderr
    outcome = written("bench", *arguments, "--json", "/proc/self/fd/1")
    assert json.loads(outcome.stdout)["width"] == 8
    assert b"vanilla ms" in outcome.stderr


def test_bench_compares_graphs_and_writes_json(hetune, graph_file, tmp_path):
    path = tmp_path / "bench.json"
    result = hetune("bench", graph_file, graph_file, *QUICK, "--json", path)
    assert result.exit_code == 0, result.output
    record = json.loads(path.read_text())
    assert (record["layer"], record["width"], len(record["graphs"])) == ("rgcn", 8, 2)
    first = record["graphs"][0]
    times = {v["id"]: v["median_ms"] for v in first["variants"]}
    assert first["best"] == min(times, key=times.get)
    assert first["regret"] == pytest.approx(times[first["chosen"]] / times[first["best"]], rel=0.05)
    assert all(len(v["times_ms"]) == 2 for v in first["variants"])
    assert first["chosen"] in result.stdout
    assert first["best"] in result.stdout


def test_variants_that_store_bfloat16_agree_with_those_that_do_not(hetune, graph_file):
    options = ("--layer", "rgcn", "--width", "32", "--all", "--rounds", "1", "--precision", "bf16")
    result = hetune("run", graph_file, *options)
    assert result.exit_code == 0, result.output
    assert "+bf16/" in result.stdout
    assert "outputs agree" in result.stdout


def test_variants_that_disagree_are_an_error(hetune, graph_file, monkeypatch):
    monkeypatch.setattr(compare, "TOLERANCE", -1.0)
    result = hetune("run", graph_file, *QUICK)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: outputs of variants differ by ")


def test_a_single_kernel_is_no_layer(hetune, graph_file):
    result = hetune("run", graph_file, "--layer", "linear")
    assert result.exit_code == 2
    assert "linear" in result.stderr


@pytest.mark.parametrize("top", [None, 2])
def test_the_best_of_each_plan_and_vanilla_are_timed(top):
    rows = [("hybrid/b1", 1.0), ("hybrid/b2", 2.0), ("src/b1", 3.0), ("dst/b1", 4.0)]
    rows += [("vanilla/b1", 5.0), ("vanilla/b2", 6.0)]
    everything = tuple(
        library.Candidate(name, name.partition("/")[0], seconds, 8) for name, seconds in rows
    )
    timed, left_out = compare.candidates(everything, "hybrid/b2", top, None, 1 << 30)
    ids = [candidate.id for candidate in timed]
    assert ids[0] == "hybrid/b2"
    if top is None:
        assert sorted(ids) == sorted(name for name, _ in rows)
    else:
        assert ids[1:] == ["hybrid/b1", "src/b1", "vanilla/b1"]
    assert left_out == 0


def test_variants_that_need_more_than_the_free_memory_are_left_out():
    huge = tuple(library.Candidate(f"{plan}/b1", plan, 1.0, 1 << 60) for plan in ("src", "dst"))
    everything = (*huge, library.Candidate("vanilla/b1", "vanilla", 9.0, 8))
    timed, left_out = compare.candidates(everything, "src/b1", 6, None, 1 << 30)
    assert ([c.id for c in timed], left_out) == (["src/b1", "vanilla/b1"], 1)


def test_explain_compiles_nothing(hetune, graph_file, monkeypatch):
    names, load = set(), Registry.load
    monkeypatch.setattr(Registry, "build", None)
    monkeypatch.setattr(
        Registry, "load", lambda self, source: names.add(source.name) or load(self, source)
    )
    result = hetune("explain", graph_file, "--layer", "hgt", "--width", 8, "--heads", 2)
    assert result.exit_code == 0, result.output
    for variant in variants_of(*preset_programs("hgt", 8, 2), "cpu"):
        assert variant.id in result.stdout
    assert names <= {"graph-index", "graph-features", "launch-features", "trees"}  # no launch


def errors() -> list[tuple[tuple[object, ...], str]]:
    layer = ("--layer", "rgcn")
    return [
        (
            ("nosuch", *layer),
            "nosuch: no such file or folder, and no graph of that name can be generated: give a "
            "path, or one of aifb, am, bgs, biokg, fb15k, mag, mutag, wikikg2",
        ),
        (
            ("GRAPH", *layer, "--heads", 2),
            "rgcn has no heads, but --heads is 2: leave it out",
        ),
        (("GRAPH", *layer, "--width", 0), "width 0 with 1 heads: both are at least 1"),
        (
            ("GRAPH", "--layer", "rgat", "--width", 9, "--heads", 2),
            "width 9 does not divide into 2 heads: take a multiple",
        ),
        (("GRAPH", *layer, "--width", 65537), "width 65537: take at most 65536"),
        (("GRAPH", *layer, "--threads", 1025), "--threads 1025: take 1 to 1024"),
        (("GRAPH", *layer, "--rounds", 0), "--rounds and --top: take 1 or more"),
        *(
            (
                ("GRAPH", *layer, "--memory-limit", text),
                f"--memory-limit '{text}' is no size: give a number with a unit, such as 500MB",
            )
            for text in ("2 cups", "9" * 400)
        ),
        (
            ("GRAPH", *layer, "--variant", "best"),
            "no variant 'best': `hetune variants --layer rgcn` lists them",
        ),
        (
            ("GRAPH", *layer, "--out", "no/such/folder/out"),
            "no/such/folder/out is no file that can be written: name a file in a folder that "
            "exists and may be written to",
        ),
        (
            ("GRAPH", *layer, "--out", "x" * 300),
            f"{'x' * 300} is no file that can be written: name a file in a folder that exists and "
            "may be written to",
        ),
        (("aifb", *layer, "--scale", -1), "scale is -1.0: give a positive number"),
        (
            ("aifb", *layer, "--read", "relabel=true"),
            "aifb is generated, not read: leave --format and --read out",
        ),
        *(
            (
                ("GRAPH", *layer, "--read", text),
                f"--read '{text}': give NAME=VALUE: delimiter, columns, comment, split, "
                "node_types, on_error, vocabulary or unknown and a text, header, relabel, literals "
                "or node_names and true or false, num_nodes or num_etypes and a number, "
                "bipartite and two names with a comma, or like and a graph's file",
            )
            for text in ("relabel=yes", "src", "num_nodes=" + "9" * 20)
        ),
    ]


@pytest.mark.parametrize(("arguments", "message"), errors())
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, hetune, graph_file):
    result = hetune("run", *(graph_file if a == "GRAPH" else a for a in arguments))
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")


@pytest.mark.parametrize("seed", [-1, 2**63, 10**30])
def test_seeds_that_are_out_of_range(seed, hetune, graph_file):
    result = hetune("run", graph_file, *QUICK, "--seed", seed)
    assert result.exit_code == 2
    assert "Invalid value for '--seed'" in result.stderr


def test_a_memory_limit_that_nothing_meets(hetune, graph_file):
    result = hetune("run", graph_file, *QUICK, "--memory-limit", "1B")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: every variant needs more than the limit of 1 bytes")


def test_tables_are_read_as_the_command_says(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("from\tto\tkind\n7\t900\ta\n")
    given = ["columns=src:from,dst:to,etype:kind", r"delimiter=\t", "relabel=true"]
    graph = GraphSource(str(path), ".csv", read=given).open()
    assert (graph.num_nodes, graph.etype_names) == (2, ("a",))
    names = tmp_path / "names.json"
    Vocabulary(relations=("b", "a")).save(names)
    given += [f"vocabulary={names}", "unknown=drop"]
    graph = GraphSource(str(path), ".csv", read=given).open()
    assert graph.etype_names == ("b", "a")


def test_a_file_is_read_like_a_graph_in_another(tmp_path):
    rows = tmp_path / "rows.tsv"
    rows.write_text("ann\tlikes\tbob\nbob\thates\tann\n")
    first = GraphSource(str(rows), read=["node_names=true"]).open()
    assert first.node_names == {"node": ("ann", "bob")}
    first.save(tmp_path / "first.npz")
    later = tmp_path / "later.tsv"
    later.write_text("bob\thates\tann\n")
    given = ["node_names=true", f"like={tmp_path / 'first.npz'}"]
    graph = GraphSource(str(later), read=given).open()
    assert graph.vocabulary() == first.vocabulary()
    assert (graph.src.tolist(), graph.etype.tolist()) == ([1], [1])
    with pytest.raises(GraphFileError, match=r"none\.npz does not exist"):
        read_options([f"like={tmp_path / 'none.npz'}"])


def test_the_option_that_a_message_gives_works_on_the_command_line(hetune, tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("0 1 0.5\n1 2 0.5\n2 0 0.5\n")
    result = hetune("run", path, *QUICK)
    assert result.exit_code == 2
    assert 'give columns="src,dst,weight"' in result.stderr
    assert "    0 1 0.5\n    1 2 0.5\n" in result.stderr
    assert (
        "3 edges of 1 type"
        in hetune("run", path, *QUICK, "--read", "columns=src,dst,weight").stdout
    )


def test_bench_checks_all_graphs_before_it_measures_one(hetune, graph_file):
    result = hetune("bench", "aifb", graph_file, *QUICK, "--scale", 0.1)
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: {graph_file} is read, not generated: leave --scale 0.1 out\n",
    )


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors"])
def test_files_that_cannot_be_read(name, hetune, graph_file, tmp_path):
    path = tmp_path / name
    path.write_bytes(b"nonsense")
    for option in ("--features", "--weights"):
        for file in (path, tmp_path / f"missing-{name}"):
            result = hetune("run", graph_file, *QUICK, option, file)
            assert result.exit_code == 2
            assert result.stderr.startswith(f"error: {file} cannot be read as a")
            assert result.stderr.count("\n") == 1


def in_member(offset, byte):
    """Damages the head of a zip's member, and the entry that says where it is."""

    def damage(data):
        for head, shift in ((b"PK\3\4", 0), (b"PK\1\2", 2)):
            data[data.index(head) + offset + shift] = byte

    return damage


def in_header(old, new):
    """Damages the header of an array."""

    def damage(data):
        data[:] = data.replace(old, new.ljust(len(old)))

    return damage


def in_data(offset):
    """Damages what was compressed."""

    def damage(data):
        data[offset : offset + 40] = b"\xff" * 40

    return damage


@pytest.mark.parametrize(
    ("method", "damage"),
    [
        (zipfile.ZIP_DEFLATED, in_data(35)),
        (zipfile.ZIP_LZMA, in_data(44)),
        (zipfile.ZIP_STORED, in_member(4, 255)),
        (zipfile.ZIP_STORED, in_member(6, 1)),
        (zipfile.ZIP_STORED, in_member(8, 2)),
        (None, in_header(b"(9, 8)", b"(9, 8")),
        (None, in_header(b"(9, 8), } " + b" " * 30, b"(" + b"9" * 30 + b",), }")),
    ],
    ids=["deflated", "lzma", "version", "password", "method", "header", "shape"],
)
def test_files_of_arrays_that_are_damaged(method, damage, tmp_path):
    path = tmp_path / ("x.npy" if method is None else "x.npz")
    whole = io.BytesIO()
    np.save(whole, np.zeros((9, 8), np.float32))
    if method is None:
        path.write_bytes(whole.getvalue())
    else:
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("x.npy", whole.getvalue())
    assert read_arrays(path)["x"].shape == (9, 8)
    data = bytearray(path.read_bytes())
    damage(data)
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"{path.name} cannot be read as an {path.suffix} file"):
        read_arrays(path)


def test_files_that_do_not_fit(hetune, graph_file, tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, x=np.zeros((3, 8), np.float32))
    result = hetune("run", graph_file, *QUICK, "--features", path)
    assert result.stderr == (
        f"error: {path} holds features of shape [3, 8]: the graph and --width need [30, 8]\n"
    )
    np.savez(path, x=np.pad(np.full((1, 1), 1e300), ((4, 25), (2, 5))))
    result = hetune("run", graph_file, *QUICK, "--features", path)
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: {path} holds inf in row 4, column 2: give features that are finite in float32\n",
    )
    np.savez(path, weight=np.zeros((3, 8), np.float32))
    result = hetune("run", graph_file, *QUICK, "--weights", path)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {path} does not fit the layer: ")
    assert result.stderr.count("\n") == 1


def test_an_interrupt_is_quiet(hetune, graph_file, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(layer_run, "compile_kernels", interrupt)
    result = hetune("run", graph_file, *QUICK)
    assert (result.exit_code, result.stderr) == (130, "")


ALLOCATOR = (
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory"
)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "error: out of memory: the machine has too little\n"),
        (RuntimeError(f"{ALLOCATOR}\nframe #0"), f"error: out of memory: {ALLOCATOR}\n"),
    ],
)
def test_too_little_memory_is_said_in_a_line(hetune, graph_file, monkeypatch, error, said):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(layer_run, "compile_kernels", fail)
    result = hetune("run", graph_file, *QUICK)
    assert (result.exit_code, result.stderr) == (1, said)


def test_errors_that_nobody_expected_are_not_taken_for_a_lack_of_memory(
    hetune, graph_file, monkeypatch
):
    def fail(*args, **kwargs):
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(layer_run, "compile_kernels", fail)
    assert isinstance(hetune("run", graph_file, *QUICK).exception, RuntimeError)


def test_verbose_shows_where_an_error_came_from(hetune):
    plain = hetune("run", "nosuch", *QUICK)
    assert "Traceback" not in plain.stderr
    verbose = hetune("--verbose", "run", "nosuch", *QUICK)
    assert (plain.exit_code, verbose.exit_code) == (2, 2)
    assert "Traceback" in verbose.stderr
