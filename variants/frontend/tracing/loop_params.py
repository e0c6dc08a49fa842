"""Parameters of a loop's program: weights and constants of each part, put together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from hetune.variants.frontend.tracing.arguments import are_near
from hetune.variants.frontend.tracing.dropout import TracedMask
from hetune.variants.frontend.tracing.expressions import Expression, called
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.row_sets import EdgeSet
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    Count,
    End,
    Linear,
    Map,
    Op,
    Param,
    Space,
    Take,
    Type,
)

COPY = "#"
"""What names of types have a number after whose nodes are there once more."""


class Unlike(Exception):  # noqa: N818  # never leaves the tracer: an answer, not an error
    """What a loop computes of parts of the edges is not the same, or not added up."""


Names = tuple[str | None, ...]
"""Values of a recorder, one for each set of edges or type of nodes; None: nobody reads that one."""


def known(names: Iterable[str | None]) -> list[str]:
    """Those that are read."""
    return [name for name in names if name is not None]


class LoopParams(Builder):
    """Parameters and constants of a loop's program so far.

    Args:
        recorder: What the loop gave.
        sets: The sets of edges.
        dst: The destinations of each set's edges.
        types: The types of nodes.

    Attributes:
        node_types: The types of nodes, in the order of their rows.
        given: Parameters by name.
        weights: What each weight is.
        constants: What follows from the graph alone.
        masks: The recorder's masks that a mask of dropout has one after the other.
        rows: Names of the recorder's features that a feature has the rows of, by type of nodes.
    """

    def __init__(
        self,
        recorder: ProgramRecorder,
        sets: Sequence[EdgeSet],
        dst: list[Tensor],
        types: Sequence[str],
    ) -> None:
        super().__init__(())
        self._recorder, self._dst = recorder, dst
        self._old_types = dict(recorder.types)
        self._sets = [edges.group for edges in sets]
        self.node_types = [*types]
        self._alone: str | None = None
        self.given: dict[str, Param] = {}
        self.weights: dict[str, Expression] = {}
        self.constants: dict[str, Tensor] = {}
        self.masks: dict[str, tuple[TracedMask, ...]] = {}
        self.rows: dict[str, tuple[str, ...]] = {}

    def _new_param(self, hint: str, type_: Type, role: str) -> str:
        name, copy = hint, 1
        while name in self.types:
            copy += 1
            name = f"{hint}_{copy}"
        self.given[name] = Param(name, type_, role)
        self.types[name] = type_
        return name

    def _param(self, name: str) -> str:
        """A parameter that is the same for all sets."""
        if name not in self.given:
            type_ = self._old_types[name]
            if type_.space is Space.EDGE:
                raise Unlike
            if name in self._recorder.weights:
                self.weights[name] = self._recorder.weights[name]
                role = "weight"
            elif name in self._recorder.constants:
                self.constants[name] = self._recorder.constants[name]
                role = "constant"
            else:
                role = "feature"
                if name in self._recorder.masks:
                    self.masks[name] = (self._recorder.masks[name],)
            self.given[name] = Param(name, type_, role)
            if name in self.types:
                raise Unlike
            self.types[name] = type_
        return name

    def _param_by_type(self, names: Names) -> str:
        """The parameter that has each type's rows."""
        first = known(names)[0]
        if self._old_types[first].space is Space.SHARED:
            return self._weight(names, Space.NTYPE)
        if not self._recorder.node_counts:
            return self._param(first)
        if self._are_masks(names):
            return self._masks(names, Space.NODE)
        for name, by_type in self._recorder.dictionaries.items():
            if first in by_type.values():
                return self._dictionary(name, by_type, names)
        if None in names or any(name not in self._recorder.constants for name in known(names)):
            raise Unlike
        shape = self._old_types[first].shape
        with self._recorder.tape:
            rows = torch.cat([self._recorder.constants[name] for name in known(names)])
        name = self._new_param("node_constants", Type(Space.NODE, shape), "constant")
        self.constants[name] = rows
        return name

    def _dictionary(self, name: str, by_type: Mapping[str, str], names: Names) -> str:
        """The rows of all nodes, of a feature that each type of nodes has."""
        parts = [by_type[kind.partition(COPY)[0]] for kind in self.node_types]
        if any(one not in (None, other) for one, other in zip(names, parts, strict=True)):
            raise Unlike
        widths = [self._old_types[part].width for part in parts]
        if not are_near(widths):
            of_types = ", ".join(map(str, sorted({*widths})))
            raise Unlike(f"types of nodes have {of_types} features: of like widths they compile")
        if name not in self.given:
            self._new_param(name, Type(Space.NODE, (max(widths),)), "feature")
            self.rows[name] = tuple(parts)
        return name

    def emit(self, op: Op, hint: str) -> str:
        """As of `Builder`; rows that have zeros after them meet weights that have, too."""
        if isinstance(op, Linear) and len(self.types[op.x].shape) == 1:
            (inner,), shape = self.types[op.x].shape, self.types[op.w].shape
            if shape[0] < inner and op.w in self.weights:
                type_ = self.types[op.w].with_shape(inner, *shape[1:])
                name = self._new_param(op.w, type_, "weight")
                self.weights[name] = _padded(self.weights[op.w], -len(shape), inner - shape[0])
                op = Linear(op.x, name)
        return super().emit(op, hint)

    def _weight(self, names: Names, space: Space = Space.ETYPE) -> str:
        """The weight by type that has each set's, or each type's."""
        found = known(names)
        if len({*found}) == 1:
            return self._param(found[0])
        shapes = {self._old_types[name].shape for name in found}
        weights = {name: w for name, w in self._recorder.weights.items() if name in found}
        if len({shape[1:] for shape in shapes}) > 1 or len(weights) < len({*found}):
            raise Unlike
        if len(shapes) > 1:
            (most, *rest), *_ = sorted(shapes, reverse=True)
            for name, weight in weights.items():
                own = self._old_types[name].shape
                weights[name] = _padded(weight, -len(own), most - own[0])
            shapes = {(most, *rest)}
        unread = called(torch.zeros_like, (weights[found[0]],), {})
        each = [unread if name is None else weights[name] for name in names]
        return self._stack(each, shapes.pop(), space)

    def _stack(
        self, found: list[Expression], shape: tuple[int, ...], space: Space = Space.ETYPE
    ) -> str:
        whole = called(torch.stack, (found,), {})
        for name, weight in self.weights.items():
            if weight.key == whole.key and self.types[name].space is space:
                return name
        hint = re.sub(r"\W", "_", f"{found[0].hint}_by_type".removeprefix("_"))
        name = self._new_param(hint, Type(space, shape), "weight")
        self.weights[name] = whole
        return name

    def _are_masks(self, names: Names) -> bool:
        return all(name in self._recorder.masks for name in known(names))

    def _masks(self, names: Names, space: Space) -> str:
        """Masks of each set's edges, or each type's nodes, put one after the other."""
        if None in names:
            raise Unlike
        found = tuple(self._recorder.masks[name] for name in known(names))
        shapes = {self._old_types[name].shape for name in known(names)}
        if len(shapes) > 1 or len({mask.share for mask in found}) > 1:
            raise Unlike
        name = self._new_param("mask", Type(space, shapes.pop()), "feature")
        self.masks[name] = found
        return name

    def _constants(self, names: Names) -> str:
        """Constants of each set's edges, put one after the other."""
        some = known(names)
        types = {self._old_types[name].shape for name in some}
        if len(types) > 1:
            raise Unlike
        with self._recorder.tape:
            each = [self._of_set(i, name or some[0]) for i, name in enumerate(names)]
            rows = torch.cat(each)
        name = self._new_param("edge_constants", Type(Space.EDGE, types.pop()), "constant")
        self.constants[name] = rows
        return name

    def _of_set(self, i: int, name: str) -> Tensor:
        """A constant of a set's edges; zeros if it is another set's."""
        given, dst = self._recorder.constants[name], self._dst[i]
        if self._old_types[name].group == self._sets[i]:
            return given
        zeros = torch.zeros_like(dst, dtype=given.dtype)
        return zeros.reshape(-1, *[1] * (given.dim() - 1)).expand(-1, *given.shape[1:])

    def _constants_of_nodes(self, names: Names, space: Space, end: End) -> str:
        """Constants of nodes, of each set's own; shares of a mean as the mean's."""
        if end is End.DST and (share := self._share(names)) is not None:
            return share if space is Space.DST_PAIR else self.emit(Take(share, space), "share")
        if space is not Space.EDGE or end is not End.DST or None in names:
            raise Unlike
        shape = self._old_types[known(names)[0]].shape
        with self._recorder.tape:
            pairs = zip(known(names), self._dst, strict=True)
            rows = torch.cat([self._recorder.constants[n].index_select(0, d) for n, d in pairs])
        name = self._new_param("edge_constants", Type(Space.EDGE, shape), "constant")
        self.constants[name] = rows
        return name

    def _share(self, names: Names) -> str | None:
        with self._recorder.tape:
            for group, name, dst in zip(self._sets, names, self._dst, strict=True):
                if self._alone not in (None, group) or name is None:
                    continue
                given = self._recorder.constants[name]
                ones = torch.ones_like(dst, dtype=given.dtype)
                count = (
                    torch.zeros_like(given).index_add(0, dst, ones) if given.dim() == 1 else given
                )
                share = count.clamp(min=1).reciprocal()
                if given.dim() != 1 or not torch.equal(share, given):
                    return None
        pairs = self.emit(Count(Space.DST_PAIR), "count")
        return self.emit(Map("reciprocal", (pairs,)), "share")


def _padded(weight: Expression, axis: int, count: int) -> Expression:
    """A weight with zeros at the end of an axis, from the back."""
    return called(pad, (weight, (*(0, 0) * (-axis - 1), 0, count)), {}) if count else weight
