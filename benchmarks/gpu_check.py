"""The check on a GPU: all variants right, the sanitizer silent, milliseconds per layer and graph.

    PYTHONPATH=src python benchmarks/gpu_check.py            # again and again, until it says done
    PYTHONPATH=src python benchmarks/gpu_check.py --list

It needs no installation: what the checkout imports has to be there (torch, triton, numpy, scipy,
pyarrow, filelock, platformdirs, psutil), with PyG also its times. The work is cut into units, and
every unit's result is written when it is there. No unit begins after --limit seconds; started
again, it goes on with those that are missing for this card and commit. It exits with 0 if all are
there and good, 1 if one has failed, 3 if some are left.

With TRITON_INTERPRET=1 and --device cpu the same code runs, slowly, on small graphs.
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from _gpu import card, clocks, commit, milliseconds, missing, peak_bytes
from _graphs import data_folder
from torch import Tensor, nn

from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.backends.triton.schedule import PRECISIONS, TritonSchedule
from hetune.variants.frontend.adapt import adapt
from hetune.variants.graph.generate import generate
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders import load
from hetune.variants.registry.whole import write_whole
from hetune.variants.runtime.build import build
from hetune.variants.runtime.compiled import compile as compile_layer
from hetune.variants.testing.conformance import (
    TOLERANCE,
    check_variants,
    features,
    interpreted,
    relative_error,
)
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.layers import LAYERS, randomized

RESULTS = Path(__file__).resolve().parent / "results" / "gpu_check.json"
REAL = {"aifb": "aifb_hetero", "mutag": "mutag_hetero", "fb15k237": "fb15k237"}
"""Graphs that are loaded where they are there, and else drawn in their shape."""
DRAWN = {"fb15k237": "fb15k"}
TIMED = ("aifb", "mutag", "fb15k237", "am", "bgs", "biokg", "mag", "wikikg2")
SANITIZED = ("duplicate edges", "self loops", "relations without edges")
LIMIT = 480.0


@dataclass(frozen=True)
class Unit:
    """A piece of work of at most a minute or so."""

    key: str
    run: Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Check:
    """Makes the units."""

    device: str
    graphs: Sequence[str]
    widths: Sequence[int]
    rounds: int

    def units(self) -> list[Unit]:
        """All of them, the cheapest evidence first."""
        shapes = [(n, h) for n, layer in LAYERS.items() for h in layer.heads if h <= 2]
        awkward = SANITIZED if self.device == "cpu" else tuple(AWKWARD)
        found = [
            Unit(f"awkward/{n}/{h}/{g}", lambda n=n, h=h, g=g: self.correct(n, g, 7, h))
            for (n, h), g in itertools.product(shapes, awkward)
        ]
        if self.device != "cpu":
            found.append(Unit("ahead", self.ahead))
            tools = ("memcheck", "racecheck", "synccheck")
            found += [Unit(f"sanitizer/{t}", lambda t=t: self.sanitized(t)) for t in tools]
        right = [g for g in self.graphs if g in REAL or self.device == "cpu"]
        found += [
            Unit(f"correct/{n}/{h}/{g}/{w}", lambda n=n, h=h, g=g, w=w: self.correct(n, g, w, h))
            for g, w, (n, h) in itertools.product(right, self.widths, shapes)
        ]
        found += [
            Unit(f"time/{n}/{g}/{w}", lambda n=n, g=g, w=w: self.times(n, g, w))
            for g, w, n in itertools.product(
                self.graphs, self.widths, ("rgcn-mean", "rgat-across", "hgt")
            )
        ]
        return found

    def correct(self, name: str, graph: str, width: int, heads: int) -> dict[str, Any]:
        """Every plan against float64, and how far the narrower precisions are off."""
        module, at = self.problem(name, graph, width, heads)
        plans = check_variants(module, at, TritonBackend(), keep=_each_plan)
        found: dict[str, Any] = {"plans": plans, "tolerance": TOLERANCE}
        x = features(module, at)
        expected = interpreted(module, x, at)
        for precision in PRECISIONS:
            backend = TritonBackend(TritonSchedule(precision=precision))
            layer = compile_layer(module, backend=backend)
            with torch.no_grad():
                out = layer(x, at, variant=next(v for v in layer.variants if _each_plan(v)))
            found[f"error_{precision}"] = relative_error(out.flatten(1), expected)
        return found

    def ahead(self) -> dict[str, Any]:
        """Kernels compiled ahead for this card are loaded by its driver, and are right."""
        capability = "".join(map(str, torch.cuda.get_device_capability(0)))
        module, at = self.problem("rgcn-mean", "several blocks", 16, 1)
        report = build([adapt(module).program], device=f"cuda:sm_{capability}").report
        backend = TritonBackend()
        plans = check_variants(module, at, backend, keep=_each_plan)
        loaded = sum(bool(kernels) for kernels in backend._kernels.values())
        if report.failed or loaded < len(backend._kernels):
            raise AssertionError(f"{loaded} of {len(backend._kernels)} launches loaded: {report}")
        return {"plans": plans, "launches_loaded": loaded, "build_seconds": report.seconds}

    def sanitized(self, tool: str) -> dict[str, Any]:
        """A sample of the awkward units under compute-sanitizer."""
        program = shutil.which("compute-sanitizer")
        if program is None:
            return {"skipped": "compute-sanitizer is not on the PATH"}
        command = [program, "--tool", tool, "--error-exitcode", "9", sys.executable, __file__]
        environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        done = subprocess.run(
            [*command, "--sample"], capture_output=True, text=True, timeout=400, env=environment
        )
        said = (done.stdout + done.stderr).splitlines()[-12:]
        if done.returncode:
            raise AssertionError(f"{tool}: exit status {done.returncode}: " + "\n".join(said))
        return {"said": said}

    def sample(self) -> None:
        """What runs under the sanitizer: every plan of each layer on a few small graphs."""
        for name, graph in zip(("rgcn-mean", "rgat-across", "hgt"), SANITIZED, strict=True):
            module, at = self.problem(name, graph, 7, 1)
            check_variants(module, at, TritonBackend(), keep=_each_plan)

    def times(self, name: str, graph: str, width: int) -> dict[str, Any]:
        """Milliseconds of every plan, and of PyG where it is there."""
        module, at = self.problem(name, graph, width, 1)
        x = features(module, at)
        found: dict[str, Any] = {"nodes": at.num_nodes, "edges": at.num_edges, "plans": {}}
        with torch.inference_mode():
            for precision in ("ieee", "tf32"):
                backend = TritonBackend(TritonSchedule(precision=precision))
                layer = compile_layer(module, backend=backend)
                for variant in filter(_each_plan, layer.variants):
                    plan = f"{variant.rpartition('/')[0]} {precision}"
                    found["plans"][plan] = self._timed(
                        lambda v=variant, run=layer: run(x, at, variant=v)
                    )
            found["pyg"] = self._peer(name, at, width, x)
        found["clocks_mhz"] = clocks(self.device)
        return found

    def _timed(self, run: Callable[[], Any]) -> dict[str, Any]:
        try:
            run()
            peak = peak_bytes(run, self.device)
            return {**milliseconds(run, self.device, self.rounds), "peak_bytes": peak}
        except torch.OutOfMemoryError:
            return {"failed": "out of memory"}

    def _peer(self, name: str, graph: HeteroGraph, width: int, x: Tensor) -> dict[str, Any]:
        if "torch_geometric" in missing():
            return {"skipped": "torch_geometric is not installed"}
        from _peers.problem import Problem

        problem = Problem(name.partition("-")[0], graph.to("cpu"), width)
        conv = problem.conv.to(self.device)
        edges = problem.edge_index.to(self.device), problem.edge_type.to(self.device)
        if name == "hgt":
            nodes = {key: rows.to(self.device) for key, rows in problem.x_dict.items()}
            local = {key: e.to(self.device) for key, e in problem.edge_index_dict.items()}
            return self._timed(lambda: conv(nodes, local))
        return self._timed(lambda: conv(x, *edges))

    def problem(
        self, name: str, graph: str, width: int, heads: int
    ) -> tuple[nn.Module, HeteroGraph]:
        """A layer with random parameters, and a graph, both on the device."""
        made = graph_named(graph, self.device)
        module = randomized(LAYERS[name].make(made, width, heads)).eval()
        return module.to(self.device), made


@lru_cache(maxsize=1)
def graph_named(name: str, device: str) -> HeteroGraph:
    """An awkward graph, a real one with inverse edges, or one drawn in the shape of a real one."""
    return _graph(name).to(device)


def _graph(name: str) -> HeteroGraph:
    if name in AWKWARD:
        return AWKWARD[name]()
    path = data_folder() / "graphs" / f"{REAL.get(name, name)}.npz"
    if name in REAL and path.is_file():
        return load(path).add_inverse().canonicalize()
    return generate(DRAWN.get(name, name))


def _each_plan(variant: str) -> bool:
    return variant.endswith("/b256")


class Held:
    """The results so far, of this card and commit."""

    def __init__(self, path: Path, machine: dict[str, Any], commit: str | None) -> None:
        self.path, self.head = path, {"machine": machine, "commit": commit}
        self.units: dict[str, Any] = {}
        if path.is_file():
            known = json.loads(path.read_text())
            if {key: known.get(key) for key in self.head} == self.head:
                self.units = known["units"]

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Keep a unit's result."""
        self.units[key] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({**self.head, "units": self.units}, indent=1)
        write_whole(self.path, f"{content}\n".encode(), 0o644)


