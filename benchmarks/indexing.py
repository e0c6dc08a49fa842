"""What indexing costs, of a large graph and of new small ones.

    python benchmarks/indexing.py [--edges 5000000] [--nodes 1000000] [--etypes 100]

Measures all indexes of the large graph, those that RGCN's hybrid plan needs, and what a call with a
new small graph takes beyond one with the same graph again.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from _command_line import command_line
from _machine import set_threads, write_record
from _measure import seconds_of
from torch import Tensor

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.frontend.presets import preset_programs
from hetune.variants.graph import cuts
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.plan.sides import default_variant
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable

_BLOCK_NODES = 64
_WARM = 8
_NAMES = (
    *("edge_id", "indptr", "in_degree", "csc_indptr"),
    *("dst_pair_of_edge", "dst_pair_count", "node_dst_pair_indptr"),
    *("src_pair_of_edge", "src_pair_etype_ptr", "relation_stats"),
)


def skewed_graph(edges: int, nodes: int, etypes: int, seed: int = 0) -> HeteroGraph:
    """Sources, destinations and types drawn from powers of uniform numbers, edges unordered."""
    rng = np.random.default_rng(seed)
    src, dst, etype = (
        (count * rng.random(edges) ** power).astype(np.int32)
        for count, power in ((nodes, 2.0), (nodes, 3.0), (etypes, 2.0))
    )
    return HeteroGraph(src, dst, etype, num_nodes=nodes, num_etypes=etypes)


def build_all(index: GraphIndex) -> None:
    """Builds all that a variant may ask for."""
    for name in _NAMES:
        getattr(index, name)
    for space in ("dst_pair", "src_pair"):
        cuts.row_groups(index, space, None)
    cuts.row_groups(index, "dst_pair", _BLOCK_NODES)


def measure(graph: HeteroGraph, rounds: int) -> dict[str, Any]:
    """Seconds of the whole, and of each step in the round of least time."""
    totals, steps = [], []
    for _ in range(rounds):
        index = GraphIndex(graph)
        totals.append(seconds_of(lambda index=index: build_all(index)))
        steps.append({name: round(s, 6) for name, s in index.build_seconds.items()})
    best = steps[totals.index(min(totals))]
    return {**_summary(totals), "bytes": index.nbytes, "steps_of_best_round": best}


def measure_hybrid(graph: HeteroGraph, rounds: int) -> dict[str, Any]:
    """Seconds until RGCN's default plan is ready to run on a graph that is not indexed."""
    (program,) = preset_programs("rgcn", 64)
    variant = default_variant(variants_of(program, "cpu"))

    def ready() -> Executable:
        fresh = graph.unindexed()  # a domain does not keep its graph
        return Executable(variant.plan, Domain(fresh), CppBackend(), variant.schedules)

    ready()  # compiles
    return {"variant": variant.id, **_summary([seconds_of(ready) for _ in range(rounds)])}


def measure_new_graphs(edges: int, rounds: int) -> dict[str, Any]:
    """Median seconds of calls on new graphs, on the same ones again, and of PyG's layers, by layer.

    "step" and "pyg_step" are forward and backward on a new graph. Layers are compiled with
    ``dynamic=True``; graphs have half as many nodes as edges. With one thread, the process's own
    time is counted, which other processes disturb less.
    """
    import hetune

    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter

    def cost_of(run: Callable[..., object], call: tuple[Any, ...]) -> float:
        start = clock()
        run(*call)
        return clock() - start

    def trained(layer: torch.nn.Module, *call: Any) -> None:
        out = layer(*call)
        rows = out.values() if isinstance(out, dict) else (out,)
        sum(each.sum() for each in rows).backward()
        layer.zero_grad()

    found = {}
    for name, (layer, drawn) in _layers(edges).items():
        compiled = hetune.compile(layer, dynamic=True)
        times: dict[str, list[float]] = {}
        for i in range(rounds + _WARM):
            call = drawn()
            with torch.no_grad():
                seconds = {"new": cost_of(compiled, call)}
                compiled(*call)  # indexes the graph, now that calls repeat
                seconds |= {"again": cost_of(compiled, call), "pyg": cost_of(layer, call)}
            call = drawn()
            seconds["step"] = cost_of(trained, (compiled, *call))
            seconds["pyg_step"] = cost_of(trained, (layer, *call))
            for kind in seconds if i >= _WARM else ():  # the first ones compile
                times.setdefault(kind, []).append(seconds[kind])
        found[name] = {kind: statistics.median(each) for kind, each in times.items()}
    return found


