"""A layer on a graph of ten times the memory: time per edge beside that of a run in memory.

    python benchmarks/out_of_core.py --memory 100MB --layers rgcn rgat hgt --folder /tmp

Nodes of two types have rows of 64 floats and 15 edges of four types each, drawn evenly, so that
all edges lead far. The process that runs part by part may not get more memory than it has once
hetune is imported, and `--memory`: the system refuses it (RLIMIT_DATA; files that are mapped do not
count). The other process has all in memory; it indexes and runs once. Both run the variant that is
chosen in memory, and their rows have to be the same bits. Rows are in the system's cache of files
where that is large enough: what reading and writing them took stands beside.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

WIDTH, DEGREE, TYPES, TIMES = 64, 15, 4, 10
CHUNK = 1 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, and prints a line of JSON for each layer."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--memory", default="100MB")
    line.add_argument("--layers", nargs="+", default=["rgcn", "rgat", "hgt"])
    line.add_argument("--folder", type=Path, help="where files lie; a temporary folder by default")
    line.add_argument("--child", nargs=2, metavar=("HOW", "LAYER"), help=argparse.SUPPRESS)
    line.add_argument("--variant", help=argparse.SUPPRESS)
    options = line.parse_args(arguments)
    from hetune.clients.cli.options import size_of

    memory = size_of(options.memory, "--memory")
    assert memory is not None
    if options.child:
        how, layer = options.child
        child = in_memory if how == "memory" else in_parts
        print(json.dumps(child(layer, options.folder, memory, options.variant)))
        return 0
    with TemporaryDirectory(dir=options.folder) as folder:
        edges = draw(Path(folder), memory)
        for layer in options.layers:
            whole = run(Path(folder), options.memory, "memory", layer)
            parts = run(Path(folder), options.memory, "parts", layer, whole["variant"])
            files = (Path(folder, f"{how}.npy") for how in ("memory", "parts"))
            ratio = round(parts["seconds"] / (whole["index"] + whole["seconds"]), 2)
            same = bool(np.array_equal(*(np.load(file, "r") for file in files)))
            found = {"layer": layer, "edges": edges, "in_memory": whole, "in_parts": parts}
            print(json.dumps({**found, "ratio": ratio, "same_bits": same}), flush=True)
            assert same
    return 0


def draw(folder: Path, memory: int) -> int:
    """Writes features and edges of ten times the memory; gives the number of edges."""
    nodes = TIMES * memory // (4 * WIDTH + 12 * DEGREE)
    random = np.random.default_rng(0)
    half = nodes // 2
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", "<f4", (nodes, WIDTH))
    for first in range(0, nodes, CHUNK):
        rows = x[first : first + CHUNK]
        rows[:] = random.standard_normal(rows.shape, np.float32)
    edges = np.lib.format.open_memmap(folder / "e.npy", "w+", "<i4", (3, nodes * DEGREE))
    for first in range(0, edges.shape[1], CHUNK):
        here = edges[:, first : first + CHUNK]
        here[2] = random.integers(0, TYPES, here.shape[1])
        here[0] = random.integers(0, half, here.shape[1]) + (here[2] // 2) * half
        here[1] = random.integers(0, half, here.shape[1]) + (here[2] % 2) * half
    ntype = np.repeat(np.arange(2, dtype=np.int32), [half, nodes - half])
    np.savez(folder / "edges.npz", src=edges[0], dst=edges[1], etype=edges[2], ntype=ntype)
    (folder / "e.npy").unlink()
    return int(edges.shape[1])


def run(folder: Path, memory: str, how: str, layer: str, variant: str | None = None) -> Any:
    """What a process of its own reports."""
    command = [sys.executable, __file__, "--folder", str(folder), "--memory", memory]
    command += ["--child", how, layer, *(["--variant", variant] if variant else [])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def compiled(layer: str, types: Any) -> Any:
    """The layer, with weights that are always the same."""
    import hetune
    from hetune.clients.cli.sources import LayerSource

    return hetune.compile(LayerSource(layer, WIDTH).module(types))


def in_memory(layer: str, folder: Path, memory: int, variant: str | None) -> dict[str, Any]:
    """Index, and run once what is chosen."""
    import torch

    import hetune
    from hetune.variants.graph.index import GraphIndex

    graph = hetune.load(folder / "edges.npz")
    x = torch.from_numpy(np.load(folder / "x.npy"))
    start = time.perf_counter()
    _ = GraphIndex.of(graph).src_pair_node
    index = time.perf_counter() - start
    fast = compiled(layer, graph)
    chosen = fast.explain(x, graph).id
    fast.warm(x, graph)
    with torch.no_grad():
        start = time.perf_counter()
        out = fast(x, graph, variant=chosen)
        seconds = time.perf_counter() - start
    np.save(folder / "memory.npy", out.numpy())
    return {
        "variant": chosen,
        "index": round(index, 2),
        "seconds": round(seconds, 2),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000,
    }


def in_parts(layer: str, folder: Path, memory: int, variant: str | None) -> dict[str, Any]:
    """Partition the edges, and run part by part in little memory."""
    from hetune import run_partitions
    from hetune.variants.partition import layers, row_files
    from hetune.variants.partition.external import partition_edges

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*given)
            finally:
                files[0] += time.perf_counter() - start

        return call

    files, parts = [0.0], list[int]()
    layers.gathered = timed(layers.gathered)
    row_files.RowWriter.write = timed(row_files.RowWriter.write)  # type: ignore[method-assign]
    start = time.perf_counter()
    partitions = partition_edges(folder / "edges.npz", folder / "parts")
    partitioned = time.perf_counter() - start
    fast = compiled(layer, partitions.types)
    status = Path("/proc/self/status").read_text()
    held = int(status.split("VmData:")[1].split()[0]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (held + memory, held + memory))
    start = time.perf_counter()
    run_partitions(
        fast,
        partitions,
        folder / "x.npy",
        folder / "parts.npy",
        memory=memory,
        variant=variant,
        progress=lambda done, total: parts.append(done),
    )
    seconds = time.perf_counter() - start
    return {
        "partition": round(partitioned, 2),
        "seconds": round(seconds, 2),
        "files_share": round(files[0] / seconds, 2),
        "parts": len(parts) - 1,
    }


if __name__ == "__main__":
    raise SystemExit(main())
