"""The expert's forms with one `torch._grouped_mm` for all relations, in float32 and bfloat16."""

from functools import partial

import torch

from _peers import _torch_hgt, _torch_rgat, _torch_rgcn
from _peers._pairs import Side
from _peers._torch_ops import grouped_mm
from _peers.problem import Candidate, Layer

_SIDES: dict[str, Side] = {"compaction": "source", "aggregate-first": "target"}


def candidates(layer: Layer) -> list[Candidate]:
    """Two sides of `layer`, each in two precisions."""
    forms = {"rgcn": _torch_rgcn.pairs, "rgat": _torch_rgat.pairs, "hgt": _torch_hgt.pairs}
    return [
        Candidate(
            f"grouped/{name}{suffix}",
            layer,
            partial(forms[layer], side=side, multiply=grouped_mm(dtype)),
            precision=precision,
        )
        for suffix, dtype, precision in (("", None, "ieee"), (" bf16", torch.bfloat16, "bf16"))
        for name, side in _SIDES.items()
    ]
