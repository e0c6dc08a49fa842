"""Training: hetune against PyG, DGL and expert PyTorch with autograd, interleaved, checked.

    python benchmarks/training.py --what step --layers rgat --graphs aifb_hetero

A step is forward and backward of a layer by a given gradient of its result; an epoch is of two
layers with ReLU, cross entropy and Adam; a featureless epoch is that of R-GCN at width 16, which
gets no rows (Seastar's). Gradients of x and of each parameter (of an epoch: the loss) are checked
first, against float64. Beside each time of hetune stands whether it ran compiled. Otherwise as
`peers.py`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import _peer_tables as tables
import homogeneous
from _command_line import names
from _graphs import NAMES
from _measure import geometric_mean
from _peers.problem import HOMOGENEOUS
from _peers.problem import LAYERS as TYPED
from _results import OWN, memory_ratio, share_of_roofline
from peers import parser

LAYERS = (*TYPED, *HOMOGENEOUS)
FEATURELESS = ("aifb+inv", "mutag_hetero")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing in the results file; print the tables."""
    line = parser(__doc__, "training")
    line.add_argument("--what", type=names, default=["step", "featureless", "epoch"])
    line.set_defaults(layers=list(LAYERS))
    options = line.parse_args(arguments)
    from _cpu_peers import run

    print(summary(run(options, cells(options))))
    return 0


def cells(options: Any) -> Iterator[Any]:
    """What the options ask for."""
    from _training_cells import TrainingCell

    for what in options.what:
        if what == "featureless":
            for graph in options.graphs or FEATURELESS:
                yield TrainingCell("rgcn", graph, 16, 1, what)
            continue
        for layer in options.layers:
            usual = homogeneous.GRAPHS if layer in HOMOGENEOUS else NAMES
            heads = options.heads if layer in ("rgat", "hgt") else 1
            for width in options.widths:
                for graph in options.graphs or usual:
                    yield TrainingCell(layer, graph, width, heads, what)


def summary(cells: Sequence[dict[str, Any]]) -> str:
    """How many times as long peers take, and how much less memory than PyG hetune needs."""
    rows = []
    for what, layer in dict.fromkeys((cell["what"], cell["layer"]) for cell in cells):
        here = [cell for cell in cells if (cell["what"], cell["layer"]) == (what, layer)]
        best = [r for c in here if (r := tables.slowdown(c, "fastest peer")) is not None]
        ratios = (tables.mean(here, "fastest peer"), min(best, default=None))
        others = (tables.mean(here, peer) for peer in ("PyG", "DGL"))
        shares = [[of(cell) for cell in here] for of in (memory_ratio, share_of_roofline)]
        own = [c for cell in here for c in cell["candidates"] if c["name"] == OWN]
        compiled = [c for c in own if "original" not in c.get("ran", "original")]
        rows.append(
            [
                f"{what} {layer}",
                *map(tables.shown, (*ratios, *others)),
                *(f"{geometric_mean([r for r in known if r]):.2f}" for known in shares),
                f"{len(compiled)} of {len(own)}",
            ]
        )
    header = ("", "fastest peer", "least", "PyG", "DGL", "memory / PyG's", "roofline", "compiled")
    return tables.table(header, rows)


if __name__ == "__main__":
    raise SystemExit(main())
