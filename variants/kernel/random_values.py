"""Random tensors for a launch's buffers."""

from __future__ import annotations

import torch

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.interpret_rows import IndexOf, row_count
from hetune.variants.kernel.nodes import Launch, Rows


def random_values(
    launch: Launch,
    index_of: IndexOf,
    graph: HeteroGraph,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> dict[str, torch.Tensor]:
    """A tensor [rows, *shape] of signed numbers for each buffer, those to be written included.

    Buffers of one scratch are the same memory.
    """
    generator = torch.Generator().manual_seed(seed)
    values: dict[str, torch.Tensor] = {}
    scratch: dict[str, torch.Tensor] = {}
    for buffer in launch.buffers:
        rows = row_count(Rows(buffer.type.space, buffer.type.group), index_of, graph)
        tensor = torch.randn((rows, *buffer.type.shape), generator=generator, dtype=torch.float64)
        # Values that float32 holds exactly: runs in both precisions start from the same numbers.
        values[buffer.name] = tensor.float().to(dtype)
        if buffer.scratch:
            shared = scratch.setdefault(buffer.scratch, values[buffer.name])
            values[buffer.name] = shared.view(tensor.shape)
    return values