def run_unit(unit: Unit) -> dict[str, Any]:
    """A unit's result, or why there is none."""
    start = time.perf_counter()
    try:
        result = unit.run()
    except Exception as error:
        last = traceback.format_exc().splitlines()[-4:]
        result = {"failed": f"{type(error).__name__}: {error}"[:2000], "where": last}
    return {**result, "seconds": round(time.perf_counter() - start, 2)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--graphs", default=",".join(TIMED), help="with commas")
    parser.add_argument("--widths", default="64,32,128", help="with commas")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds")
    parser.add_argument("--only", default="", help="units whose keys begin so, with commas")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--list", action="store_true", help="list the units, and run none")
    parser.add_argument("--again", action="store_true", help="run failed units again")
    parser.add_argument("--sample", action="store_true", help="what the sanitizer looks at")
    given = parser.parse_args(arguments)
    widths = [int(width) for width in given.widths.split(",")]
    check = Check(given.device, given.graphs.split(","), widths, given.rounds)
    only = tuple(given.only.split(","))
    units = [unit for unit in check.units() if unit.key.startswith(only)]
    if given.list:
        print("\n".join(unit.key for unit in units))
        return 0
    if given.device == "cuda" and not torch.cuda.is_available():
        print("gpu-check: torch sees no GPU here: run it on a machine with one", file=sys.stderr)
        return 2
    if given.sample:
        check.sample()
        return 0
    for name in missing():
        print(f"not here: {name}")
    held = Held(given.out, card(given.device), commit())
    deadline = time.monotonic() + given.limit
    for unit in units:
        known = held.units.get(unit.key)
        if known is not None and not (given.again and "failed" in known):
            continue
        if time.monotonic() > deadline:
            break
        held.put(unit.key, result := run_unit(unit))
        print(f"{unit.key}: {result.get('failed') or result.get('skipped') or 'ok'}", flush=True)
    bad = [unit.key for unit in units if "failed" in held.units.get(unit.key, {})]
    left = sum(unit.key not in held.units for unit in units)
    print(f"{len(units) - left} of {len(units)} units, {len(bad)} failed, in {given.out}")
    for key in bad:
        print(f"failed: {key}: {held.units[key]['failed'][:200]}")
    return 1 if bad else 3 if left else 0


if __name__ == "__main__":
    sys.exit(main())
