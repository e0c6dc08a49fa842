"""What the kernels of `gpu_parts.py` have to compute, in float64, some edges at a time."""

import torch
from torch import Tensor

_EDGES = 1 << 21
"""At once: rows of more would not fit into a card's memory."""


def sums(x: Tensor, src: Tensor, dst: Tensor) -> Tensor:
    """Sums of x[src] by destination, float64 [N, W]."""
    total = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for s, d in zip(src.split(_EDGES), dst.split(_EDGES), strict=True):
        total.index_add_(0, d.long(), x[s.long()].double())
    return total


def attended(qkv: tuple[Tensor, Tensor, Tensor], src: Tensor, dst: Tensor) -> Tensor:
    """Rows v[src] weighted by a softmax of q[dst] . k[src] by destination, float64 [N, W]."""
    q, k, v = (rows.double() for rows in qkv)
    pieces = list(zip(src.split(_EDGES), dst.split(_EDGES), strict=True))
    scores = [(q[d.long()] * k[s.long()]).sum(1) for s, d in pieces]
    top = q.new_full((len(q),), -torch.inf)
    for score, (_, d) in zip(scores, pieces, strict=True):
        top.scatter_reduce_(0, d.long(), score, "amax")
    mass, total = q.new_zeros(len(q)), torch.zeros_like(v)
    for score, (s, d) in zip(scores, pieces, strict=True):
        power = (score - top[d.long()]).exp()
        mass.index_add_(0, d.long(), power)
        total.index_add_(0, d.long(), power[:, None] * v[s.long()])
    return total / mass.clamp(min=torch.finfo(torch.float64).tiny)[:, None]
