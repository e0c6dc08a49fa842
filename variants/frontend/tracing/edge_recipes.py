"""Steps that many layers of PyG take of their edges alone: one native call gives the same bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.recording import NOTHING, Slot, Step
from hetune.variants.graph import index_native

Scale = Literal["", "symmetric", "mean"]
_ENDS = {"src": "__getitem__(E, 0)", "dst": "__getitem__(E, 1)"}
_KEPT = "__getitem__(E, (slice(None, None, None), ne({src}, {dst})))".format(**_ENDS)
_LOOPED = f"cat([{_KEPT}, repeat(view(arange(0, N), 1, -1), 2, 1)], dim=1)"


@dataclass(frozen=True, slots=True)
class EdgeRecipe:
    """What a layer makes of an edge_index.

    Attributes:
        loops: Whether each node gets a loop, in place of those that are there.
        scale: Numbers of edges, 1 / sqrt(degree of source * degree of target), or of nodes,
            1 / degree; degrees are those of targets, and those of 0 give 0, or 1.
        edges: Name of the edge_index.
        constant: Name of the numbers.
    """

    loops: bool
    scale: Scale
    edges: str
    constant: str

    @classmethod
    def of(
        cls, steps: Iterable[Step], inputs: Mapping[str, torch.device], outputs: Mapping[str, int]
    ) -> EdgeRecipe | None:
        """The one that steps follow, or None.

        Args:
            steps: In order.
            inputs: Devices of arguments by name, in the order of their slots.
            outputs: Slots by name.
        """
        if [device.type for device in inputs.values()] != ["cpu"]:
            return None
        if (found := _shown(steps)) is None:
            return None
        shown, checks = found
        constants = [name for name in outputs if name not in _ENDS]
        terms = {name: shown.get(slot) for name, slot in outputs.items()}
        for loops, edges in ((False, "E"), (True, _LOOPED)):
            ends = {name: text.replace("E", edges) for name, text in _ENDS.items()}
            if any(terms.get(name) != text for name, text in ends.items()):
                continue
            if len(constants) > 1 or not checks <= _checks(edges, ends):
                return None
            name = constants[0] if constants else ""
            scale = _scale(terms[name], edges, ends) if name else ""
            return None if scale is None else cls(loops, scale, next(iter(inputs)), name)
        return None

    def run(self, num_nodes: int, values: Mapping[str, Any]) -> dict[str, Tensor] | None:
        """What steps give, ids in int32; None where the steps have to be taken.

        Args:
            num_nodes: N.
            values: Arguments by name.
        """
        edges = values[self.edges]
        is_here = edges.device.type == "cpu" and index_native.is_loaded()
        if not is_here or edges.dtype is not torch.int64:
            return None
        if edges.shape[1] + num_nodes >= _LARGEST:
            return None
        found = index_native.scaled_edges(edges, num_nodes, self.loops, self.scale)
        if found is None:
            return None
        src, dst, scale = found
        return {"src": src, "dst": dst} | ({self.constant: scale} if self.constant else {})


def _scale(text: str | None, edges: str, ends: Mapping[str, str]) -> Scale | None:
    src, dst = ends["src"], ends["dst"]
    ones = f"ones(({_length(edges)},), dtype=torch.float32)"
    power = f"pow_(scatter_add_(new_zeros({ones}, (N,)), 0, {dst}, {ones}), -0.5)"
    root = f"masked_fill_({power}, __eq__({power}, inf), 0)"
    if text == f"mul(mul(__getitem__({root}, {src}), {ones}), __getitem__({root}, {dst}))":
        return "symmetric"
    return "mean" if text == f"reshape({_share(src, dst)}, -1)" else None


def _length(edges: str) -> str:
    return f"_extent({edges}, 1)"


def _share(src: str, dst: str) -> str:
    ones, zeros = f"ones(_extent({src}, 0), dtype=torch.float32)", "zeros(N, dtype=torch.float32)"
    return f"reciprocal(view(clamp(scatter_add_({zeros}, 0, {dst}, {ones}), min=1), (-1, 1)))"


def _checks(edges: str, ends: Mapping[str, str]) -> set[tuple[str, object]]:
    """What always holds of edges that there are."""
    return {
        (f"__ne__(_extent({edges}, 0), 2)", False),
        (f"__eq__(__rmul__(_extent({ends['dst']}, 0), 1), 0)", False),
        (f"__bool__(all(isfinite({_share(**ends)})))", True),
    }


def _shown(steps: Iterable[Step]) -> tuple[dict[int, str], set[tuple[str, object]]] | None:
    """What each slot holds at the end as a term, and the terms of which something is expected.

    None where something is written that other slots may have a view of.
    """
    terms, checks = {0: "N", 1: "E"}, set[tuple[str, object]]()
    for step in steps:
        if step.writes and not _writes_alone(step, terms):
            return None
        given = [_show(arg, terms) for arg in step.args]
        given += [f"{k}={_show(arg, terms)}" for k, arg in step.kwargs.items() if k != "device"]
        term = f"{step.func.__name__}({', '.join(given)})"
        if step.expected is not NOTHING:
            checks.add((term, step.expected))
        if isinstance(step.out, int):
            terms[step.out] = term if len(term) < _LONGEST else "?"
    return terms, checks


def _writes_alone(step: Step, terms: Mapping[int, str]) -> bool:
    into = step.args[0] if step.args else None
    if not isinstance(into, Slot) or step.out != into.index:
        return False
    return terms.get(into.index, "").startswith(_NEW)


_NEW = ("zeros(", "new_zeros(", "scatter_add_(", "pow_(")
"""What is written to in recipes."""
_LONGEST = 1 << 14
_LARGEST = 1 << 24
"""Float32 count to it: torch adds up degrees in them."""


def _show(value: Any, terms: Mapping[int, str]) -> str:
    match value:
        case Slot(index):
            return terms.get(index, "?")
        case list():
            return f"[{', '.join(_show(part, terms) for part in value)}]"
        case tuple():
            comma = "," if len(value) == 1 else ""
            return f"({', '.join(_show(part, terms) for part in value)}{comma})"
    return repr(value)
