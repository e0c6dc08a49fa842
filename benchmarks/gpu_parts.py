"""Walks over equal parts of edges, by hand in Triton and in CUDA C++: which is nearer to its bound?

    PYTHONPATH=src python benchmarks/gpu_parts.py --out parts.json --kernels FOLDER

Sums of rows, and rows weighted by a softmax, on graphs drawn in the shape of real ones, beside
hetune's walks of today and cuSPARSE; products in pieces and in split precision; what the host
takes to start kernels. All is checked against float64, and bounds are timed in the same turns.
Kernels are compiled ahead into FOLDER (`_gpu_parts_compile.py`, on any machine with the same
Triton); those that are missing are compiled first. Each unit's result is written when it is there;
started again, it goes on. Exit status as of `gpu_check.py`. With `--table` it only prints.

With TRITON_INTERPRET=1 and --device cpu the Triton kernels run, slowly, on small graphs.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from _gpu_parts_graphs import NAMES, Drawing
from _gpu_parts_runs import Kernels
from _gpu_parts_table import lines
from _gpu_parts_units import Measuring
from _gpu_run import hold, no_gpu
from _gpu_units import work

_HERE = Path(__file__).resolve().parent
RESULTS = _HERE / "results" / "gpu_parts.json"
ORDER = ("road", "am", "biokg", "mag", "wikikg2")
"""Of graphs, those first that are drawn first."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--graphs", default=",".join(ORDER), help="with commas")
    parser.add_argument("--scale", type=float, default=1.0, help="of the graphs' sizes")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--limit", type=float, default=280.0, help="seconds")
    parser.add_argument("--only", default="", help="units whose keys begin so, with commas")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--kernels", type=Path, default=Path("build", "gpu_parts"))
    parser.add_argument("--again", action="store_true", help="run failed units again")
    parser.add_argument("--list", action="store_true", help="list the units, and run none")
    parser.add_argument("--table", action="store_true", help="print what --out holds")
    given = parser.parse_args(arguments)
    if given.table:
        print("\n".join(lines(json.loads(given.out.read_text())["units"])))
        return 0
    if not given.list and no_gpu(given.device):
        return 2
    names = tuple(name for name in given.graphs.split(",") if name in NAMES)
    drawing = Drawing(() if given.list else names, given.scale)
    try:
        small = given.device == "cpu"
        measuring = Measuring(
            given.device,
            Kernels(given.device, given.kernels),
            drawing,
            given.rounds,
            **({"copied": 1 << 12, "product": 16} if small else {}),
        )
        units = measuring.units(names)
        units = [u for u in units if u.key.startswith(tuple(given.only.split(",")))]
        if given.list:
            print("\n".join(unit.key for unit in units))
            return 0
        if not small:
            command = [sys.executable, str(_HERE / "_gpu_parts_compile.py"), str(given.kernels)]
            subprocess.run(command, timeout=150)
        held = hold(given.out, given.device)
        status = work(units, held, device=given.device, limit=given.limit, again=given.again)
        print("\n".join(lines(held.units)))
        return status
    finally:
        drawing.end()


if __name__ == "__main__":
    sys.exit(main())
