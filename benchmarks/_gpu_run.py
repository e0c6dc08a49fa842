"""`peers.py --device cuda` and `roofline.py --device cuda`: their units, run, and what they say."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from _gpu import card, commit, missing
from _gpu_graphs import LARGE, TIMED
from _gpu_peers import Cells
from _gpu_report import peers_lines, roofline_lines
from _gpu_roofline import Roofline
from _gpu_units import Held, Unit, work

_ROUNDS = 20


def run_peers(options: argparse.Namespace) -> int:
    """Measures the cells that are missing in the results file; prints what it holds then."""
    cells = Cells(options.device, options.rounds or _ROUNDS, options.precision)
    graphs = options.graphs or list(TIMED)
    units = cells.units(graphs, options.layers, options.widths)
    if options.compile:
        units += cells.compiled_units(graphs, options.layers, options.widths)
    return _run(units, options, peers_lines)


def run_roofline(options: argparse.Namespace) -> int:
    """Measures the kernels that are missing in the results file; prints what it holds then."""
    units = Roofline(options.device, options.rounds or _ROUNDS).units(options.graphs or list(LARGE))
    return _run([u for u in units if options.only in u.key], options, roofline_lines)


def no_gpu(device: str) -> bool:
    """Says so where there is none, though it is asked for."""
    if device != "cuda" or torch.cuda.is_available():
        return False
    print("torch sees no GPU here: run it on a machine with one", file=sys.stderr)
    return True


def hold(out: Path, device: str) -> Held:
    """The results of this card and commit; says what is missing here."""
    for name in missing():
        print(f"not here: {name}")
    return Held(out, card(device), commit())


def _run(
    units: Sequence[Unit],
    options: argparse.Namespace,
    lines: Callable[[Mapping[str, Any]], list[str]],
) -> int:
    if options.table:
        held = json.loads(options.out.read_text())["units"] if options.out.is_file() else {}
        print("\n".join(lines(held)) or f"nothing in {options.out}")
        return 0
    if no_gpu(options.device):
        return 2
    if options.fresh:
        options.out.unlink(missing_ok=True)
    held = hold(options.out, options.device)
    status = work(units, held, device=options.device, limit=options.limit, again=options.again)
    print("\n".join(lines(held.units)))
    return status
