"""Runs in parts: the bits of a run in memory, and nothing wrong after crashes."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import hetune
from hetune.variants.errors import InputError, MemoryLimitError, PartitionError, VariantError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.partition import executor, run
from hetune.variants.partition.journal import Journal
from hetune.variants.partition.layers import PartitionedLayer
from hetune.variants.partition.model_layers import partitioned_layers
from hetune.variants.partition.part_run import read_part, run_part
from hetune.variants.partition.partitions import GraphPartitions
from hetune.variants.partition.row_files import RowWriter, identity_of, open_rows
from hetune.variants.partition.row_streams import RowStream, pack
from hetune.variants.partition.run import Progress, run_partitions
from hetune.variants.testing.graphs import typed_graph

from ._disk import full_disk

WIDTH = 32
MEMORY = 350_000


def _hub(src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
    """A third of the edges leads to one node."""
    return src, torch.where(torch.arange(len(dst)) % 3 == 0, 3, dst)


GRAPH = typed_graph([300, 200], [(0, 1, 900), (1, 0, 900), (0, 0, 2000), (1, 1, 9)], ends=_hub)
X = torch.randn(GRAPH.num_nodes, WIDTH, generator=torch.Generator().manual_seed(0))
PARTS = GraphPartitions(GRAPH, 100)
RANGES = len(PARTS.bounds) - 1


EXACT = {
    "rgcn": "dst/b1024",
    "rgat": "dst+weights-first+edge-scores+one-pass/b1024",
    "hgt": "dst+scores-dst+folded+one-pass/b1024",
}
"""Variants that compute nothing for nodes that edges only come from, and have the same bits."""


def layer(kind: str, graph: HeteroGraph = GRAPH) -> hetune.CompiledLayer:
    torch.manual_seed(0)
    match kind:
        case "rgcn":
            made: nn.Module = hetune.nn.RGCN(WIDTH, WIDTH, graph.num_etypes)
        case "rgat":
            made = hetune.nn.RGAT(WIDTH, WIDTH, graph.num_etypes)
        case _:
            made = hetune.nn.HGT(WIDTH, WIDTH, graph.metadata())
    compiled = hetune.compile(made.eval())
    assert isinstance(compiled, hetune.CompiledLayer)
    return compiled


def in_memory(layer: hetune.CompiledLayer, x: Tensor, variant: str | None = None) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = layer(x, GRAPH, variant=variant).numpy()
    return found


def part_rows(
    layer: PartitionedLayer, first: int, last: int, variant: str | None = None
) -> tuple[Tensor, str]:
    inputs = read_part(layer, PARTS, (X.numpy(),), first, last, 1 << 30, variant)
    return run_part(layer, PARTS, inputs, 1 << 30, variant)


@pytest.mark.parametrize("kind", ["rgcn", "rgat", "hgt"])
def test_rows_have_the_bits_of_a_run_in_memory(kind):
    compiled = layer(kind)
    (prepared,) = partitioned_layers([compiled])
    named = [each for each in compiled.variants if each.endswith("b1024")]
    hybrid = next(each for each in named if "hybrid" in each)
    some = (*named[:2], "dst/b1024", hybrid) if kind == "rgcn" else (hybrid, EXACT[kind])
    for variant in some:
        whole = in_memory(compiled, X, variant)
        for first in range(0, RANGES, 5):
            last = min(first + 5, RANGES)
            rows, ran = part_rows(prepared, first, last, variant)
            assert ran == variant
            low, high = PARTS.bounds[first], PARTS.bounds[last]
            assert np.array_equal(rows.numpy(), whole[low:high]), (variant, first)
    # What is chosen computes nothing for other nodes than the range's, where the layer allows it.
    assert prepared.is_bipartite(GRAPH)
    assert EXACT[kind] in prepared.exact
    assert hybrid not in prepared.exact
    rows, ran = part_rows(prepared, 0, 9)
    assert ran in named or ran.endswith(("/b256", "/b4096"))
    np.testing.assert_allclose(rows.numpy(), whole[: len(rows)], rtol=1e-5, atol=1e-5)


def test_a_layer_for_types_in_another_order_runs_on_all_nodes():
    ntypes, etypes = GRAPH.metadata()
    torch.manual_seed(0)
    module = hetune.nn.HGT(WIDTH, WIDTH, (ntypes, etypes[::-1])).eval()
    compiled = hetune.compile(module)
    (prepared,) = partitioned_layers([compiled])
    assert prepared.bipartite is not None
    assert not prepared.is_bipartite(GRAPH)
    rows, _ = part_rows(prepared, 0, 9)
    whole = in_memory(compiled, X)
    np.testing.assert_allclose(rows.numpy(), whole[: len(rows)], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test_an_interrupted_model_goes_on_where_it_stopped(ending, tmp_path, monkeypatch):
    layers, out = [layer("rgcn"), layer("rgcn")], tmp_path / f"out{ending}"
    features = X if ending == ".npy" else tmp_path / "x.parquet"
    if ending != ".npy":
        pack(X.numpy(), features)
    model = [layers[0], torch.relu, layers[1]]
    variant = "dst/b1024"
    wanted = in_memory(layers[0], X, variant)
    wanted = in_memory(layers[1], torch.from_numpy(wanted).relu(), variant)
    given = model, PARTS, features, out
    write, written = RowWriter.write, list[str]()

    def failing(writer: RowWriter, first: int, rows: Tensor) -> str:
        if written.count("1.npy") == 2:
            raise PartitionError("no space left")
        if writer.path.suffix == ".npy":  # rather than what is unpacked
            written.append(writer.path.name)
        return write(writer, first, rows)

    monkeypatch.setattr(RowWriter, "write", failing)
    with pytest.raises(PartitionError, match="no space"):
        run_partitions(*given, memory=MEMORY, variant=variant)
    assert not out.exists()
    work, units = tmp_path / f"{out.name}.work", len(written) - 2
    lines = (work / "journal.jsonl").read_text().splitlines()
    assert len(lines) - 1 == units + 2 > 5
    for refused in ({"variant": "none"}, {"memory": 1}):
        with pytest.raises(VariantError):
            run_partitions(*given, **{"memory": MEMORY, "variant": variant, **refused})
        assert (work / "journal.jsonl").read_text().splitlines() == lines
    # A line that was cut off, and rows that are not those of the journal, do not count.
    (work / "journal.jsonl").write_text("\n".join(lines) + '\n{"layer": 1, "first')
    rows = np.load(work / "0.npy", mmap_mode="r+")
    rows[json.loads(lines[1])["first"]] += 1
    rows.flush()
    monkeypatch.setattr(RowWriter, "write", lambda *given: (written.append(""), write(*given))[1])
    seen = list[tuple[int, int]]()
    found = run_partitions(
        *given, memory=MEMORY, variant=variant, progress=lambda *at: seen.append(at)
    )
    assert np.array_equal(found, wanted)
    assert written.count("") == 1 + units - 2
    assert seen[-1] == (2 * GRAPH.num_edges, 2 * GRAPH.num_edges)
    there = (features, out) if ending != ".npy" else (out,)
    assert {*tmp_path.iterdir()} == {*there}
    rows = np.load(out) if ending == ".npy" else np.concatenate([*RowStream(out).chunks()])
    assert np.array_equal(rows, wanted)


def test_parts_grow_again_after_one_that_did_not_fit(tmp_path, monkeypatch):
    compiled, compute, tried = layer("rgcn"), executor.run_part, list[int]()
    even = typed_graph([300, 200], [(0, 1, 900), (1, 0, 900), (0, 0, 2000), (1, 1, 9)])

    def scarce(given, partitions, inputs, *rest):
        tried.append(inputs.part.graph.num_edges)
        if len(tried) == 1 and is_scarce:
            raise MemoryLimitError("no room")
        return compute(given, partitions, inputs, *rest)

    monkeypatch.setattr(executor, "run_part", scarce)
    monkeypatch.setattr(run, "RECOVERY", 1.5)
    lengths, found = list[int](), list[np.ndarray]()
    for is_scarce in (False, True):
        tried.clear()
        given = compiled, GraphPartitions(even, 20), X, tmp_path / f"{is_scarce}.npy"
        found.append(run_partitions(*given, memory=100_000, variant="dst/b1024"))
        lengths.append(len(tried))
    assert np.array_equal(*found)
    assert lengths[0] < lengths[1] < 1.5 * lengths[0], lengths


def test_features_may_be_bfloat16():
    half = X.bfloat16()
    assert np.array_equal(open_rows(half, len(X)), half.float().numpy())
    assert identity_of(half) == identity_of(half.float())


def test_what_cannot_run_in_parts_is_refused(tmp_path):
    out, compiled = tmp_path / "out.npy", layer("rgcn")
    with pytest.raises(MemoryLimitError, match="give more memory"):
        run_partitions(compiled, PARTS, X, out, memory=50_000)
    with pytest.raises(VariantError, match="no variant 'none'"):
        run_partitions(compiled, PARTS, X, out, memory=MEMORY, variant="none")
    more_types = hetune.compile(hetune.nn.RGCN(X.shape[1], 4, GRAPH.num_etypes + 1).eval())
    with pytest.raises(InputError, match="edge types but the layer was made for"):
        run_partitions(more_types, PARTS, X, out, memory=MEMORY)
    with pytest.raises(InputError, match="499 rows of features, and 500 nodes"):
        run_partitions(compiled, PARTS, X[1:], out, memory=MEMORY)
    for memory in ("4GB", 4e9, 0):
        with pytest.raises(InputError, match="an integer from 1"):
            run_partitions(compiled, PARTS, X, out, memory=memory)
    with pytest.raises(InputError, match="is a folder"):
        run_partitions(compiled, PARTS, X, tmp_path, memory=MEMORY)
    for function in (lambda x: x.mean(0), lambda x: x[:, :1], Tensor.double, Tensor.tolist):
        with pytest.raises(InputError, match="give rows of the same shape and dtype"):
            run_partitions([compiled, function], PARTS, X, out, memory=MEMORY)
    assert not list(tmp_path.iterdir())
    np.save(out, X.numpy())
    for features in (out, str(out), np.load(out, mmap_mode="r")):
        with pytest.raises(InputError, match="which would be lost"):
            run_partitions(compiled, PARTS, features, out, memory=MEMORY)
    out.unlink()
    with pytest.raises(InputError, match=r"hetune\.compile"):
        run_partitions([compiled.module], PARTS, X, out, memory=MEMORY)
    out.with_name("out.npy.work").mkdir()
    with (
        Journal(out.with_name("out.npy.work") / "journal.jsonl", {}),
        pytest.raises(PartitionError, match="another process"),
    ):
        run_partitions(compiled, PARTS, X, out, memory=MEMORY)
    assert not out.exists()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_run_that_was_killed_goes_on(tmp_path):
    """By kill -9 between the rows of the third part and the note that it is finished."""
    whole = in_memory(layer("rgcn"), X, "dst/b1024")
    child = os.fork()
    if not child:
        try:
            _be_killed(str(tmp_path), whole)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    journal = (tmp_path / "out.npy.work" / "journal.jsonl").read_text()
    assert len(journal.splitlines()) == 3
    assert not (tmp_path / "out.npy").exists()
    done = list[int]()
    found = perform(str(tmp_path), lambda now, total: done.append(now))
    assert np.array_equal(found, whole)
    first_two = [json.loads(line) for line in journal.splitlines()[1:]]
    assert done[0] == PARTS.starts[np.searchsorted(PARTS.bounds, first_two[0]["last"])]


def _be_killed(folder: str, whole: np.ndarray) -> None:
    """Kernels' threads are not there in a forked process: it takes what they computed before."""
    add = Journal.add

    def killing(journal, parts):
        if len(journal.parts) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        add(journal, parts)

    def computed(layer, partitions, inputs, *_):
        low, high = inputs.part.needed[[0, -1]]
        return torch.from_numpy(whole[low : high + 1]), "dst/b1024"

    Journal.add, executor.run_part, run.COMMIT_SECONDS = killing, computed, 0.0
    perform(folder)


