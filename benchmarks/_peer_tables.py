"""Tables of `peers.py`'s results for the documents: slowdown relative to hetune."""

from collections.abc import Iterable, Sequence
from typing import Any

from _measure import geometric_mean
from _results import OWN, PYG, best_peer, memory_ratio, share_of_roofline, times

Cell = dict[str, Any]
LAYERS = {"rgcn": "RGCN", "rgat": "RGAT", "hgt": "HGT"}
_LEAST = "hetune/least memory"
BORROWED = "expert/smaller side"
"""A choice of sides for each relation is hetune's own idea, here in plain PyTorch: no expert's."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    first, *others = (f"| {' | '.join(line)} |".replace("|  |", "| |") for line in (header, *rows))
    return "\n".join([first, f"|{'---|' * len(header)}", *others])


def slowdown(cell: Cell, peer: str) -> float | None:
    """Median time of a peer over hetune's; None if it has no time.

    Args:
        cell: Of results.
        peer: "fastest peer", "PyG" (its usual layer), or the fastest of families: "PyG or DGL".
    """
    found = times(cell)
    own = found.get(OWN)
    match peer:
        case "PyG":
            taken = found.get(PYG[cell["layer"]])
        case "fastest peer":
            taken = best[1] if (best := best_peer(cell)) else None
        case _:
            families = tuple(f"{family}/" for family in peer.lower().split(" or "))
            mine = [t for n, t in found.items() if n.startswith(families) and n != BORROWED]
            taken = min(mine, default=None)
    return taken / own if own and taken else None


def chosen(
    cells: Iterable[Cell], layer: str, width: int = 64, heads: int = 1, graphs: Sequence[str] = ()
) -> list[Cell]:
    """The cells of a layer at a width and a number of heads, on some graphs or on all."""
    return [
        c
        for c in cells
        if (c["layer"], c["width"], c["heads"]) == (layer, width, heads)
        and (not graphs or c["graph"] in graphs)
    ]


def mean(cells: Sequence[Cell], peer: str) -> float | None:
    """Geometric mean of `slowdown`, over the cells that have one."""
    known = [ratio for cell in cells if (ratio := slowdown(cell, peer)) is not None]
    return geometric_mean(known) if known else None


def layers_table(cells: Sequence[Cell], peers: Sequence[str]) -> str:
    """Geometric means by layer."""
    rows = [
        [LAYERS[layer], *(shown(mean(chosen(cells, layer), p)) for p in peers)] for layer in LAYERS
    ]
    return table(["", *peers], rows)


def machines_table(machines: dict[str, Sequence[Cell]]) -> str:
    """Geometric means by layer and peer, a column for each machine."""
    rows = [
        [LAYERS[layer], peer, *(_spread(chosen(c, layer), peer) for c in machines.values())]
        for layer in LAYERS
        for peer in ("fastest peer", "expert", "PyG", "DGL")
        if any(mean(chosen(c, layer), peer) for c in machines.values())
    ]
    return table(["layer", "peer", *machines], rows)


def training_table(cells: Sequence[Cell]) -> str:
    """Geometric means by layer of forward and backward, and the least part of PyG's memory."""
    peers = ("fastest peer", "expert", "DGL", "PyG")
    rows = []
    for layer in dict.fromkeys(cell["layer"] for cell in cells):
        here = chosen(cells, layer)
        memory = [ratio for cell in here if (ratio := memory_ratio(cell)) is not None]
        held = f"{min(memory):.0%} to {max(memory):.0%}" if memory else ""
        rows.append([layer.upper(), *(_spread(here, peer) for peer in peers), held])
    return table(["layer", *peers, "of PyG's memory"], rows)


def homogeneous_table(cells: Sequence[Cell]) -> str:
    """Slowdown of peers on graphs of one edge type."""
    peers, rows = ("fastest peer", "PyG or DGL"), []
    for layer in dict.fromkeys(cell["layer"] for cell in cells):
        here = [cell for cell in cells if cell["layer"] == layer]
        rows.append([layer.upper(), *(_spread(here, peer) for peer in peers)])
    return table(["layer", *peers], rows)


def compile_table(cells: Sequence[Cell]) -> str:
    """PyG's layers as they are and under torch.compile, at width 64."""
    found = [times(c) for c in cells if c["width"] == 64]
    rows = []
    for name in (name for layer in LAYERS for name in _pyg_names(cells, layer)):
        both = [
            _range([t[n] / t[OWN] for t in found if n in t and OWN in t], 5)
            for n in (name, f"{name}+compile")
        ]
        rows.append([name.removeprefix("pyg/"), *both])
    return table(["PyG's layer", "as it is", "compiled"], rows)


def memory_table(cells: Sequence[Cell]) -> str:
    """Peak megabytes of hetune and PyG."""
    rows = []
    for cell in cells:
        peak = {c["name"]: c.get("peak_bytes") for c in cell["candidates"]}
        base, least = peak[PYG[cell["layer"]]], peak.get(_LEAST)
        heads = f", {cell['heads']} heads" if cell["heads"] > 1 else ""
        rows.append(
            [
                f"{LAYERS[cell['layer']]} {cell['width']}{heads}",
                cell["graph"],
                *(f"{b / 1e6:.1f}" for b in (peak[OWN], base)),
                f"{memory_ratio(cell):.2f}",
                f"{least / base:.2f}" if least and base else "",
            ]
        )
    return table(["layer", "graph", "hetune, MB", "PyG, MB", "ratio", "least"], rows)


def roofline_table(machines: dict[str, Sequence[Cell]]) -> str:
    """Share of the roofline that hetune reaches, by machine and layer."""
    rows = []
    for name, cells in machines.items():
        shares = [[share_of_roofline(c) for c in chosen(cells, layer)] for layer in LAYERS]
        known = [[s for s in found if s is not None] for found in shares]
        if all(known):
            rows.append(
                [
                    name,
                    *(f"{geometric_mean(s):.0%} ({min(s):.0%} to {max(s):.0%})" for s in known),
                ]
            )
    return table(["", *LAYERS.values()], rows)


def _pyg_names(cells: Sequence[Cell], layer: str) -> list[str]:
    found = (c["name"] for cell in cells if cell["layer"] == layer for c in cell["candidates"])
    return sorted({name for name in found if name.startswith("pyg/") and "+" not in name})


def _spread(cells: Sequence[Cell], peer: str) -> str:
    return _range([r for c in cells if (r := slowdown(c, peer)) is not None], len(cells))


def _range(ratios: Sequence[float], whole: int) -> str:
    """Mean, least, most, and how many there are where some are missing."""
    if not ratios:
        return ""
    count = f"; {len(ratios)}" if len(ratios) < whole else ""
    least, most = (shown(of(ratios)).removesuffix("x") for of in (min, max))
    return f"{shown(geometric_mean(ratios))} ({least} to {most}{count})"


def shown(ratio: float | None) -> str:
    """Two digits at least: 2.9x, 24x, 427x."""
    return "" if ratio is None else f"{ratio:.1f}x" if ratio < 10 else f"{ratio:.0f}x"
