"""The check on a GPU: all variants right, the sanitizer silent, times beside other libraries.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from _gpu import card, missing
from _gpu_choices import choice_lines
from _gpu_graphs import LARGE, REAL, ROAD, TIMED, graph_named
from _gpu_layers import LayerChecks
from _gpu_peers import Cells, compile_ahead, each_plan, fastest_peers, plans_of
from _gpu_report import beside_lines, peers_lines, roofline_lines, tripwire_lines, variants_lines
from _gpu_roofline import Roofline
from _gpu_serve import Serving
from _gpu_training import Comparisons
from _gpu_tripwire import Tripwire
from _gpu_units import LIMIT, UNIT_S, Held, Unit, serve, work
from _machine import commit
from _peers.problem import LAYERS as PEER_LAYERS
from torch import nn

from hetune.profiling.calibrate.gpu_rates import measure_gpu
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.backends.triton.precision import PRECISIONS
from hetune.variants.backends.triton.toolkit import interpreting
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.replay import PATIENCE
from hetune.variants.testing.conformance import (
    TOLERANCE,
    check_variants,
    features,
    interpreted,
    relative_error,
)
from hetune.variants.testing.graphs import AWKWARD, long_sums
from hetune.variants.testing.layers import LAYERS, randomized

RESULTS = Path(__file__).resolve().parent / "results" / "gpu_check.json"
_TIMED_LAYERS = ("rgcn-mean", "rgat-across", "hgt")
SANITIZED = ("duplicate edges", "self loops", "relations without edges")


@dataclass(frozen=True)
class Check:
    """Makes the units."""

    device: str
    graphs: Sequence[str]
    widths: Sequence[int]
    rounds: int
    ahead_of_time: bool = True
    unit_s: float = UNIT_S
    precision: str = "ieee"
    fastest: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def units(self) -> list[Unit]:
        """All of them: kernels against their bounds, then the cheapest evidence first."""
        large = [g for g in self.graphs if g in LARGE or self.device == "cpu"]
        found: list[Unit] = []
        if self.device != "cpu":
            found.append(Unit("rates", lambda: asdict(measure_gpu(torch.device(self.device)))))
        if self.device != "cpu" or interpreting():
            roofline = Roofline(self.device, self.rounds, unit_s=self.unit_s)
            for graph in large:  # all of one graph, which is drawn for them, stand together
                found += roofline.units(graph)
                found += Tripwire(roofline).units(graph) if self.device != "cpu" else []
            found += Tripwire(roofline).units(ROAD) if self.device != "cpu" else []
        shapes = [(n, h) for n, layer in LAYERS.items() for h in layer.heads if h <= 2]
        awkward = SANITIZED if self.device == "cpu" else tuple(AWKWARD)
        found += [
            Unit(
                f"awkward/{n}/{h}/{g}",
                lambda n=n, h=h, g=g: self.correct(n, g, 7, h),
                alone=False,
            )
            for (n, h), g in itertools.product(shapes, awkward)
        ]
        if self.device != "cpu":
            found += [
                Unit(f"hub/{n}/{h}", lambda n=n, h=h: self.summed(n, h), alone=False)
                for n, h in shapes
            ]
            found.append(Unit("ahead", self.ahead, alone=False))
            found += [
                Unit(f"replay/{n}/{g}", lambda n=n, g=g: self.replayed(n, g), alone=False)
                for n, g in itertools.product(_TIMED_LAYERS, ("several blocks", "aifb"))
            ]
            tools = ("memcheck", "racecheck", "synccheck")
            found += [
                Unit(f"sanitizer/{t}", lambda t=t: self.sanitized(t), alone=False) for t in tools
            ]
        found += LayerChecks(self.device).units()
        right = [g for g in self.graphs if g in REAL or self.device == "cpu"]
        found += [
            Unit(
                f"correct/{n}/{h}/{g}/{w}",
                lambda n=n, h=h, g=g, w=w: self.correct(n, g, w, h, prepare=True),
                alone=False,
            )
            for g, w, (n, h) in itertools.product(right, self.widths, shapes)
        ]
        served = right[:2] if self.device == "cpu" else ("several blocks", "aifb", "biokg")
        found += Serving(self.device, self.rounds).units(served, self.widths[0])
        how = self.precision, self.unit_s, self.ahead_of_time, self.fastest
        peers = Cells(self.device, self.rounds, *how)
        found += peers.units(self.graphs, PEER_LAYERS, self.widths[:1])
        return found + Comparisons(self.device, self.rounds).units()

    def correct(
        self, name: str, graph: str, width: int, heads: int, prepare: bool = False
    ) -> dict[str, Any]:
        """Every plan, or (with `prepare`) every variant, against float64; and other precisions."""
        module, at = self.problem(name, graph, width, heads)
        keep = _every if prepare else each_plan
        if prepare and self.ahead_of_time:
            compile_ahead(module, self.device, keep=keep)
        count = check_variants(module, at, TritonBackend(), keep=keep)
        found: dict[str, Any] = {"variants": count, "tolerance": TOLERANCE}
        x = features(module, at)
        expected = interpreted(module, x, at)
        for precision in PRECISIONS:
            backend = TritonBackend(precision)
            layer = compile_layer(module, backend=backend)
            with torch.no_grad():
                out = layer(x, at, variant=plans_of(layer)[0])
            found[f"error_{precision}"] = relative_error(out.flatten(1), expected)
        return found

    def summed(self, name: str, heads: int) -> dict[str, Any]:
        """Every plan where a node has hundreds of thousands of edges, and features no signs."""
        graph = long_sums().to(self.device)
        module = randomized(LAYERS[name].make(graph, 7, heads)).eval().to(self.device)
        x = features(module, graph).abs()
        return {"variants": check_variants(module, graph, TritonBackend(), keep=each_plan, x=x)}

    def ahead(self) -> dict[str, Any]:
        """Kernels compiled ahead for this card are loaded by its driver, and are right."""
        module, at = self.problem("rgcn-mean", "several blocks", 16, 1)
        (report,) = compile_ahead(module, self.device)
        backend = TritonBackend()
        plans = check_variants(module, at, backend, keep=each_plan)
        loaded = sum(bool(kernels) for kernels in backend._kernels.values())
        if report.failed or loaded < len(backend._kernels):
            raise AssertionError(f"{loaded} of {len(backend._kernels)} launches loaded: {report}")
        return {"plans": plans, "launches_loaded": loaded, "build_seconds": report.seconds}

    def replayed(self, name: str, graph: str) -> dict[str, Any]:
        """Every plan as a CUDA graph, on several streams with other features each time."""
        module, at = self.problem(name, graph, 64, 1)
        if self.ahead_of_time:
            compile_ahead(module, self.device)
        layer = compile_layer(module, backend=TritonBackend(), cuda_graph=True)
        x = features(module, at)
        expected = interpreted(module, x, at)
        streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        given = [torch.empty_like(x) for _ in streams]
        worst, recorded = 0.0, 0
        for variant in plans_of(layer):
            outs = [torch.empty_like(expected, dtype=torch.float32) for _ in streams]
            for turn in range(PATIENCE + 3):
                for stream, rows, out in zip(streams, given, outs, strict=True):
                    stream.wait_stream(torch.cuda.current_stream())
                    with torch.cuda.stream(stream), torch.no_grad():
                        rows.copy_(x if turn % 2 == PATIENCE % 2 else x * 2)
                        layer(rows, at, variant=variant, out=out)
            torch.cuda.synchronize()
            recorded += len(layer._runs.use_of(at).replays(True, layer._runs.recorder)._recordings)
            errors = [relative_error(out.flatten(1), expected) for out in outs]
            worst = max(worst, *errors)
            if not worst <= TOLERANCE:
                raise AssertionError(f"{variant}: errors {errors}")
        if recorded != len(streams) * len(plans_of(layer)):
            raise AssertionError(f"{recorded} recordings, not one for each stream and plan")
        return {"error": worst, "tolerance": TOLERANCE, "recorded": recorded}

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
        for name, graph in zip(_TIMED_LAYERS, SANITIZED, strict=True):
            module, at = self.problem(name, graph, 7, 1)
            check_variants(module, at, TritonBackend(), keep=each_plan)

    def problem(
        self, name: str, graph: str, width: int, heads: int
    ) -> tuple[nn.Module, HeteroGraph]:
        """A layer with random parameters, and a graph, both on the device."""
        made = graph_named(graph, self.device)
        module = randomized(LAYERS[name].make(made, width, heads)).eval()
        return module.to(self.device), made


def _every(variant: Variant) -> bool:
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--graphs", default=",".join(TIMED), help="with commas")
    parser.add_argument("--widths", default="64,32,128", help="with commas")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds")
    parser.add_argument(
        "--unit-limit", type=float, default=UNIT_S, help="seconds of one cell or roofline"
    )
    parser.add_argument("--only", default="", help="units whose keys begin so, with commas")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--list", action="store_true", help="list the units, and run none")
    parser.add_argument("--again", action="store_true", help="run failed units again")
    parser.add_argument("--jit", action="store_true", help="compile nothing ahead of time")
    parser.add_argument("--jobs", type=int, help="processes for what need not run alone")
    parser.add_argument("--worker", action="store_true", help="run what standard input names")
    parser.add_argument("--sample", action="store_true", help="what the sanitizer looks at")
    parser.add_argument("--table", action="store_true", help="only print what the file holds")
    parser.add_argument(
        "--choices", action="store_true", help="only judge choices by what the file holds"
    )
    parser.add_argument("--precision", choices=("ieee", "tf32"), default="ieee", help="of peers/")
    parser.add_argument(
        "--fastest-of", type=Path, help="earlier results: of peers/, their two fastest run"
    )
    given = parser.parse_args(arguments)
    if given.table or given.choices:
        units = json.loads(given.out.read_text())["units"]
        for line in choice_lines(units) if given.choices else _lines(units):
            print(line, flush=True)
        return 0
    widths = [int(width) for width in given.widths.split(",")]
    graphs = given.graphs.split(",")
    known = json.loads(given.fastest_of.read_text())["units"] if given.fastest_of else {}
    how = not given.jit, given.unit_limit, given.precision, fastest_peers(known)
    check = Check(given.device, graphs, widths, given.rounds, *how)
    only = tuple(given.only.split(","))
    units = [unit for unit in check.units() if unit.key.startswith(only)]
    if given.list:
        print("\n".join(unit.key for unit in units))
        return 0
    if given.device == "cuda" and not torch.cuda.is_available():
        print("torch sees no GPU here: run it on a machine with one", file=sys.stderr)
        return 2
    if given.sample:
        check.sample()
        return 0
    if given.worker:
        serve(units, given.device)
        return 0
    jobs = given.jobs or (1 if given.device == "cpu" else max((os.cpu_count() or 1) * 3 // 4, 1))
    for name in missing():
        print(f"not here: {name}")
    held = Held(given.out, card(given.device), commit())
    status = work(units, held, device=given.device, limit=given.limit, again=given.again, jobs=jobs)
    for line in _lines(held.units):
        print(line)
    return status


def _lines(units: Mapping[str, Any]) -> Iterator[str]:
    for table in (variants_lines, peers_lines, roofline_lines, tripwire_lines, beside_lines):
        yield from table(units)


if __name__ == "__main__":
    sys.exit(main())