def perform(folder: str, progress: Progress | None = None) -> np.ndarray:
    """A run that takes several parts."""
    out, options = Path(folder, "out.npy"), {"memory": MEMORY, "progress": progress}
    return run_partitions(layer("rgcn"), PARTS, X, out, variant="dst/b1024", **options)


def test_a_full_disk_is_told_before_anything_is_computed(tmp_path):
    with full_disk(X.numel() * 4 // 3):
        perform(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["out.npy.work"]
    assert [path.name for path in (tmp_path / "out.npy.work").iterdir()] == ["journal.jsonl"]
    assert len((tmp_path / "out.npy.work" / "journal.jsonl").read_text().splitlines()) == 1


def test_features_that_change_meanwhile_give_no_rows(tmp_path):
    features = tmp_path / "x.npy"
    np.save(features, X.numpy())

    def progress(done: int, total: int) -> None:
        os.utime(features, ns=(1, 1))

    given = layer("rgcn"), PARTS, features, tmp_path / "out.npy"
    with pytest.raises(InputError, match="written to while they were read"):
        run_partitions(*given, memory=MEMORY, progress=progress)
    assert not (tmp_path / "out.npy").exists()
    rows = run_partitions(*given, memory=MEMORY, variant="dst/b1024")
    assert np.array_equal(rows, in_memory(layer("rgcn"), X, "dst/b1024"))


@pytest.mark.parametrize("ending", [".arrow", ".parquet"])
def test_a_disk_that_is_full_when_rows_are_packed_costs_no_rows(ending, tmp_path, monkeypatch):
    out, options = tmp_path / f"out{ending}", {"memory": MEMORY, "variant": "dst/b1024"}
    given = layer("rgcn"), PARTS, X, out
    with full_disk(X.numel() * 4 + 200):  # rows fit, and what a packed file has beside them not
        run_partitions(*given, **options)
    assert [path.name for path in tmp_path.iterdir()] == [f"{out.name}.work"]
    monkeypatch.setattr(executor, "run_part", None)
    rows = run_partitions(*given, **options)
    assert np.array_equal(rows, in_memory(layer("rgcn"), X, "dst/b1024"))
    assert np.array_equal(rows, np.concatenate([*RowStream(out).chunks()]))
    assert [*tmp_path.iterdir()] == [out]


@pytest.mark.parametrize("damage", [{"last": 900}, {"first": 0.5}, {"first": "0"}, {"layer": None}])
def test_lines_of_a_journal_that_are_damaged_do_not_count(damage, tmp_path):
    def gaps(change: dict[str, object]) -> list[tuple[int, int]]:
        line = {"layer": 0, "first": 0, "last": len(X), "checksum": checksum, "variant": "v"}
        path.write_text(f"{{}}\n{json.dumps(line | change)}\n")
        with Journal(path, {}) as journal:
            return run._LayerRun(0, parts, writer, journal, MEMORY)._gaps(run._Progress(None, 1))

    (prepared,), path = partitioned_layers([layer("rgcn")]), tmp_path / "journal.jsonl"
    parts = executor.LayerParts(prepared, PARTS, (X,), MEMORY, None)
    with RowWriter(tmp_path / "0.npy", *X.shape) as writer:
        checksum = writer.write(0, X.numpy())
        writer.sync()
        assert gaps({}) == []
        assert gaps(damage) == [(0, RANGES)]
