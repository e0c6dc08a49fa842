"""Compiling all variants of the three layers, and starting warm: a fresh process loads everything.

    python benchmarks/startup.py [--layers rgcn,rgat,hgt] [--widths 32,64,128] [--starts 7]

The kernels go to a temporary registry. Each start is a process of its own; what it pays is listed
apart: importing torch and hetune, planning (programs to variants), printing the sources that the
kernels are found by, finding the compiler, and loading all kernels (digest checked, dynamic
linker).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "startup.json"
LIMIT_MS = 200.0


def start_warm(layers: list[str], widths: list[int]) -> dict[str, float]:
    """Milliseconds of each phase, in this process, which has imported nothing yet."""
    phases: dict[str, float] = {}
    last = time.perf_counter()

    def phase(name: str) -> None:
        nonlocal last
        now = time.perf_counter()
        phases[name] = (now - last) * 1e3
        last = now

    import torch  # noqa: F401

    phase("import torch")
    from hetune.variants.compiler.pipeline import Compiler
    from hetune.variants.plan.variants import variants_of
    from hetune.variants.registry import default_registry

    phase("import hetune")
    variants = [v for program in _programs(layers, widths) for v in variants_of(program, "cpu")]
    phase("plan")
    sources = Compiler.of("cpu").emit(variants)
    phase("print sources")
    registry = default_registry()
    assert registry.toolchain
    phase("find the compiler")
    stored = len(registry.entries())
    last = time.perf_counter()
    for source in sources:
        registry.load(source)
    phase("load kernels")
    assert len(registry.entries()) == stored, "a kernel was compiled: the start was not warm"
    return phases


def build(layers: list[str], widths: list[int], jobs: int | None) -> dict[str, Any]:
    """Compiles everything into the registry of HETUNE_CACHE."""
    from hetune.variants.runtime.build import build as compile_all

    built = compile_all(_programs(layers, widths), jobs=jobs)
    assert not built.report.failed, built.report.failed
    assert built.report.built == built.kernels, "the registry was not empty"
    return {
        "variants": built.variants,
        "kernels": built.kernels,
        "bytes": built.report.bytes,
        "seconds": round(built.report.seconds, 2),
        "jobs": jobs or os.cpu_count(),
    }


def _programs(layers: list[str], widths: list[int]) -> list[Any]:
    from hetune.variants.frontend.presets import preset_programs

    return [p for layer in layers for width in widths for p in preset_programs(layer, width)]


def _child(mode: str, arguments: Sequence[str], cache: str) -> Any:
    done = subprocess.run(
        [sys.executable, __file__, *arguments, "--child", mode],
        env={**os.environ, "HETUNE_CACHE": cache},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure in children, print, write the JSON."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--layers", default="rgcn,rgat,hgt")
    line.add_argument("--widths", default="32,64,128")
    line.add_argument("--starts", type=int, default=7)
    line.add_argument("--jobs", type=int, default=None)
    line.add_argument("--out", type=Path, default=RESULTS)
    line.add_argument("--child", choices=("build", "start"), help=argparse.SUPPRESS)
    arguments = sys.argv[1:] if arguments is None else arguments
    options = line.parse_args(arguments)
    layers, widths = options.layers.split(","), [int(width) for width in options.widths.split(",")]
    if options.child:
        is_build = options.child == "build"
        found = build(layers, widths, options.jobs) if is_build else start_warm(layers, widths)
        print(json.dumps(found))
        return 0

    from _machine import write_record

    with tempfile.TemporaryDirectory(prefix="hetune-startup-") as cache:
        built = _child("build", arguments, cache)
        starts = [_child("start", arguments, cache) for _ in range(options.starts)]
    phases = {
        name: {
            "median_ms": round(statistics.median(start[name] for start in starts), 2),
            "min_ms": round(min(start[name] for start in starts), 2),
        }
        for name in starts[0]
    }
    warm = {
        "starts": options.starts,
        "phases": phases,
        "limit_ms": LIMIT_MS,
        "loads_within_limit": phases["load kernels"]["median_ms"] <= LIMIT_MS,
    }
    threads = os.cpu_count() or 1
    write_record(options.out, threads, layers=layers, widths=widths, build=built, warm_start=warm)
    print(
        f"built {built['kernels']} kernels of {built['variants']} variants in "
        f"{built['seconds']:.1f} s with {built['jobs']} jobs, {built['bytes'] / 1e6:.2f} MB"
    )
    print(f"warm start, median and least of {options.starts} processes:")
    for name, times in phases.items():
        print(f"  {name:18} {times['median_ms']:9.1f} ms {times['min_ms']:9.1f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
