"""hetune against PyG, DGL and expert PyTorch: layer x graph x width, interleaved, checked.

    python benchmarks/peers.py --layers rgcn,rgat,hgt --widths 64 --rounds 7

Every candidate of a cell runs once per round, in random order. Its output is checked against a
float64 reference first; one that is wrong, fails or runs out of memory is recorded as such. Beside
the times stand hetune's share of the roofline, and the most that could be won (`_bound.py`). Cells
that the output file already holds for this machine and commit are kept.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from _command_line import command_line, names, numbers
from _graphs import NAMES
from _peers.problem import LAYERS


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing in the results file; print the tables."""
    options = parser(__doc__, "peers").parse_args(arguments)
    if unknown := set(options.layers) - set(LAYERS):
        raise SystemExit(f"no such layer: {', '.join(unknown)}; there are {', '.join(LAYERS)}")
    from _cells import Cell
    from _cpu_peers import run

    run(
        options,
        (
            Cell(layer, graph, width, 1 if layer == "rgcn" else options.heads)
            for layer in options.layers
            for width in options.widths
            for graph in options.graphs or NAMES
        ),
    )
    return 0


def parser(
    doc: str | None, out: str, widths: Callable[[str], Any] = numbers
) -> argparse.ArgumentParser:
    """A command line, as of `command_line`.

    Args:
        doc: The script's docstring.
        out: Name of its results file.
        widths: Reads `--widths`.
    """
    line = command_line(doc, out)
    line.add_argument("--layers", type=names, default=list(LAYERS))
    line.add_argument("--graphs", type=names, default=[], help="all if left out")
    line.add_argument("--widths", type=widths, default=[64])
    line.add_argument("--heads", type=int, default=1, help="of RGAT and HGT")
    line.add_argument("--rounds", type=int, default=7)
    line.add_argument("--budget", type=float, default=60.0, help="seconds of timing per cell")
    line.add_argument(
        "--timeout", type=float, default=120.0, help="seconds for a candidate's probe"
    )
    line.add_argument("--minutes", type=float, default=1e9, help="start no cell after so many")
    line.add_argument("--memory-share", type=float, default=0.75, help="of what is available")
    line.add_argument("--compile", action="store_true", help="also PyG under torch.compile")
    line.add_argument("--only", type=names, default=[], help='families or names: "pyg,expert/*"')
    line.add_argument("--fresh", action="store_true", help="measure all cells again")
    line.add_argument("--table", action="store_true", help="only print what the file holds")
    return line


if __name__ == "__main__":
    raise SystemExit(main())
