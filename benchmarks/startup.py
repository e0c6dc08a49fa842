"""Compiling all variants of the three layers, and starting warm: a fresh process loads everything.

    python benchmarks/startup.py [--layers rgcn,rgat,hgt] [--widths 32,64,128] [--starts 7]

The kernels go to a temporary registry. Each start is a process of its own; what it pays is listed
apart: imports, planning (programs to variants), printing the sources that the kernels are found
by, and loading all kernels (digest checked, dynamic linker).
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

from _command_line import RESULTS, command_line, names, numbers

LIMIT_MS = 200.0


def start_warm(layers: Sequence[str], widths: Sequence[int]) -> dict[str, float]:
    """Milliseconds of each phase, in this process, which has imported nothing yet."""
    marks = {"begin": time.perf_counter()}
    from hetune.variants.compiler.pipeline import Compiler
    from hetune.variants.plan.variants import variants_of
    from hetune.variants.registry import default_registry

    marks["import"] = time.perf_counter()
    variants = [v for program in _programs(layers, widths) for v in variants_of(program, "cpu")]
    marks["plan"] = time.perf_counter()
    sources = Compiler.of("cpu").emit(variants)
    registry = default_registry()
    assert registry.toolchain
    stored = len(registry.entries())
    marks["print sources"] = time.perf_counter()
    for source in sources:
        registry.load(source)
    marks["load kernels"] = time.perf_counter()
    assert len(registry.entries()) == stored, "a kernel was compiled: the start was not warm"
    times = list(marks.values())
    return {name: (t - times[n]) * 1e3 for n, (name, t) in enumerate([*marks.items()][1:])}


def _programs(layers: Sequence[str], widths: Sequence[int]) -> list[Any]:
    from hetune.variants.frontend.presets import preset_programs

    return [p for layer in layers for width in widths for p in preset_programs(layer, width)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile, start processes, print, write the JSON."""
    line = command_line(__doc__)
    line.add_argument("--layers", type=names, default=["rgcn", "rgat", "hgt"])
    line.add_argument("--widths", type=numbers, default=[32, 64, 128])
    line.add_argument("--starts", type=int, default=7)
    line.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    line.add_argument("--out", type=Path, default=RESULTS / "startup.json")
    line.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = sys.argv[1:] if arguments is None else arguments
    options = line.parse_args(arguments)
    layers, widths = options.layers, options.widths
    if options.child:
        print(json.dumps(start_warm(layers, widths)))
        return 0

    from _machine import write_record

    from hetune.variants.registry import Registry
    from hetune.variants.runtime.build import build

    with tempfile.TemporaryDirectory(prefix="hetune-startup-") as cache:
        programs = _programs(layers, widths)
        built = build(programs, registry=Registry(Path(cache, "kernels")), jobs=options.jobs)
        assert not built.report.failed, built.report.failed
        command = [sys.executable, __file__, *arguments, "--child"]
        environment = {**os.environ, "HETUNE_CACHE": cache}
        starts = [
            json.loads(subprocess.check_output(command, env=environment))
            for _ in range(options.starts)
        ]
    phases = {
        name: {
            "median_ms": round(statistics.median(start[name] for start in starts), 2),
            "min_ms": round(min(start[name] for start in starts), 2),
        }
        for name in starts[0]
    }
    report = built.report
    compiled = {
        "variants": built.variants,
        "kernels": built.kernels,
        "bytes": report.bytes,
        "seconds": round(report.seconds, 2),
        "jobs": options.jobs,
    }
    warm = {"starts": options.starts, "phases": phases, "limit_ms": LIMIT_MS}
    facts = {"layers": layers, "widths": widths, "build": compiled, "warm_start": warm}
    write_record(options.out, os.cpu_count() or 1, **facts)
    print(f"built {built.kernels} kernels of {built.variants} variants in {report.seconds:.1f} s")
    print(f"warm start, median and least of {options.starts} processes:")
    for name, times in phases.items():
        print(f"  {name:18} {times['median_ms']:9.1f} ms {times['min_ms']:9.1f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
