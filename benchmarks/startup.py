"""Compiling all variants of the three layers, and starting warm: a fresh process loads everything.

python benchmarks/startup.py [--widths 32,64,128] [--starts 7]

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
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "startup.json"
LIMIT_MS = 200.0


def start_warm(widths: list[int]) -> dict[str, float]:
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
    import hetune.variants.runtime.build as ahead
    from hetune.variants.compiler.pipeline import Compiler
    from hetune.variants.plan.variants import variants_of
    from hetune.variants.registry import default_registry

    phase("import hetune")
    programs = [p for layer in ahead.LAYERS for width in widths for p in _programs(layer, width)]
    variants = [variant for program in programs for variant in variants_of(program, "cpu")]
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


def _programs(layer: str, width: int) -> tuple[Any, ...]:
    from hetune.variants.frontend.presets import preset_programs

    return preset_programs(layer, width)


def build(widths: list[int], jobs: int | None) -> dict[str, Any]:
    """Compiles everything into the registry of HETUNE_CACHE."""
    from hetune.variants.frontend.presets import LAYERS
    from hetune.variants.runtime.build import build as compile_all

    programs = [p for layer in LAYERS for width in widths for p in _programs(layer, width)]
    built = compile_all(programs, jobs=jobs)
    assert not built.report.failed, built.report.failed
    assert built.report.built == built.kernels, "the registry was not empty"
    return {
        "variants": built.variants,
        "kernels": built.kernels,
        "bytes": built.report.bytes,
        "seconds": round(built.report.seconds, 2),
        "jobs": jobs or os.cpu_count(),
    }


def _child(mode: str, options: argparse.Namespace, cache: str) -> Any:
    command = [sys.executable, __file__, "--child", mode, "--widths", options.widths]
    if options.jobs is not None:
        command += ["--jobs", str(options.jobs)]
    done = subprocess.run(
        command,
        env={**os.environ, "HETUNE_CACHE": cache},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", default="32,64,128")
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", choices=("build", "start"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    widths = [int(width) for width in options.widths.split(",")]
    if options.child:
        found = build(widths, options.jobs) if options.child == "build" else start_warm(widths)
        print(json.dumps(found))
        return

    from _machine import commit, fingerprint

    with tempfile.TemporaryDirectory(prefix="hetune-startup-") as cache:
        built = _child("build", options, cache)
        starts = [_child("start", options, cache) for _ in range(options.starts)]
    phases = {
        name: {
            "median_ms": round(statistics.median(start[name] for start in starts), 2),
            "min_ms": round(min(start[name] for start in starts), 2),
        }
        for name in starts[0]
    }
    report = {
        "layers": ["rgcn", "rgat", "hgt"],
        "widths": widths,
        "machine": fingerprint(os.cpu_count() or 1),
        "commit": commit(),
        "build": built,
        "warm_start": {
            "starts": options.starts,
            "phases": phases,
            "limit_ms": LIMIT_MS,
            "loads_within_limit": phases["load kernels"]["median_ms"] <= LIMIT_MS,
        },
    }
    print(
        f"built {built['kernels']} kernels of {built['variants']} variants in "
        f"{built['seconds']:.1f} s with {built['jobs']} jobs, {built['bytes'] / 1e6:.2f} MB"
    )
    print(f"warm start, median and least of {options.starts} processes:")
    for name, times in phases.items():
        print(f"  {name:18} {times['median_ms']:9.1f} ms {times['min_ms']:9.1f} ms")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
