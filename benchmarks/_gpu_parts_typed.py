"""Products of picked rows by hand in Triton: errors, also where all has one sign, and times."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from _gpu_parts_candidates import Kernel
from _gpu_parts_graphs import Edges
from _gpu_parts_runs import Kernels, Run
from _memory import describe
from torch import Tensor

from hetune.variants.testing.conformance import relative_error

WIDTH = 64
_CHECKED = 1 << 21
"""Rows that are compared."""


def measured(
    at: Edges,
    kernels: Kernels,
    products: Mapping[str, Kernel],
    times: Callable[[Mapping[str, Run]], dict[str, Any]],
) -> dict[str, Any]:
    """A unit's record."""
    from _gpu_gather import copies

    keys = torch.unique(at.etype.long() * at.nodes + at.src)
    ids, types = (keys % at.nodes).int(), keys // at.nodes
    rows, device = ids.numel(), ids.device
    tables = {size: tiles(types, at.relations, size) for size in (64, 128)}
    out = torch.empty(rows, WIDTH, device=device)
    drawn = {
        "": (torch.randn, torch.randn),
        "one sign": (torch.rand, torch.rand),
    }
    runs: dict[str, Run] = {}
    errors: dict[str, dict[str, float]] = {name: {} for name in products}
    refused: dict[str, str] = {}
    x = torch.empty(at.nodes, WIDTH, device=device)
    w = torch.empty(at.relations, WIDTH, WIDTH, device=device)
    for sign, (of_rows, of_weights) in drawn.items():
        x.copy_(of_rows(x.shape, device=device) + (1.0 if sign else 0.0))
        w.copy_(of_weights(w.shape, device=device) + (1.0 if sign else 0.0))
        expected = _expected(x, w, ids, types)
        for name, kernel in products.items():
            if name in refused:
                continue
            if not kernels.has(kernel):
                refused[name] = "was not compiled"
                continue
            table = tables[dict(kernel.constants)["ROWS"]]
            try:
                arguments = x, w, ids, *table, out, table[0].numel()
                run = runs[name] = kernels.call(kernel, table[0].numel(), arguments)
                out.fill_(torch.nan)
                run()
                errors[name][sign or "normal"] = relative_error(out[:_CHECKED], expected)
                if not out.isfinite().all():
                    raise AssertionError("rows are missing")
            except Exception as error:
                refused[name] = describe(error)
                runs.pop(name, None)
    picks = {f"pick {name}": run for name, run in copies(x, ids).items()}
    taken = times({**picks, **runs})
    bound = min(taken[name]["median_ms"] for name in picks)
    found = {
        name: {
            **taken[name],
            "error": errors[name],
            "share": round(bound / max(taken[name]["median_ms"], 1e-6), 4),
        }
        for name in runs
    }
    limits = {name: taken[name] for name in picks}
    flop = 2.0 * rows * WIDTH * WIDTH
    return {
        "rows": rows, "relations": at.relations, "flop": flop, "bounds_ms": {"pick": bound},
        "limits": limits, "candidates": found, "refused": refused,
    }  # fmt: skip


def tiles(types: Tensor, relations: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Where each tile of rows of one relation begins and ends, and which it is; int32 [T] each.

    Args:
        types: Relation of each row, ascending, [rows].
        relations: How many there are.
        size: Rows of a tile at most.
    """
    counts = torch.bincount(types, minlength=relations)
    pieces = (counts + size - 1) // size
    type = torch.repeat_interleave(torch.arange(relations, device=types.device), pieces)
    starts, ends = counts.cumsum(0) - counts, counts.cumsum(0)
    piece = torch.arange(len(type), device=types.device) - (pieces.cumsum(0) - pieces)[type]
    first = starts[type] + piece * size
    return first.int(), torch.minimum(first + size, ends[type]).int(), type.int()


def _expected(x: Tensor, w: Tensor, ids: Tensor, types: Tensor) -> Tensor:
    """The first rows in float64."""
    ids, types = ids[:_CHECKED].long(), types[:_CHECKED]
    found = [
        x[ids[types == t]].double() @ w[t].double()
        for t in torch.unique_consecutive(types).tolist()
    ]
    return torch.cat(found)
