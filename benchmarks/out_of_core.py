"""A layer on a graph of ten times the memory: time per edge beside that of a run in memory.

    python benchmarks/out_of_core.py --memory 100MB --layers rgcn,rgat,hgt --folder build

Nodes of two types have rows of 64 floats and 15 edges each, of four types, drawn evenly: all lead
far. A process that runs part by part may not take more memory than it has once hetune is loaded,
and `--memory`: the system refuses it (RLIMIT_DATA, mapped files aside). Another one has
all in memory, indexes it and runs once. Then the parts run its variant (`same`), whose rows have
to be the same bits, and what is chosen for each (`chosen`). `files_share` is what reading and
writing rows took, some of it meanwhile; files are in the system's cache where that is large enough.
On a busy machine, OMP_NUM_THREADS=1 and seconds of the processor (`cpu`) say more.

    python benchmarks/out_of_core.py --memory 2GB --graph mag --edges 100e6 --no-whole

A drawn graph of that name and size takes the place of the first one; without the run in memory the
variants of parts are chosen alone. `peak` has the bytes that were resident, files' pages included.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

WIDTH, DEGREE, TIMES, CHUNK = 64, 15, 10, 1 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, and prints a line of JSON for each layer."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--memory", default="100MB")
    line.add_argument("--layers", default="rgcn,rgat,hgt")
    line.add_argument("--graph", help="draw this one with --edges, not ten times the memory")
    line.add_argument("--edges", type=float, default=100e6)
    line.add_argument("--no-whole", action="store_true", help="leave the run in memory out")
    line.add_argument("--turns", type=int, default=1, help="how often, one way after the other")
    line.add_argument("--folder", type=Path, help="where files lie; a temporary one by default")
    line.add_argument("--out", type=Path, help="where to write what was measured, as JSON")
    line.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = line.parse_args(arguments)
    import torch
    from _machine import write_record

    from hetune.clients.cli.options import layers_of, size_of

    memory = size_of(options.memory, "--memory") or 0
    if options.child:
        how, *given = options.child
        measure: Any = {"draw": generated, "memory": in_memory, "parts": in_parts}[how]
        print(json.dumps(measure(options.folder, memory, *given)))
        return 0
    cells: list[dict[str, Any]] = []
    with TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)

        def child(*given: str) -> Any:
            command = [sys.executable, __file__, "--folder", name, "--memory", options.memory]
            heaps = {**os.environ, "MALLOC_ARENA_MAX": "1"}  # as `hetune run --memory` has it
            command += ["--child", *given]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=heaps)
            return json.loads(done.stdout)

        named = options.graph and ("draw", options.graph, str(options.edges))
        edges = child(*named) if named else draw(folder, memory)
        for layer in layers_of(options.layers):
            found = measured(child, folder, layer, options)
            cells.append({"layer": layer, "limit": memory, "edges": edges, **found})
            print(json.dumps(cells[-1]), flush=True)
    if options.out is not None:
        write_record(options.out, torch.get_num_threads(), cells=cells)
    return 0


def measured(child: Callable[..., Any], folder: Path, layer: str, options: Any) -> dict[str, Any]:
    """What was measured of a layer: of several turns, each way's least time of the processor."""
    ways: dict[str, list[Any]] = {"memory": [], "same": [], "chosen": []}
    for _ in range(options.turns):
        if not options.no_whole:
            whole = child("memory", layer)
            ways["memory"].append(whole)
            ways["same"].append(child("parts", layer, whole["variant"]))
            files = (folder / "memory.npy", folder / "parts.npy")
            assert np.array_equal(*(np.load(file, "r") for file in files)), "other bits"
        ways["chosen"].append(child("parts", layer))
    found = {way: min(cells, key=lambda cell: cell["cpu"]) for way, cells in ways.items() if cells}
    for way in {"same", "chosen"} & found.keys() if "memory" in found else ():
        cell, whole = found[way], found["memory"]
        cell["ratio"] = round(cell["seconds"] / (whole["index"] + whole["seconds"]), 2)
        cell["cpu_ratio"] = round(cell["cpu"] / whole["cpu"], 2)
    return found


def generated(folder: Path, memory: int, name: str, edges: str) -> int:
    """Writes features and edges of a drawn graph; gives the number of edges."""
    import hetune
    from hetune.variants.graph.generate_specs import SPECS

    graph = hetune.generate(name, float(edges) / SPECS[name].edges)
    graph.save(folder / "edges.npz")
    draw_rows(folder, graph.num_nodes)
    return graph.num_edges


def draw_rows(folder: Path, nodes: int) -> np.random.Generator:
    """Writes features of so many nodes; gives what draws on."""
    random = np.random.default_rng(0)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", "<f4", (nodes, WIDTH))
    for first in range(0, nodes, CHUNK):
        here = x[first : first + CHUNK]
        here[:] = random.standard_normal(here.shape, np.float32)
    return random


