"""Parameters of a loop's program: weights and constants of each part, put together."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.expressions import Expression, called
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import Count, End, Map, Param, Space, Take, Type


class Unlike(Exception):  # noqa: N818  # never leaves the tracer: an answer, not an error
    """What a loop computes of parts of the edges is not the same, or not added up."""


class LoopParams(Builder):
    """Parameters and constants of a loop's program so far.

    Args:
        recorder: What the loop gave.
        dst: The destinations of each set's edges.

    Attributes:
        given: Parameters by name.
        weights: What each weight is.
        constants: What follows from the graph alone.
    """

    def __init__(self, recorder: ProgramRecorder, dst: list[Tensor]) -> None:
        super().__init__(())
        self._recorder, self._dst = recorder, dst
        self._old_types = dict(recorder.types)
        self._sets = [edges.group for edges in recorder.sets]
        self._alone: str | None = None
        self.given: dict[str, Param] = {}
        self.weights: dict[str, Expression] = {}
        self.constants: dict[str, Tensor] = {}

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
            self.given[name] = Param(name, type_, role)
            if name in self.types:
                raise Unlike
            self.types[name] = type_
        return name

    def _weight(self, names: tuple[str, ...]) -> str:
        """The weight by type that has each set's."""
        if len({*names}) == 1:
            return self._param(names[0])
        shapes = {self._old_types[name].shape for name in names}
        if len(shapes) > 1:
            raise Unlike
        return self._stack([self._recorder.weights[name] for name in names], shapes.pop())

    def _stack(self, found: list[Expression], shape: tuple[int, ...]) -> str:
        whole = called(torch.stack, (found,), {})
        for name, known in self.weights.items():
            if known.key == whole.key:
                return name
        hint = re.sub(r"\W", "_", f"{found[0].hint}_by_type".removeprefix("_"))
        name = self._new_param(hint, Type(Space.ETYPE, shape), "weight")
        self.weights[name] = whole
        return name

    def _constants(self, names: tuple[str, ...]) -> str:
        """Constants of each set's edges, put one after the other."""
        types = {self._old_types[name].shape for name in names}
        if len(types) > 1:
            raise Unlike
        with self._recorder.tape:
            rows = torch.cat([self._of_set(i, name) for i, name in enumerate(names)])
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

    def _constants_of_nodes(self, names: tuple[str, ...], space: Space, end: End) -> str:
        """Constants of nodes, of each set's own; shares of a mean as the mean's."""
        if end is End.DST and (share := self._share(names)) is not None:
            return share if space is Space.DST_PAIR else self.emit(Take(share, space), "share")
        if space is not Space.EDGE or end is not End.DST:
            raise Unlike
        shape = self._old_types[names[0]].shape
        with self._recorder.tape:
            pairs = zip(names, self._dst, strict=True)
            rows = torch.cat([self._recorder.constants[n].index_select(0, d) for n, d in pairs])
        name = self._new_param("edge_constants", Type(Space.EDGE, shape), "constant")
        self.constants[name] = rows
        return name

    def _share(self, names: tuple[str, ...]) -> str | None:
        with self._recorder.tape:
            for group, name, dst in zip(self._sets, names, self._dst, strict=True):
                if self._alone not in (None, group):
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
