"""Plain PyTorch as an expert writes it: several forms per layer, none of them best everywhere."""

from functools import partial

from _peers import _torch_hgt, _torch_rgat, _torch_rgcn
from _peers._pairs import Side
from _peers.problem import Candidate, Layer

_SIDES: dict[str, Side] = {
    "compaction": "source",
    "aggregate-first": "target",
    "smaller side": "smaller",
}


def candidates(layer: Layer) -> list[Candidate]:
    """The expert's forms of `layer`."""
    forms = {"rgcn": _torch_rgcn.pairs, "rgat": _torch_rgat.pairs, "hgt": _torch_hgt.pairs}
    found = [
        Candidate(f"expert/{name}", layer, partial(forms[layer], side=side))
        for name, side in _SIDES.items()
    ]
    if layer == "rgcn":
        csr = partial(_torch_rgcn.pairs, product="csr")
        found += [
            Candidate("expert/compaction, csr", layer, partial(csr, side="source")),
            Candidate("expert/aggregate-first, csr", layer, partial(csr, side="target")),
            # The fastest one in float32 on some graphs of a GPU, and on none of a CPU.
            Candidate("expert/dense", layer, _torch_rgcn.dense, by_name=True),
        ]
    return found
