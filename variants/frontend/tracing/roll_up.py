"""A layer's loop over parts of the edges as one program, in which each part is an edge type.

What the loop computes for each part is the same but for weights and for what follows from the
graph: weights become rows of weights by type, and the sum over parts is that over all edges. What
is computed of nodes for one part moves to the edges, or to pairs of destination and type. So do
types of nodes that have rows of their own become one set of nodes, with weights by type.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hetune.variants.errors import ProgramError
from hetune.variants.frontend.tracing.dropout import TracedMask
from hetune.variants.frontend.tracing.expressions import Expression
from hetune.variants.frontend.tracing.head_axes import with_head_axes
from hetune.variants.frontend.tracing.loop import TracedLoop
from hetune.variants.frontend.tracing.loop_params import COPY, Unlike, known
from hetune.variants.frontend.tracing.narrow_products import with_inner_products
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.row_sets import EdgeSet, RowTypes
from hetune.variants.frontend.tracing.simplify import (
    needed,
    with_direct_takes,
    with_ends_swapped,
    with_softmaxes,
)
from hetune.variants.program.nodes import End, Let, Param, Reduce, Space, Take, operands


@dataclass(frozen=True, slots=True)
class RolledUp:
    """What a loop computes.

    Attributes:
        params: Of the program.
        lets: Its values.
        names: Of the recorder's values that are results, the program's: side by side, if several.
        weights: What each weight is.
        constants: What follows from the graph alone.
        src: The source of each edge.
        dst: The destination of each edge.
        kinds: The types of edges and nodes, where weights have a row for each.
        masks: The recorder's masks that a mask of dropout has one after the other.
        rows: The recorder's features that a feature has one after the other, by types of nodes.
        node_types: Types of nodes that have rows of their own, in the order of these.
        places: Which of them each result has rows of, for each of its names.
    """

    params: tuple[Param, ...]
    lets: list[Let]
    names: Mapping[str, tuple[str, ...]]
    weights: dict[str, Expression]
    constants: dict[str, Tensor]
    src: Tensor
    dst: Tensor
    kinds: dict[Space, RowTypes]
    masks: Mapping[str, tuple[TracedMask, ...]]
    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    node_types: tuple[str, ...] = ()
    places: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def rolled_up(recorder: ProgramRecorder, results: Sequence[str]) -> RolledUp:
    """What a recorder has, of one set of edges or of several.

    Raises:
        NotTraceable: What it computes of the sets is not alike, or no sum over them.
    """
    lets = list(recorder.lets)
    for edges in recorder.sets:
        if recorder.is_swapped(edges):
            lets = with_ends_swapped(lets, edges.group, recorder.types)
    lets = with_inner_products(recorder, with_softmaxes(with_direct_takes(lets)), results)
    lets = with_head_axes(recorder, lets, results)
    if recorder.node_counts:
        return _of_types(recorder, lets, results)
    ends = [_ends(recorder, edges) for edges in recorder.sets]
    if len(ends) == 1:
        types = recorder.types
        roles = {
            "feature": [*recorder.features, *recorder.masks],
            "constant": [*recorder.constants],
            "weight": [*recorder.weights],
        }
        params = tuple(Param(n, types[n], role) for role, names in roles.items() for n in names)
        names = {name: (name,) for name in results}
        masks = {name: (mask,) for name, mask in recorder.masks.items()}
        given = recorder.weights, recorder.constants, *ends[0], recorder.kinds, masks
        return RolledUp(params, lets, names, *given)
    of_edges = not all(map(recorder.is_of_nodes, results)) or any(
        recorder.types[name].space is Space.EDGE for name in recorder.features
    )
    if Space.EDGE in recorder.kinds or of_edges:
        raise recorder.sets[1].only
    with recorder.tape:
        src, dst = (torch.cat([both[i] for both in ends]) for i in range(2))
        etype = torch.cat([torch.full_like(both[0], i) for i, both in enumerate(ends)])
    kinds = {**recorder.kinds, Space.EDGE: RowTypes(etype, len(ends))}
    loop = TracedLoop(recorder, lets, recorder.sets, [dst for _, dst in ends])
    try:
        found = {name: (loop.of_types((name,)),) for name in results}
    except (ProgramError, Unlike):
        raise recorder.sets[1].only from None
    made = *_params_and_lets(loop), found, loop.weights, loop.constants
    return RolledUp(*made, src, dst, kinds, loop.masks)


def check_sources(recorder: ProgramRecorder) -> None:
    """Checks that sources, where they are other nodes, are read at one end, and alone there.

    Raises:
        NotTraceable: They are not.
    """
    ends = {
        let.op.end
        for let in recorder.lets
        if isinstance(let.op, Reduce | Take)
        and Space.NODE in (let.type.space, recorder.types[let.op.x].space)
    }
    source_ends = recorder.source_ends
    if len(source_ends) != 1 or source_ends & ends or Space.NODE in recorder.kinds:
        raise NotTraceable("a pair's first part is read at sources, its second at targets")


def _of_types(recorder: ProgramRecorder, lets: list[Let], results: Sequence[str]) -> RolledUp:
    """What a recorder has of nodes whose types have rows of their own, as rows of all nodes."""
    body = needed(lets, results)
    read = {recorder.types[name].group for let in body for name in (let.name, *operands(let.op))}
    sets = [edges for edges in recorder.sets if edges.group in read]
    if recorder.kinds or not sets or not all(map(recorder.is_of_nodes, results)):
        raise NotTraceable(_NOT_ALIKE)
    local = [_ends(recorder, edges) for edges in sets]
    ends = {edges.group: _node_types(recorder, edges) for edges in sets}
    loop = TracedLoop(
        recorder, body, sets, [dst for _, dst in local], [*recorder.node_counts], ends
    )
    parts = {name: loop.side_by_side(name) for name in results}
    vectors, place = loop.by_place([*dict.fromkeys(itertools.chain(*parts.values()))])
    found: dict[str, str] = {}
    try:
        for vector in vectors:
            found |= dict.fromkeys(known(vector), loop.of_types(vector))
    except (ProgramError, Unlike) as error:
        raise NotTraceable(str(error) or _NOT_ALIKE) from None
    node_types = tuple(kind.partition(COPY)[0] for kind in loop.node_types)
    counts = [recorder.node_counts[kind] for kind in node_types]
    first = dict(zip(loop.node_types, itertools.accumulate(counts, initial=0), strict=False))
    with recorder.tape:
        moved = [
            [index + first[kind] for index, kind in zip(both, loop.ends[edges.group], strict=True)]
            for both, edges in zip(local, sets, strict=True)
        ]
        src, dst = (torch.cat([both[i] for both in moved]) for i in range(2))
        etype = torch.cat([torch.full_like(both[0], i) for i, both in enumerate(moved)])
        ntype = torch.cat([torch.full((n,), i, device=src.device) for i, n in enumerate(counts)])
    kinds = {Space.EDGE: RowTypes(etype, len(sets)), Space.NODE: RowTypes(ntype, len(counts))}
    names = {name: tuple(found[part] for part in own) for name, own in parts.items()}
    places = {name: tuple(place[part] for part in own) for name, own in parts.items()}
    made = *_params_and_lets(loop), names, loop.weights, loop.constants, src, dst, kinds
    return RolledUp(*made, loop.masks, loop.rows, node_types, places)


_NOT_ALIKE = "its types of edges or of nodes are not all treated alike, and added up"


def _params_and_lets(loop: TracedLoop) -> tuple[tuple[Param, ...], list[Let]]:
    lets = [Let(name, loop.types[name], op) for name, op in loop.ops.items()]
    return (*loop.given.values(),), lets


def _node_types(recorder: ProgramRecorder, edges: EdgeSet) -> tuple[str, str]:
    """The types of nodes at sources and destinations."""
    src, dst = (recorder.nodes_at(edges.group, end) for end in (End.SRC, End.DST))
    if src is None or dst is None:
        raise NotTraceable("it is not known which types of nodes edges lead from and to")
    return (dst, src) if recorder.is_swapped(edges) else (src, dst)


def _ends(recorder: ProgramRecorder, edges: EdgeSet) -> tuple[Tensor, Tensor]:
    src, dst = [*edges.ends, *edges.ends][:2]
    return (dst, src) if recorder.is_swapped(edges) else (src, dst)
