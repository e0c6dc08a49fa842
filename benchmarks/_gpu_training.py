"""Steps of training, and layers of graphs with one edge type, on a GPU beside PyG and an expert.

hetune runs what `hetune.compile` chooses. It takes turns with each other candidate, whose result
(of a step: all gradients) was compared with float64 before.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from _gpu import clocks
from _gpu_graphs import fresh_graph, origin
from _gpu_layers import power_law
from _gpu_peers import guarded, settle
from _gpu_timing import Run, beside, in_turns, peak_bytes, stopwatch
from _gpu_units import Unit
from _peers.homogeneous import Own
from _registry import matching
from _results import PYG
from torch import Tensor

from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.runtime.replay import PATIENCE
from hetune.variants.testing.conformance import relative_error

GRAPHS = ("aifb", "mutag", "bgs", "am")
LAYERS = ("rgcn", "rgat", "hgt")
CONVS = ("gcn", "sage", "gat", "gatv2")
DRAWN = {"1M": (100_000, 1_000_000), "10M": (1_000_000, 10_000_000)}
"""Nodes and edges."""
WIDTH, TOLERANCE = 64, 1e-4
_BUDGET_S, _UNIT_S = 0.4, 25.0


class Contender(NamedTuple):
    """What takes part.

    Attributes:
        name: "family/form".
        build: Prepares it.
        error: How far from float64 its result is.
    """

    name: str
    build: Callable[[], Run]
    error: Callable[[Any], float]


@dataclass(frozen=True)
class Comparisons:
    """Makes the units.

    Attributes:
        device: "cuda", or "cpu" with Triton's interpreter, on small graphs.
        rounds: How often a candidate takes its turn.
    """

    device: str
    rounds: int = 20

    def units(self) -> list[Unit]:
        """All of them; those of a graph stand together, which is then drawn once."""
        is_small = self.device == "cpu"
        graphs, sizes = (("one relation",), ("1M",)) if is_small else (GRAPHS, tuple(DRAWN))
        steps = [
            Unit(f"training/{graph}/{layer}/{WIDTH}", partial(self.step, graph, layer))
            for graph in graphs
            for layer in LAYERS
        ]
        return steps + [
            Unit(f"homogeneous/{size}/{layer}/{WIDTH}", partial(self.homogeneous, size, layer))
            for size in sizes
            for layer in CONVS
        ]

    def step(self, graph: str, layer: Any) -> dict[str, Any]:
        """Forward, backward, and an update of all parameters by nothing."""
        from _peers.problem import Problem
        from _peers.training import hetune_layer
        from _training_cells import TrainingCell

        cell = TrainingCell(layer, graph, WIDTH, 1, "step")
        problem = Problem(layer, fresh_graph(graph, self.device), WIDTH, trains=True)
        problem.make_inputs()
        want, author = _exact(cell, problem)
        settle(self.device)
        error = partial(cell.error, problem, want=want)
        peers = [
            Contender(each.name, partial(_updating, each.build, problem), error)
            for each in cell.candidates(only=("expert", "pyg"))
        ]
        make = partial(cell._run, partial(hetune_layer, backend=TritonBackend()))
        own = Contender("hetune", partial(_updating, make, problem), error)
        facts = {"graph": origin(graph), "nodes": problem.graph.num_nodes, "reference": author}
        return self._compared(own, peers, {**facts, "edges": problem.graph.num_edges})

    def homogeneous(self, size: str, layer: str) -> dict[str, Any]:
        """Inference of a layer."""
        from _peers.homogeneous import HomogeneousProblem, candidates, hetune_layer

        nodes, edges = DRAWN[size] if self.device != "cpu" else (60, 240)
        edge_index = _drawn(nodes, edges, self.device)
        problem = HomogeneousProblem(layer, WIDTH, WIDTH, edge_index, nodes)
        with torch.no_grad():
            error = partial(relative_error, expected=problem.exact())
            own = partial(hetune_layer, problem, backend=TritonBackend())
            peers = [
                Contender(each.name, partial(each.build, problem), error)
                for each in matching(candidates(layer), compiled=False, only=("pyg", "expert"))
            ]
            facts = {"nodes": nodes, "edges": edge_index.shape[1]}
            return self._compared(Contender("hetune", own, error), peers, facts)

    def _compared(
        self, own: Contender, peers: Sequence[Contender], facts: dict[str, Any]
    ) -> dict[str, Any]:
        """The record, with each peer beside hetune."""
        start, device = time.perf_counter(), self.device
        found = {**facts, "clocks_before": clocks(device), "candidates": []}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the peers' own
            run, record = self._prepared(own)
            if record["status"] != "ok":
                raise AssertionError(f"hetune is {record}")
            alone = in_turns({"own": run}, stopwatch(device), self.rounds, budget_s=_BUDGET_S)
            found["hetune"] = {**record, **alone["own"], "ran": run.ran()}
            if "original" in run.ran():
                raise AssertionError(f"hetune did not compile: {run.ran()}")
            for peer in peers:
                left = _UNIT_S - (time.perf_counter() - start)
                times = guarded(partial(self._beside, run, peer), left, device)
                found["candidates"].append({"name": peer.name, **times})
        return {**found, "clocks_after": clocks(device)}

    def _prepared(self, contender: Contender) -> tuple[Any, dict[str, Any]]:
        """Its call, and how good it is."""
        start = time.perf_counter()
        run = contender.build()
        error = contender.error(run())
        record = {"status": "ok" if error <= TOLERANCE else "wrong", "relative_error": error}
        record["prepare_s"] = round(time.perf_counter() - start, 3)
        for _ in range(PATIENCE + 1):
            run()
        return run, {**record, "peak_bytes": peak_bytes(run, self.device)}

    def _beside(self, own: Run, peer: Contender) -> dict[str, Any]:
        run, record = self._prepared(peer)
        if record["status"] != "ok":
            return record
        watch = stopwatch(self.device)
        return {**record, **beside(own, run, watch, self.rounds, budget_s=_BUDGET_S)}


def _updating(build: Callable[[Any], Any], problem: Any) -> Own:
    """Gradients, followed by what an optimizer does with them; parameters keep their values."""
    gradients = build(problem)
    parameters = gradients.parameters

    def run() -> dict[str, Any]:
        found: dict[str, Any] = gradients()
        with torch.no_grad():
            by = [found[name] for name in parameters]
            torch._foreach_add_([*parameters.values()], by, alpha=0.0)
        return found

    return Own(run, gradients.ran or (lambda: ""))


def _exact(cell: Any, problem: Any) -> tuple[dict[str, Any], str]:
    """Gradients in float64: of an expert's form, or where that fails of PyG's layer."""
    double = replace(problem, dtype=torch.float64)
    for name in ("expert/smaller side", PYG[problem.layer]):
        [candidate] = cell.candidates(only=[name])
        try:
            return candidate.build(double)(), name
        except RuntimeError as error:
            reason = error
    raise reason


@lru_cache(maxsize=1)
def _drawn(nodes: int, edges: int, device: str) -> Tensor:
    src, dst = power_law(nodes, edges).to(device)
    # Sparse matrices hold each edge once, and PyG adds loops to them where there are some.
    keys = (src * nodes + dst)[src != dst].unique()
    return torch.stack([keys // nodes, keys % nodes])