def _layers(edges: int) -> dict[str, tuple[torch.nn.Module, Callable[[], tuple[Any, ...]]]]:
    """PyG's layers, and what draws what they are called with."""
    from torch_geometric import nn

    nodes, relations, width = edges // 2, 20, 64
    triples = [("a", "0", "b"), ("b", "1", "a"), ("a", "2", "a"), ("b", "3", "b")]

    def flat() -> tuple[Tensor, ...]:
        return torch.randn(nodes, width), torch.randint(0, nodes, (2, edges))

    def by_type() -> tuple[dict[Any, Tensor], ...]:
        counts = {"a": nodes // 2, "b": nodes // 2}
        ends = {triple: torch.randint(0, nodes // 2, (2, edges // 4)) for triple in triples}
        return {name: torch.randn(count, width) for name, count in counts.items()}, ends

    return {
        "RGCNConv": (
            nn.RGCNConv(width, width, relations),
            lambda: (*flat(), torch.randint(0, relations, (edges,))),
        ),
        "GCNConv": (nn.GCNConv(width, width), flat),
        "SAGEConv": (nn.SAGEConv(width, width), flat),
        "GATConv": (nn.GATConv(width, width // 4, heads=4), flat),
        "HGTConv": (nn.HGTConv(width, width, (["a", "b"], triples), heads=4), by_type),
    }


def _summary(seconds: Sequence[float]) -> dict[str, Any]:
    return {
        "seconds_median": statistics.median(seconds),
        "seconds_min": min(seconds),
        "rounds": len(seconds),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and keep."""
    line = command_line(__doc__, "indexing")
    line.add_argument("--edges", type=int, default=5_000_000)
    line.add_argument("--nodes", type=int, default=1_000_000)
    line.add_argument("--etypes", type=int, default=100)
    line.add_argument("--rounds", type=int, default=7)
    line.add_argument("--small-edges", type=int, default=1000, help="of new graphs")
    line.add_argument("--new-graphs", type=int, default=200, help="how many")
    options = line.parse_args(arguments)
    set_threads(options.threads)
    size = {name: getattr(options, name) for name in ("edges", "nodes", "etypes")}
    graph = skewed_graph(**size)
    native, hybrid = measure(graph, options.rounds), measure_hybrid(graph, options.rounds)
    new = measure_new_graphs(options.small_edges, options.new_graphs)
    facts = {"graph": size, "native": native, "hybrid": hybrid}
    new_graphs = {"edges": options.small_edges, "seconds": new}
    write_record(options.out, options.threads, **facts, new_graphs=new_graphs)
    for name, found in (("all indexes", native), (hybrid["variant"], hybrid)):
        print(f"{name}: {found['seconds_median']:.3f} s, least {found['seconds_min']:.3f} s")
    for name, times in new.items():
        cost = (times["new"] - times["again"]) * 1e3
        print(
            f"{name}: {cost:.3f} ms for a new graph, {times['again'] * 1e3:.3f} ms for a run; "
            f"PyG takes {times['pyg'] * 1e3:.3f} ms for both; a step of training takes "
            f"{times['step'] * 1e3:.2f} ms, and PyG's {times['pyg_step'] * 1e3:.2f} ms"
        )
    for step, seconds in native["steps_of_best_round"].items():
        print(f"  {step:28} {seconds * 1e3:9.1f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
