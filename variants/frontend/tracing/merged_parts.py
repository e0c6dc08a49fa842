"""Values of parts of the nodes or edges as one value of all: parts are types, with own weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.edge_parts import ROW_WISE
from hetune.variants.frontend.tracing.expressions import called
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Op,
    Reduce,
    Space,
    Take,
    Type,
    operands,
    with_operands,
    without_operands,
)


class MergedParts:
    """Values that are made alike of each part, as one of all rows.

    Args:
        recorder: Has them.
        space: Nodes or edges.
        rows: Numbers of the rows of all parts, one part after the other.
        types: Which part each row is in.
    """

    def __init__(
        self, recorder: ProgramRecorder, space: Space, rows: Tensor, types: Tensor
    ) -> None:
        self._recorder, self._space, self._rows, self._types = recorder, space, rows, types
        self._found: dict[tuple[str, ...], str] = {}

    def value(self, names: tuple[str, ...]) -> str:
        """The value of all rows that has those of one for each part."""
        if names not in self._found:
            self._found[names] = self._value(names)
        return self._found[names]

    def _value(self, names: tuple[str, ...]) -> str:
        recorder = self._recorder
        kinds = [recorder.types[name] for name in names]
        are_parts = all(kind.group in recorder.parts for kind in kinds)
        if len({*names}) == 1 and not are_parts:
            return names[0]
        if all(name in recorder.weights for name in names):
            return self._weight(names)
        if are_parts and all(name in recorder.constants for name in names):
            rows = torch.cat([recorder.constants[name] for name in names])
            whole = torch.empty_like(rows).index_copy(0, self._rows, rows)
            return recorder.constant(whole, self._space)
        wholes = [whole for whole in map(recorder.whole_of, names) if whole is not None]
        if len(wholes) == len(names):
            return self.value(tuple(wholes))
        ops = [op for op in map(recorder.op_of, names) if op is not None]
        if len(ops) < len(names) or len({_of_any_part(op) for op in ops}) > 1:
            raise NotTraceable(f"parts of the {self._space}s are not all treated alike")
        hint = re.sub(r"_\d+$", "", names[0].removeprefix("part_"))
        return self._of(ops, [*map(recorder.types.get, operands(ops[0]))], hint)

    def _of(self, ops: Sequence[Op], kinds: Sequence[Type | None], hint: str) -> str:
        """What operators of parts are of all rows: sums over edges of a part are those of pairs."""
        recorder = self._recorder
        columns = [self.value(column) for column in zip(*map(operands, ops), strict=True)]
        match ops[0]:
            case Reduce(space=Space.NODE, fn=fn, end=end) if self._space is Space.EDGE:
                recorder.pair_ends.add(end)
                if len(recorder.pair_ends) > 1:
                    raise NotTraceable("edges of parts are reduced at both ends: at one compiles")
                recorder.set_types(self._space, self._types, len(ops))
                return recorder.emit(Reduce(columns[0], Space.DST_PAIR, fn), hint)
            case Take(space=Space.EDGE) if kinds[0] and kinds[0].group in recorder.parts:
                return recorder.emit(Take(columns[0], Space.EDGE), hint)
            case op if isinstance(op, ROW_WISE):
                return recorder.emit(with_operands(op, tuple(columns)), hint)
        raise NotTraceable(f"parts of the {self._space}s are read by others")

    def _weight(self, names: Sequence[str]) -> str:
        recorder = self._recorder
        shapes = {recorder.types[name].shape for name in names}
        if len(shapes) > 1:
            raise NotTraceable(f"parts of the {self._space}s have weights of different shapes")
        recorder.set_types(self._space, self._types, len(names))
        whole = called(torch.stack, ([recorder.weights[name] for name in names],), {})
        space = Space.NTYPE if self._space is Space.NODE else Space.ETYPE
        return recorder.new_weight(whole, Type(space, shapes.pop()))


def _of_any_part(op: Op) -> Op:
    """Equal for operators that are alike of two parts."""
    return without_operands(replace(op, group=ALL_EDGES) if isinstance(op, Take) else op)
