"""A layer on several workers of one thread, beside what the model of docs/scale.md predicts.

    python benchmarks/scale.py --workers 1,2 --layers rgcn,hgt --edges 14e6 --folder build
    python benchmarks/scale.py --plan --machines 4 --cores 64 --gigabits 100

The first measures (and needs hetune[ray]): the graph of out_of_core.py in parts, first in this
process with one thread, then as tasks of Ray. `efficiency` is one worker's time over that of all,
and over their number; `predicted` is what the model makes of the time in this process. The second
prints the model's seconds for one layer of graphs too large for one machine; `most` is the result.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

WIDTH = 64
EDGE_SECONDS = {"rgcn": 0.35e-6, "rgat": 0.41e-6, "hgt": 0.51e-6}
"""Of one thread of a busy Xeon, for an edge of a part: as out_of_core.py has `cpu` and `edges`."""
GRAPHS = {"papers100M": (111e6, 1.6e9), "MAG240M": (244e6, 1.7e9), "10B edges": (1e9, 10e9)}
"""Nodes and edges."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line of JSON for each cell."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--plan", action="store_true", help="predict, and measure nothing")
    line.add_argument("--machines", type=int, default=1)
    line.add_argument("--cores", type=int, default=64, help="of each machine")
    line.add_argument("--gigabits", type=float, default=10, help="of each machine's network")
    line.add_argument("--workers", default="1,2")
    line.add_argument("--layers", default="rgcn")
    line.add_argument("--edges", type=float, default=14e6)
    line.add_argument("--folder", type=Path, help="where files lie; a temporary one by default")
    line.add_argument("--out", type=Path, help="where to write the cells, as JSON")
    options = line.parse_args(arguments)
    layers = options.layers.split(",")
    cells: list[dict[str, Any]] = []
    if options.plan:
        given = options.machines, options.cores, options.gigabits
        for (name, counts), layer in product(GRAPHS.items(), layers):
            found = seconds_of(EDGE_SECONDS[layer], *counts, *given)
            cells.append({"graph": name, "layer": layer, **found})
            print(json.dumps(cells[-1]))
    elif find_spec("ray") is None:  # as where all benchmarks run, one after the other
        print("nothing was measured, for ray is missing: pip install '.[ray]'")
        return 0
    else:
        workers = [int(number) for number in options.workers.split(",")]
        with TemporaryDirectory(dir=options.folder) as name:
            for cell in measured(Path(name), options.edges, layers, workers):
                cells.append(cell)
                print(json.dumps(cell), flush=True)
    if options.out:
        options.out.write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
    return 0


def seconds_of(
    edge_seconds: float,
    nodes: float,
    edges: float,
    machines: int,
    cores: int,
    gigabits: float,
) -> dict[str, float]:
    """What bounds a layer: its work, rows that cross the network, and rows that come back.

    In the worst case no two edges of a part share a source; 1/M of the rows are a machine's own.
    The results go to the process that asked, through its network alone.
    """
    row, rate = 4 * WIDTH, gigabits * 1e9 / 8
    away = 1 - 1 / machines
    times = {
        "work": edges * edge_seconds / (machines * cores),
        "rows": edges * row * away / (machines * rate),
        "results": nodes * row * away / rate,
    }
    return {name: round(value, 1) for name, value in {**times, "most": max(times.values())}.items()}


def measured(
    folder: Path, edges: float, layers: Sequence[str], workers: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Runs each layer in this process, and by numbers of workers."""
    import numpy as np
    import ray
    from out_of_core import DEGREE, TIMES, compiled, draw

    from hetune import distributed, run_partitions
    from hetune.variants.partition.external import partition_edges

    memory = int(edges / DEGREE * (4 * WIDTH + 12 * DEGREE) / TIMES)
    draw(folder, memory)
    parts = partition_edges(folder / "edges.npz", folder / "parts")

    def timed(run: Any, layer: str, out: str, **options: Any) -> tuple[float, Any]:
        given: Any = parts, folder / "x.npy", folder / out
        fast, options["memory"] = compiled(layer, parts.types), 4 * memory
        start = time.perf_counter()
        rows = run(fast, *given, variant=variants[layer], **options)
        return time.perf_counter() - start, rows

    variants: dict[str, str | None] = {}
    here, wanted = dict[str, float](), dict[str, Any]()
    for layer in layers:
        variants[layer] = next(v for v in compiled(layer, parts.types).variants if "dst" in v)
        timed(run_partitions, layer, "here.npy")
        here[layer], wanted[layer] = timed(run_partitions, layer, f"{layer}.npy")
    one = dict[str, float]()
    for count in workers:
        ray.init(num_cpus=count, include_dashboard=False, log_to_driver=False)
        for layer in layers:
            timed(distributed.run, layer, "out.npy")  # processes start
            seconds, rows = timed(distributed.run, layer, "out.npy")
            assert np.array_equal(rows, wanted[layer]), "other bits"
            first = one.setdefault(layer, seconds * count)
            cell = {"layer": layer, "edges": parts.num_edges, "workers": count}
            cell |= {"here": round(here[layer], 2), "seconds": round(seconds, 2)}
            cell |= {"predicted": round(here[layer] / min(count, os.cpu_count() or 1), 2)}
            yield cell | {"efficiency": round(first / seconds / count, 2)}
        ray.shutdown()


if __name__ == "__main__":
    raise SystemExit(main())
