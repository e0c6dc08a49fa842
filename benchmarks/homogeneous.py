"""hetune against PyG, DGL and expert PyTorch on graphs with one type of edges.

    python benchmarks/homogeneous.py --quick

Every candidate of a cell (layer, graph, widths) runs once per round, in random order, after its
output was compared with that of PyG. Prints for each layer how many times as fast as the best peer
hetune is (geometric mean and minimum), its share of the roofline, and with ``--variants`` how much
slower the choice is than the best variant. With one thread, ``--cpu-time`` counts the process's
own time, which other processes disturb less.
"""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from _bound import least_seconds_of, limits
from _graphs import MissingGraphError, load_graph, names
from _homogeneous_peers import LAYERS, PEERS, Cell
from _machine import set_threads, write_record
from _measure import geometric_mean, rounds_within, seconds_of
from torch import Tensor

import hetune
from hetune.profiling.measure.rounds import interleave

_TOLERANCE = 1e-4
GRAPHS = (
    *("pubmed", "amazon_cs", "ppi_string", "github_social", "usroads", "twitch_de"),
    *("facebook_page", "coauthor_cs"),
    *(f"mycielskian{order}" for order in range(12, 16)),
)
_QUICK = ("pubmed", "amazon_cs", "usroads")
_WIDTHS = ("64x64", "256x32", "32x256")
OWN = "hetune"


def edges_of(name: str) -> tuple[Tensor, int]:
    """A graph's edge_index, int64 [2, edges], in both directions, and its number of nodes."""
    if name.startswith("mycielskian"):
        return mycielskian(int(name.removeprefix("mycielskian")))
    graph = load_graph(name)
    return torch.stack([graph.src, graph.dst]).long(), graph.num_nodes


def mycielskian(order: int) -> tuple[Tensor, int]:
    """Mycielski's graph of that order: 12 has 3,071 nodes and 815,206 edges."""
    edges, nodes = torch.tensor([[0], [1]]), 2
    for _ in range(order - 2):
        near = edges + torch.tensor([[0], [nodes]])
        far = edges + torch.tensor([[nodes], [0]])
        spokes = torch.stack([torch.arange(nodes, 2 * nodes), torch.full((nodes,), 2 * nodes)])
        edges, nodes = torch.cat([edges, near, far, spokes], dim=1), 2 * nodes + 1
    return torch.cat([edges, edges.flip(0)], dim=1), nodes