def draw(folder: Path, memory: int) -> int:
    """Writes features and edges of ten times the memory; gives the number of edges."""
    nodes = TIMES * memory // (4 * WIDTH + 12 * DEGREE)
    random, half = draw_rows(folder, nodes), nodes // 2
    edges = np.lib.format.open_memmap(folder / "e.npy", "w+", "<i4", (3, nodes * DEGREE))
    for first in range(0, edges.shape[1], CHUNK):
        here = edges[:, first : first + CHUNK]
        here[2] = random.integers(0, 4, here.shape[1])
        here[0] = random.integers(0, half, here.shape[1]) + here[2] // 2 * half
        here[1] = random.integers(0, half, here.shape[1]) + here[2] % 2 * half
    ntype = np.repeat(np.arange(2, dtype=np.int32), [half, nodes - half])
    np.savez(folder / "edges.npz", src=edges[0], dst=edges[1], etype=edges[2], ntype=ntype)
    (folder / "e.npy").unlink()
    return int(edges.shape[1])


def compiled(layer: str, types: Any) -> Any:
    """The layer, with weights that are always the same."""
    import hetune
    from hetune.clients.cli.sources import LayerSource

    return hetune.compile(LayerSource(layer, WIDTH).module(types))


def load_cost_model(fast: Any, graph: Any, x: Any) -> None:
    """Chooses for a few edges, so that loading does not count: parts have loaded before, too."""
    import torch

    some = graph.with_columns(*(ids[:1000] for ids in (graph.src, graph.dst, graph.etype)))
    etype, src, dst = torch.tensor(some.type_pairs, dtype=torch.int32).T.contiguous()
    ntype = torch.arange(graph.num_ntypes, dtype=torch.int32)
    fast.explain(x[: len(ntype)], graph.with_columns(src, dst, etype, ntype))


def in_memory(folder: Path, memory: int, layer: str) -> dict[str, Any]:
    """Index, and run once what is chosen."""
    import torch

    import hetune

    graph = hetune.load(folder / "edges.npz")
    x = torch.from_numpy(np.load(folder / "x.npy"))
    fast = compiled(layer, graph)
    load_cost_model(fast, graph, x)
    start, before = time.perf_counter(), time.process_time()
    chosen = fast.explain(x, graph).id
    fast.warm(x, graph)
    index = time.perf_counter() - start
    with torch.no_grad():
        start = time.perf_counter()
        out = fast(x, graph, variant=chosen)
        seconds = time.perf_counter() - start
    cpu = round(time.process_time() - before, 2)
    np.save(folder / "memory.npy", out.numpy())
    found = {"variant": chosen, "index": round(index, 2), "seconds": round(seconds, 2), "cpu": cpu}
    return {**found, "peak": peak()}


def in_parts(folder: Path, memory: int, layer: str, variant: str | None = None) -> dict[str, Any]:
    """Partition the edges, and run part by part in little memory."""
    from hetune import run_partitions
    from hetune.variants.partition import part_run, row_files
    from hetune.variants.partition.edge_folder import RECORD, EdgeFolder
    from hetune.variants.partition.external import partition_edges
    from hetune.variants.partition.model_layers import partitioned_layers

    files, parts = [0.0], list[int]()

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            start = time.perf_counter()
            found = function(*given)
            files[0] += time.perf_counter() - start
            return found

        return call

    part_run.gathered = timed(part_run.gathered)
    for name in ("write", "sync"):
        setattr(row_files.RowWriter, name, timed(getattr(row_files.RowWriter, name)))
    start, parted = time.perf_counter(), folder / "parts"
    is_there = (parted / RECORD).exists()  # by an earlier layer's process
    edges = EdgeFolder(parted) if is_there else partition_edges(folder / "edges.npz", parted)
    found = {} if is_there else {"partition": round(time.perf_counter() - start, 2)}
    fast = compiled(layer, edges.types)
    given = edges, folder / "x.npy", folder / "parts.npy"
    (prepared,) = partitioned_layers([fast])  # whose kernels are loaded before it counts
    rows = row_files.open_rows(given[1], edges.num_nodes)
    inputs = part_run.read_part(prepared, edges, (rows,), 0, 1, memory, variant)
    part_run.run_part(prepared, edges, inputs, memory, variant)
    held = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (held + memory, held + memory))
    files[0], start, before = 0.0, time.perf_counter(), time.process_time()
    limits: dict[str, Any] = {"memory": memory, "variant": variant}
    run_partitions(fast, *given, **limits, progress=lambda done, _: parts.append(done))
    seconds, cpu = time.perf_counter() - start, time.process_time() - before
    found |= {
        "seconds": round(seconds, 2),
        "cpu": round(cpu, 2),
        "files_share": round(files[0] / seconds, 2),
    }
    return {**found, "parts": len(parts) - 1, "peak": peak()}


def peak() -> int:
    """The most bytes of this process that were in memory at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    raise SystemExit(main())
