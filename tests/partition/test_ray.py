"""Parts as tasks of Ray: the bits of a run in one process, though a node is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import hetune
from hetune import distributed
from hetune.variants.errors import InputError, MemoryLimitError
from hetune.variants.graph.generate import generate
from hetune.variants.partition import run
from hetune.variants.partition.partitions import GraphPartitions
from hetune.variants.partition.row_files import RowWriter

WIDTH, MEMORY, VARIANT = 32, 3_000_000, "dst/b1024"


def test_without_ray_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install '\.\[ray\]'"):
        distributed.run([], generate("aifb", 0.01), torch.zeros(9, 1), tmp_path / "o", memory=1)


def test_a_node_and_a_worker_that_are_killed_lose_no_work(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", reason="needs ray (extra 'ray')")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    graph = generate("aifb")
    parts = GraphPartitions(graph, 500)
    x = np.random.default_rng(0).standard_normal((graph.num_nodes, WIDTH), np.float32)
    np.save(tmp_path / "x.npy", x)
    torch.manual_seed(0)
    layers = [
        hetune.compile(hetune.nn.RGCN(WIDTH, WIDTH, graph.num_etypes).eval()) for _ in range(2)
    ]
    model = [layers[0], torch.relu, layers[1]]
    log, started, killed = (tmp_path / name for name in ("log", "started", "killed"))
    given = {"memory": MEMORY, "variant": VARIANT}
    wanted = hetune.run_partitions(model, parts, x, tmp_path / "here.npy", **given)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        lost, calls = cluster.add_node(num_cpus=1), list[int]()
        lost_id = lost.node_id

        def relu(rows: Tensor) -> Tensor:
            """One node never ends its task, and the other one waits until that has begun.

            Then the first worker there gets kill -9.
            """
            with log.open("a") as file:
                file.write(".")
            if ray.get_runtime_context().get_node_id() == lost_id:
                started.touch()
                time.sleep(600)
            while not started.exists():
                time.sleep(0.01)
            if not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return rows.relu()

        cluster.wait_for_nodes()
        ray.init(cluster.address, log_to_driver=False)

        def progress(done: int, total: int) -> None:
            calls.append(done)
            if len(calls) == 1:
                cluster.remove_node(lost, allow_graceful=False)

        out = tmp_path / "out.npy"
        on_nodes = [layers[0], relu, layers[1]]
        x_file = tmp_path / "x.npy"
        found = distributed.run(on_nodes, parts, x_file, out, progress=progress, **given)
        assert np.array_equal(found, wanted)
        assert killed.exists()
        assert calls[-1] == 2 * graph.num_edges
        of_first_layer = calls.index(graph.num_edges) + 1
        assert len(log.read_text()) > of_first_layer > 8  # what was lost was run again
        assert not lost.any_processes_alive()
        assert not out.with_name("out.npy.work").exists()
        with pytest.raises(InputError, match="leave address out"):
            distributed.run(model, parts, x, tmp_path / "no.npy", memory=MEMORY, address="auto")
        with pytest.raises(MemoryLimitError, match="give more memory"):
            distributed.run(model, parts, x, tmp_path / "no.npy", memory=30_000)
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_a_driver_that_is_killed_loses_no_work(tmp_path, monkeypatch):
    """By kill -9, while its tasks run: an equal call computes the rest."""
    ray = pytest.importorskip("ray", reason="needs ray (extra 'ray')")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        killed = subprocess.run([sys.executable, __file__, cluster.address, str(tmp_path)])
        assert killed.returncode == -signal.SIGKILL
        assert not (tmp_path / "out.npy").exists()
        journal = (tmp_path / "out.npy.work" / "journal.jsonl").read_text().splitlines()[1:]
        done = sum(part["last"] - part["first"] for part in map(json.loads, journal))
        write, rows = RowWriter.write, list[int]()
        *given, options = small_run(tmp_path)
        wanted = hetune.run_partitions(*given[:3], tmp_path / "here.npy", **options)
        monkeypatch.setattr(
            RowWriter, "write", lambda *of: (rows.append(len(of[2])), write(*of))[1]
        )
        ray.init(cluster.address, log_to_driver=False)
        found = distributed.run(*given, **options)
        assert np.array_equal(found, wanted)
        assert 0 < sum(rows) == len(wanted) - done < len(wanted)
    finally:
        ray.shutdown()
        cluster.shutdown()


def small_run(folder):
    """The arguments of a run of several parts."""
    graph = generate("aifb", 0.2)
    parts = GraphPartitions(graph, 500)
    x = np.random.default_rng(0).standard_normal((graph.num_nodes, WIDTH), np.float32)
    torch.manual_seed(0)
    layer = hetune.compile(hetune.nn.RGCN(WIDTH, WIDTH, graph.num_etypes).eval())
    options = {"memory": MEMORY, "variant": VARIANT}
    return layer, parts, x, folder / "out.npy", options


def be_killed(address, folder):
    """Once a third is done."""
    import ray

    ray.init(address, log_to_driver=False)
    *given, options = small_run(Path(folder))

    def progress(done, total):
        if done > total / 3:
            os.kill(os.getpid(), signal.SIGKILL)

    run.COMMIT_SECONDS = 0.0
    distributed.run(*given, progress=progress, **options)


if __name__ == "__main__":
    be_killed(*sys.argv[1:])
