"""`hetune run --memory`: part by part, from files to a file."""

import os
import signal
import sys
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch

import hetune as library
from hetune.clients.cli.partitioned_run import _verified
from hetune.clients.cli.sources import LayerSource
from hetune.variants.partition.external import partition_edges
from hetune.variants.testing.graphs import typed_graph

GRAPH = typed_graph([300, 200], [(0, 1, 900), (1, 0, 900), (0, 0, 2000), (1, 1, 9)])
VARIANT = "dst/b1024"


@pytest.fixture
def given(tmp_path):
    """The arguments of a run, and its files."""
    GRAPH.save(tmp_path / "g.npz")
    x = torch.randn(GRAPH.num_nodes, 32, generator=torch.Generator().manual_seed(0))
    np.save(tmp_path / "x.npy", x.numpy())
    layer = library.compile(LayerSource("rgcn", 32).module(GRAPH))
    with torch.no_grad():
        expected = layer(x, GRAPH, variant=VARIANT).numpy()
    options = ("--layer", "rgcn", "--width", 32, "--variant", VARIANT)
    files = ("--features", tmp_path / "x.npy", "--out", tmp_path / "out.npy")
    return (*options, *files), tmp_path, expected


def test_the_file_has_the_rows_of_a_run_in_memory(hetune, given):
    options, folder, expected = given
    for extra in ((), ("--self-loops",)):  # those are held in memory
        result = hetune("run", folder / "g.npz", *options, "--memory", "64GB", *extra)
        assert result.exit_code == 0, result.output
        assert "500 nodes" in result.stdout
        assert "wrote [500, 32] float32" in result.stdout
        assert np.array_equal(np.load(folder / "out.npy"), expected) == (not extra)
        assert sorted(p.name for p in folder.iterdir()) == ["g.npz", "out.npy", "x.npy"]


def test_the_last_nodes_of_a_file_of_edges_may_have_no_edges(hetune, given):
    options, folder, _ = given
    edges = torch.stack((GRAPH.src, GRAPH.dst, GRAPH.etype)).long()
    np.save(folder / "e.npy", edges[:, (edges[:2] < 400).all(0)].numpy())
    result = hetune("run", folder / "e.npy", *options, "--memory", "64GB")
    assert result.exit_code == 0, result.output
    assert np.load(folder / "out.npy").shape == (500, 32)
    np.save(folder / "x.npy", np.load(folder / "x.npy")[:300])
    few = hetune("run", folder / "e.npy", *options, "--memory", "64GB")
    assert few.exit_code == 2
    message = " ".join(few.stderr.split())
    assert "there are to be 300" in message
    assert "a row of features each" in message


def test_edges_that_were_verified_take_no_memory(tmp_path):
    np.save(tmp_path / "e.npy", np.arange(8_000_000).reshape(2, -1) % 1000)
    partition_edges(tmp_path / "e.npy", tmp_path / "parts")
    verified = _verified(tmp_path / "parts")
    maps = psutil.Process().memory_maps()
    columns = [each for each in maps if each.path.startswith(str(tmp_path))]
    assert len(columns) == 3
    assert sum(each.rss for each in columns) < 1e6  # of 48 MB
    assert verified.num_edges == 4_000_000


def test_what_is_read_is_never_written_over(hetune, given):
    options, folder, _ = given
    before = (folder / "x.npy").read_bytes()
    out = folder / ".." / folder.name / "x.npy"
    result = hetune("run", folder / "g.npz", *options, "--out", out, "--memory", "64GB")
    assert result.exit_code == 2
    assert "is what is read" in " ".join(result.stderr.split())
    assert (folder / "x.npy").read_bytes() == before
    parts = folder / "out.npy.edges"
    partition_edges(folder / "g.npz", parts)
    refused = hetune("run", parts, *options, "--memory", "64GB")
    assert refused.exit_code == 2
    assert parts.is_dir()
    moved = parts.rename(folder / "kept")
    assert hetune("run", moved, *options, "--memory", "64GB").exit_code == 0
    assert moved.is_dir()
    (folder / "out.npy").unlink()
    column = np.load(moved / "src.npy", mmap_mode="r+")
    column[0] ^= 1
    column.flush()
    assert hetune("run", moved, *options, "--memory", "64GB").exit_code == 2
    assert not (folder / "out.npy").exists()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (("--memory", "1MB"), "the process itself takes"),
        (("--memory", "1GB", "--out", "rows.safetensors"), "has none of the endings .npy, .arrow"),
        (("--memory", "1GB", "--memory-limit", "1MB"), "leave --device, --precision and"),
        (("--memory", "64GB", "--width", 16), "rows of 32"),
        (("--memory", "64GB", "--address", "auto"), "--address needs --ray"),
        (("--ray",), "--ray needs --memory"),
        (("--memory", "1MB", "--ray"), "--memory: give 67.1 MB at least"),
        (("--memory", "64GB", "--ray"), "pip install '.[ray]'"),
    ],
)
def test_what_does_not_fit_is_refused(hetune, given, extra, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    options, folder, _ = given
    result = hetune("run", folder / "g.npz", *options, *extra)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not (folder / "out.npy").exists()


def test_sigterm_ends_it_as_an_interrupt_does(hetune, given, monkeypatch):
    """Ray has a handler of its own, which would exit in the middle of anything."""
    options, folder, _ = given
    calls = list[str]()
    fake = SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda *_, **__: signal.signal(signal.SIGTERM, lambda *_: sys.exit(15)),
        cluster_resources=lambda: os.kill(os.getpid(), signal.SIGTERM),
        shutdown=lambda: calls.append("shutdown"),
    )
    monkeypatch.setitem(sys.modules, "ray", fake)
    before = signal.getsignal(signal.SIGTERM)
    result = hetune("run", folder / "g.npz", *options, "--memory", "64GB", "--ray")
    assert (result.exit_code, calls) == (130, ["shutdown"])
    assert signal.getsignal(signal.SIGTERM) is before