def measure(cell: Cell, options: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of each candidate, medians; and the least that the roofline allows."""
    want = cell.conv(cell.x, cell.edge_index)
    compiled = hetune.compile(cell.conv)
    compiled(cell.x, cell.edge_index)
    runs: dict[str, Callable[[], Tensor]] = {OWN: lambda: compiled(cell.x, cell.edge_index)}
    for name in options.peers:
        runs[name] = PEERS[name](cell)
    for variant in compiled.variants if options.variants else ():
        runs[f"{OWN}/{variant}"] = lambda v=variant: compiled(cell.x, cell.edge_index, variant=v)
    found: dict[str, Any] = {"errors": {}}
    seconds: dict[str, float] = {}
    for name, run in list(runs.items()):
        try:
            got = run()
            error = float((got - want).abs().max() / want.abs().max())
            if not error <= _TOLERANCE:
                raise ValueError(f"it is off by {error:.1e}")
            for _ in range(4 if name == OWN else 1):
                seconds[name] = seconds_of(run)
        except Exception as error:  # whatever a peer raises is its result
            found["errors"][name] = f"{type(error).__name__}: {error}".split("\n")[0][:200]
            del runs[name]
    budget = options.budget / len(runs)
    rounds = {name: rounds_within(s, options.rounds, budget) for name, s in seconds.items()}
    clock = time.process_time if options.cpu_time else time.perf_counter
    timings = interleave(runs, rounds, clock=clock)
    found["ms"] = {name: round(1e3 * timing.median, 4) for name, timing in timings.items()}
    if compiled.variants:
        choice, threads = compiled.explain(cell.x, cell.edge_index), options.threads
        scored = choice.scored
        least = least_seconds_of(scored.table, scored.domain, limits(threads), threads)
        found |= {"choice": choice.id, "roofline_ms": round(1e3 * least, 4)}
    return found


def shown(cell: dict[str, Any]) -> str:
    """A line: milliseconds of each, the fastest peer's share of hetune's."""
    own = {n: ms for n, ms in cell["ms"].items() if n == OWN or "/" not in n}
    times = "  ".join(f"{name} {ms:.3g}" for name, ms in own.items())
    lost = "".join(f"  [{name}: {why}]" for name, why in cell["errors"].items())
    head = f"{cell['layer']:6}{cell['graph']:14}{cell['widths']:7}"
    ratio = f"{ratio_of(cell):6.2f}x  {cell.get('choice', 'not compiled'):28}"
    if regret := regret_of(cell):
        ms = _variants(cell)
        best = min(ms, key=ms.__getitem__)
        lost += f"  regret {regret:.2f} (best {best} {ms[best]:.3g})"
    return f"{head}{ratio}{times}{lost}"


def ratio_of(cell: dict[str, Any]) -> float:
    """How many times as fast as the best peer hetune is."""
    peers = [ms for name, ms in cell["ms"].items() if name in PEERS]
    return min(peers) / cell["ms"][OWN]  # type: ignore[no-any-return]


def _variants(cell: dict[str, Any]) -> dict[str, float]:
    prefix = f"{OWN}/"
    return {n.removeprefix(prefix): ms for n, ms in cell["ms"].items() if n.startswith(prefix)}


def regret_of(cell: dict[str, Any]) -> float | None:
    """The chosen variant's time over the best one's, where all were measured."""
    ms = _variants(cell)
    return ms[cell["choice"]] / min(ms.values()) if cell.get("choice") in ms else None


def summary(cells: Sequence[dict[str, Any]]) -> str:
    """A line for each layer."""
    lines = [f"{'layer':8}{'geomean':>8}{'least':>7}{'roofline':>10}{'regret':>8}"]
    for layer in dict.fromkeys(cell["layer"] for cell in cells):
        here = [cell for cell in cells if cell["layer"] == layer]
        ratios = [ratio_of(cell) for cell in here]
        share = [cell["roofline_ms"] / cell["ms"][OWN] for cell in here if "choice" in cell]
        regret = [found for cell in here if (found := regret_of(cell)) is not None]
        lines.append(
            f"{layer:8}{geometric_mean(ratios):7.2f}x{min(ratios):6.2f}x"
            f"{geometric_mean(share):10.2f}{geometric_mean(regret):8.2f}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--layers", type=names, default=list(LAYERS))
    parser.add_argument("--graphs", type=names, default=list(GRAPHS))
    parser.add_argument("--widths", type=names, default=list(_WIDTHS), help="such as 64x64,256x32")
    parser.add_argument("--peers", type=names, default=list(PEERS))
    parser.add_argument("--quick", action="store_true", help="three graphs, no torch.compile")
    parser.add_argument("--variants", action="store_true", help="also each variant of hetune")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--budget", type=float, default=30.0, help="seconds of timing per cell")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cpu-time", action="store_true", help="of one thread")
    parser.add_argument("--out", type=Path, help="where to write what was measured, as JSON")
    options = parser.parse_args(arguments)
    if options.quick:
        options.graphs = [name for name in options.graphs if name in _QUICK]
        options.peers = [name for name in options.peers if name != "compile"]
    if options.cpu_time:
        options.threads = 1
    set_threads(options.threads)
    warnings.filterwarnings("ignore", category=UserWarning)  # the peers' own
    cells: list[dict[str, Any]] = []
    for graph in options.graphs:
        try:
            edge_index, nodes = edges_of(graph)
        except MissingGraphError as error:
            print(error, file=sys.stderr)
            continue
        for layer in options.layers:
            for widths in options.widths:
                d_in, d_out = map(int, widths.split("x"))
                cell = Cell(layer, d_in, d_out, edge_index, nodes)
                _ = cell.conv, cell.x  # made outside of the mode, so that changes of them are seen
                with torch.inference_mode():
                    found = measure(cell, options)
                cells.append({"layer": layer, "graph": graph, "widths": widths, **found})
                print(shown(cells[-1]), flush=True)
    print(summary(cells))
    if options.out is not None:
        write_record(options.out, options.threads, cells=cells)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
