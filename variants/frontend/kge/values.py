"""What functions of tensors below `torch.vmap` are in a program of edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hetune.variants.frontend.kge.layer import RowPlace
from hetune.variants.frontend.tracing import arithmetic, products, shapes  # noqa: F401
from hetune.variants.frontend.tracing.alignment import rows_of, squeezed
from hetune.variants.frontend.tracing.expressions import Expression, called, parameter
from hetune.variants.frontend.tracing.interpreter import Interpreter, words
from hetune.variants.frontend.tracing.not_traceable import NotTraceable, reason_of
from hetune.variants.frontend.tracing.symbols import RowValue, Symbol, replaced
from hetune.variants.program.nodes import End, Linear, Reshape, Space, Take, Type


@dataclass(frozen=True, slots=True)
class TorchStep:
    """A call of a function, what it gave, and whether gradients were on."""

    func: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    found: Any
    is_differentiated: bool


class TorchSteps(TorchDispatchMode):
    """Records the functions that are called, and keeps all tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[TorchStep] = []

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        is_on = torch.is_grad_enabled()
        self.steps.append(TorchStep(func.overloadpacket, args, kwargs or {}, found, is_on))
        return found


class TripleValues:
    """What tensors are in the program, as far as they depend on tables.

    Args:
        at: Gives functions of symbols a meaning.
    """

    def __init__(self, at: Interpreter) -> None:
        self._at = at
        self._known: dict[int, Any] = {}
        self._constant: set[int] = set()
        self._narrow: dict[int, Any] = {}
        self._kept: list[Any] = []  # so that ids stay theirs
        self._tables: dict[str, str] = {}
        self._turned: dict[int, tuple[Tensor, Sequence[int]]] = {}

    def give(self, rows: Tensor, name: str, place: RowPlace) -> None:
        """Says that a tensor has a row of a table for each triple, or is a shared one."""
        recorder, row = self._at.recorder, squeezed(rows.shape[1:])
        meaning: Expression | RowValue
        match place:
            case RowPlace.SHARED:
                meaning = parameter(name)
            case RowPlace.RELATION:
                table = called(Tensor.reshape, (parameter(name), (-1, *row)), {})
                weight = recorder.new_weight(table, Type(Space.ETYPE, row))
                meaning = RowValue(recorder.emit(Take(weight, Space.EDGE), f"of_{name}"), 0)
            case RowPlace.HEAD | RowPlace.TAIL:
                if name not in self._tables:
                    whole = recorder.feature(name, Type(Space.NODE, tuple(rows.shape[1:])))
                    self._tables[name] = recorder.emit(Reshape(whole, row), f"{name}_rows")
                end = End.SRC if place is RowPlace.HEAD else End.DST
                take = Take(self._tables[name], Space.EDGE, end)
                meaning = RowValue(recorder.emit(take, str(place)), 0)
        self._set(rows, self._at.symbol(meaning, rows))

    def of(self, tensor: Tensor) -> Any:
        """A tensor's symbol; where it has none the tensor, or its number if that is all it has."""
        found = self._known.get(id(tensor))
        if isinstance(found, NotTraceable):
            raise found
        if found is None:
            return tensor if tensor.dim() else tensor.item()
        return found

    def take(self, step: TorchStep) -> None:
        """Finds out what a function gives.

        Raises:
            NotTraceable: It reads a tensor that is no argument, which may change or be trained.
        """
        read = _tensors_in([step.args, *step.kwargs.values()])
        is_new = step.func.__name__ == "lift_fresh"  # of torch.tensor
        if not is_new and any(id(t) not in self._known.keys() | self._constant for t in read):
            raise NotTraceable("it reads a tensor from around it: make it an argument, as shared=")
        if not any(id(t) in self._known for t in read):
            self._kept.append(step)
            self._constant.update(map(id, _tensors_in([step.found])))
            return
        if not step.is_differentiated:
            raise NotTraceable("it computes without gradients, as below torch.no_grad")
        found: Any
        try:
            found = self._found(step)
        except Exception as error:  # nothing may come of it
            found = NotTraceable(reason_of(error))
        if isinstance(step.found, list | tuple):
            parts = found if isinstance(found, list | tuple) else [found] * len(step.found)
            for tensor, part in zip(step.found, parts, strict=True):
                self._set(tensor, part)
        elif isinstance(step.found, Tensor):
            self._set(step.found, found)

    def _set(self, tensor: Tensor, found: Any) -> None:
        self._known[id(tensor)] = found
        self._kept.append(tensor)

    def _found(self, step: TorchStep) -> Any:
        name = step.func.__name__
        name = _SAME.get(name, name)
        if name in _REFUSED or name.endswith("_"):
            raise NotTraceable(f"the function {name} has no meaning in a program")
        if name == "permute" and (same := self._turned_back(step)) is not None:
            return self.of(same)
        of = self._before_expanding if name in _ELEMENTWISE else self.of
        args = replaced(step.args, of)
        kwargs = dict(zip(step.kwargs, replaced([*step.kwargs.values()], of), strict=True))
        if name == "expand":
            self._narrow[id(step.found)] = args[0]
        if name == "bmm":
            return self._product(*args)
        if name == "_to_copy":
            return self._at(Tensor.to, args, {"dtype": kwargs.get("dtype", step.found.dtype)})
        found = self._at(getattr(torch.ops.aten, name), args, kwargs)
        if name in _ELEMENTWISE and found.shape != step.found.shape:
            self._narrow[id(step.found)] = found
            return found.expand(step.found.shape)
        return found

    def _turned_back(self, step: TorchStep) -> Tensor | None:
        """What axes were permuted of, if they are in its order again, as `torch.einsum` does."""
        of, order = step.args
        first, before = self._turned.get(id(of), (of, range(of.dim())))
        axes = [before[axis] for axis in order]
        self._turned[id(step.found)] = first, axes
        return first if axes == [*range(of.dim())] else None

    def _before_expanding(self, tensor: Tensor) -> Any:
        """What elementwise functions expand by themselves."""
        return self._narrow[id(tensor)] if id(tensor) in self._narrow else self.of(tensor)

    def _product(self, x: Symbol, w: Symbol) -> Tensor:
        """A product of two matrices of each triple."""
        if x.shape[1] == 1 and w.shape[2] == 1:
            return (x.transpose(1, 2) * w).sum(1, keepdim=True)
        if w.shape[2] == 1 and (matrix := self._transposed(x)) is not None:
            recorder = self._at.recorder
            column = recorder.emit(Reshape(rows_of(w).name, squeezed(w.shape[1:])), "column")
            product = recorder.emit(Linear(column, matrix), f"by_{matrix}")
            return self._at.symbol(RowValue(product, 0), torch.empty(*x.shape[:2], 1))
        return torch.bmm(x, w)

    def _transposed(self, x: Symbol) -> str | None:
        """The weight of relations' matrices, turned round: for products with columns."""
        recorder = self._at.recorder
        take = recorder.op_of(rows_of(x).name)
        if not isinstance(take, Take) or recorder.types[take.x].space is not Space.ETYPE:
            return None
        if recorder.types[take.x].shape != tuple(x.shape[1:]):
            return None
        turned = called(Tensor.transpose, (recorder.weights[take.x], 1, 2), {})
        return recorder.new_weight(turned, Type(Space.ETYPE, (x.shape[2], x.shape[1])))


def _tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [found for part in value for found in _tensors_in(part)]
    return []


_SAME = {"_unsafe_view": "view", "alias": "clone", "squeeze_": "squeeze"}
"""Functions that give what others do."""
_REFUSED = words("detach")
_ELEMENTWISE = words(
    "add sub rsub mul div pow maximum minimum neg abs exp log sqrt rsqrt reciprocal sigmoid tanh "
    "sin cos relu silu gelu softplus elu leaky_relu clamp clamp_min clamp_max where gt lt ge le"
)
"""Functions that broadcast their operands."""
