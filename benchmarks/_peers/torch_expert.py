"""Plain PyTorch as an expert writes it: several forms per layer, none of them best everywhere."""

from functools import partial

from _peers import _torch_hgt, _torch_rgat, _torch_rgcn
from _peers._pairs import Side
from _peers.problem import Candidate, Layer, Problem

_SIDES: dict[str, Side] = {
    "compaction": "source",
    "aggregate-first": "target",
    "smaller side": "smaller",
}
# Above this many bytes the dense form is not tried: it would not be an expert's choice.
_DENSE_BYTES = 4 << 30


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
            Candidate("expert/by relation", layer, _torch_rgcn.by_relation),
            Candidate("expert/dense", layer, _torch_rgcn.dense),
            Candidate("expert/compaction, csr", layer, partial(csr, side="source")),
            Candidate("expert/aggregate-first, csr", layer, partial(csr, side="target")),
        ]
    return found


def applies(candidate: Candidate, problem: Problem) -> str | None:
    """Why `candidate` makes no sense for `problem`; None if it does."""
    graph = problem.graph
    size = graph.num_nodes * graph.num_etypes * problem.width * problem.x.element_size()
    if candidate.name == "expert/dense" and size > _DENSE_BYTES:
        return f"its table would take {size / 2**30:.0f} GiB"
    return None
