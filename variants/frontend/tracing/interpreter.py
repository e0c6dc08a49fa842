"""What torch functions of symbols mean in the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from hetune.variants.frontend.tracing.alignment import is_rows, row_shape, rows_of, squeezed
from hetune.variants.frontend.tracing.batch_norm import normalized
from hetune.variants.frontend.tracing.expressions import Expression, called
from hetune.variants.frontend.tracing.new_tensors import LIKE
from hetune.variants.frontend.tracing.node_parts import NodeParts
from hetune.variants.frontend.tracing.not_traceable import (
    LocatedNotTraceable,
    NotTraceable,
    located,
)
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.symbols import (
    Meaning,
    RowValue,
    Symbol,
    TailValue,
    replaced,
    symbol,
    symbols_in,
)
from hetune.variants.frontend.tracing.tail import TailArguments
from hetune.variants.frontend.tracing.tape import WRITES
from hetune.variants.program.nodes import ALL_EDGES, Space

Handler = Callable[..., Any]
"""Of (interpreter, shape of the result, the function's arguments): a `RowValue`, or several."""

_Handler = TypeVar("_Handler", bound=Handler)

HANDLERS: dict[str, Handler] = {}
"""By the name of a torch function or method."""


def handles(*names: str) -> Callable[[_Handler], _Handler]:
    """Decorator: a function of symbols with rows that a program has."""

    def add(handler: _Handler) -> _Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return add


class Interpreter:
    """Turns calls of torch functions into values of a program.

    Attributes:
        recorder: The program so far.
        tape: What is computed of the graph alone.
        parts: Some of the nodes' rows, and tensors that they were written into.
    """

    def __init__(
        self,
        recorder: ProgramRecorder,
        num_edges: int,
        given: Mapping[str, object],
        device: torch.device,
    ) -> None:
        self.recorder, self.tape, self._num_edges = recorder, recorder.tape, num_edges
        self._device = device
        self._tail, self.tape.dropped = TailArguments(recorder, given), self._dropped
        self.parts, self._counted = NodeParts(recorder, self.symbol), set[str]()

    def __call__(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """What a torch function of symbols gives."""
        name = func.__name__
        if name == "__get__":
            return self._attribute(func, args[0])
        if name == "size":
            return self._size(*args, **kwargs)
        if name in _PLAIN:
            with torch._C.DisableTorchFunction():
                return func(*args, **kwargs)
        if name in _REFUSED:
            raise NotTraceable(f"{_REFUSED[name]}: branch on options and on what edges alone say")
        if name in LIKE:
            return LIKE[name](self.counted_shape, *args, **kwargs)
        if not isinstance(args[0] if args else None, Symbol) and name in ("expand_as", "view_as"):
            return getattr(args[0], name.removesuffix("_as"))(self.counted_shape(args[1]))
        if not isinstance(args[0] if args else None, Symbol) and name in ("to", "type_as"):
            return args[0].to(args[1].dtype)
        given = symbols_in((args, tuple(kwargs.values())))
        if name in WRITES and not isinstance(args[0], Symbol):
            return self.parts.write(name, *args, **kwargs)
        if name in _IN_PLACE_BASES and not isinstance(args[0], Symbol):
            pure = getattr(torch.Tensor, name.removesuffix("_"))
            return self.parts.became(args[0], self._of_rows(pure, given, args, kwargs))
        if name.endswith("_") and not name.endswith("__"):
            return self._in_place(func, args, kwargs)
        if (by_type := _types_in(name, args, kwargs)) is not None:
            return self._by_type(*by_type)
        if not any(isinstance(found.meaning, TailValue) for found in given):
            args = tuple(self._promoted(arg, args) for arg in args)
            if not any(map(is_rows, symbols_in((args, tuple(kwargs.values()))))):
                return self._of_parameters(func, args, kwargs)
        return self._of_rows(func, given, args, kwargs)

    def _of_rows(
        self,
        func: Callable[..., Any],
        given: list[Symbol],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """In the program; after it, where there is something that is none of it."""
        name = func.__name__
        for found in given:
            if isinstance(found.meaning, TailValue):
                return self._after(func, args, kwargs, found.meaning.why)
        try:
            return self._with_rows(func, name, args, kwargs)
        except NotTraceable as error:
            if name in _IN_PROGRAMS_ALONE or any(map(self._is_of_edges, given)):
                raise
            return self._after(func, args, kwargs, located(error))

    def _is_of_edges(self, found: Symbol) -> bool:
        return is_rows(found) and self.recorder.types[rows_of(found).name].space is not Space.NODE

    def _after(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        why: LocatedNotTraceable,
    ) -> Any:
        """What torch makes of rows of nodes after the program has run."""
        found = _on_meta(func, args, kwargs)
        plain = (
            self._tail.arguments(args, why),
            dict(zip(kwargs, self._tail.arguments(list(kwargs.values()), why), strict=True)),
        )
        if isinstance(found, Tensor):
            is_norm = func is functional.batch_norm
            made = normalized(*plain, self._counted) if is_norm else called(func, *plain)
            return self.symbol(TailValue(made, why), found)
        if isinstance(found, list | tuple) and all(isinstance(part, Tensor) for part in found):
            parts = [
                self.symbol(TailValue(called(func, *plain, item=i), why), part)
                for i, part in enumerate(found)
            ]
            return parts if type(found) is list else tuple(parts)
        raise why

    def symbol(self, meaning: Meaning, like: Tensor) -> Symbol:
        """A symbol of a tensor's shape and dtype."""
        device = self._device if like.device.type == "meta" else like.device
        return symbol(meaning, tuple(like.shape), like.dtype, device, self)

    def counted_shape(self, of: Tensor) -> torch.Size:
        """A shape, with the number of its rows as the tape knows it."""
        with torch._C.DisableTorchFunction():
            sizes = list(of.shape)
        if isinstance(of, Symbol) and isinstance(of.meaning, RowValue):
            kind = self.recorder.types[of.meaning.name]
            sizes[of.meaning.axis] = self.recorder.count_of(kind)
        return torch.Size(sizes)

    def _size(self, of: Symbol, dim: int | None = None) -> Any:
        if self.tape.is_inside:
            with torch._C.DisableTorchFunction():
                shape = of.shape
        else:
            shape = self.counted_shape(of)
        return shape if dim is None else shape[dim]

    def _attribute(self, func: Any, of: Symbol) -> Any:
        name = func.__self__.__name__
        if name in ("T", "mT"):
            return of.t() if name == "T" else of.transpose(-1, -2)
        if name == "data":
            return of
        if name in ("grad", "grad_fn", "_base"):
            return None
        if name == "shape":
            return self._size(of)
        if name not in _ATTRIBUTES:
            raise NotTraceable(
                f"the attribute {name} of a tensor that depends on inputs is unknown"
            )
        with torch._C.DisableTorchFunction():
            return func(of)

    def _in_place(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        of, name = args[0], func.__name__.removesuffix("_")
        if not isinstance(of, Symbol):
            raise NotTraceable(f"{func.__name__} writes what depends on inputs into a plain tensor")
        pure = getattr(torch.Tensor, name, None) or getattr(torch.nn.functional, name)
        found = self(pure, args, kwargs)
        if found.shape != of.shape:
            raise NotTraceable(f"{func.__name__} changes a shape")
        if isinstance(of.meaning, Expression):
            self._counted.add(of.meaning.key)
        of.meaning = found.meaning
        return of

    def _promoted(self, arg: Any, others: Any) -> Any:
        """Numbers with a row for each node or edge as constants, beside parameters alone."""
        if isinstance(arg, Symbol) or not isinstance(arg, Tensor) or not arg.dim():
            return arg
        if not arg.is_floating_point() or any(map(is_rows, symbols_in(others))):
            return arg
        counts = self.recorder.counts
        known = {Space.EDGE: self._num_edges, **counts}
        spaces = [space for space, count in known.items() if arg.shape[0] == count]
        if not spaces:
            return arg
        if len(spaces) > 1:
            raise NotTraceable(
                "there are as many nodes as edges: which of them rows are is unclear"
            )
        if spaces[0] is Space.EDGE:
            self.recorder.count_edges(arg)
        rows = arg.reshape(-1, *squeezed(arg.shape[1:]))
        group = self.recorder.sets[-1].group if spaces[0] is Space.EDGE else ALL_EDGES
        name = self.recorder.constant(rows, spaces[0], group)
        return self.symbol(RowValue(name, 0), arg)

    def _dropped(self, rows: Tensor) -> Tensor:
        """Rows that follow from the graph alone, and are dropped in part in every call."""
        if not self.recorder.sets and rows.shape[0] != self.recorder.counts[Space.NODE]:
            self.recorder.count_edges(rows)
        found: Tensor = self._promoted(rows, ())
        if not is_rows(found):
            raise NotTraceable("dropout of neither rows of nodes nor of edges in training mode")
        return found

    def _by_type(self, weight: Symbol, index: Tensor) -> Symbol:
        """The rows of a parameter that the types of edges, or nodes, choose."""
        assert isinstance(weight.meaning, Expression)
        if len(index) == self._num_edges:
            self.recorder.count_edges(index)
        self.parts.assemble_complete()
        name = self.recorder.by_type(weight.meaning, tuple(weight.shape), index)
        shape = (len(index), *weight.shape[1:])
        return self.symbol(RowValue(name, 0), torch.empty(shape, dtype=weight.dtype, device="meta"))

    def _of_parameters(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        found = _on_meta(func, args, kwargs)
        plain = (
            replaced(args, _meaning),
            dict(zip(kwargs, replaced(list(kwargs.values()), _meaning), strict=True)),
        )
        if isinstance(found, Tensor):
            return self.symbol(called(func, *plain), found)
        if isinstance(found, list | tuple) and all(isinstance(part, Tensor) for part in found):
            named = (called(func, *plain, item=i) for i in range(len(found)))
            parts = map(self.symbol, named, found)
            return list(parts) if type(found) is list else tuple(parts)
        raise NotTraceable(f"{func.__name__} of parameters gives a {type(found).__name__}")

    def _with_rows(
        self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        handler = HANDLERS.get(name)
        if handler is None:
            raise NotTraceable(f"the function {name} has no meaning in a program")
        if name == "__getitem__":
            args = args[0], self._without_mask(*args)
        expected = _on_meta(func, args, kwargs)
        if name in ("max", "min") and isinstance(expected, tuple):
            return self._extreme(name, args, kwargs, type(expected))
        if isinstance(expected, Tensor):
            try:
                found = handler(self, tuple(expected.shape), *args, **kwargs)
            except TypeError as error:
                raise NotTraceable(f"{name} with these arguments: {error}") from None
            return self._checked(name, found, expected)
        found = handler(self, [tuple(part.shape) for part in expected], *args, **kwargs)
        return tuple(
            self._checked(name, part, wanted) for part, wanted in zip(found, expected, strict=True)
        )

    def _without_mask(self, of: Any, index: Any) -> Any:
        """An index, or the numbers of the rows that it is a mask of."""
        is_mask = isinstance(index, Tensor) and index.dtype is torch.bool
        rows = self.parts.positions(index) if is_mask and is_rows(of) else None
        return index if rows is None else rows

    def _extreme(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], kind: Any
    ) -> Any:
        """Maxima over an axis of each row, and where they are, which torch tells afterwards."""
        if self._is_of_edges(args[0]):
            raise NotTraceable(f"the {name} of edges' rows and its place: take a{name}()")
        why = located(NotTraceable(f"the place of a {name} is known after the program alone"))
        values = getattr(torch, f"a{name}")(*args, **kwargs)
        return kind((values, self._after(getattr(torch, f"arg{name}"), args, kwargs, why)))

    def _checked(self, name: str, found: RowValue, expected: Tensor) -> Symbol:
        """The symbol of what a handler found, which has the shape that torch says."""
        rows = row_shape(tuple(expected.shape), found.axis)
        type_ = self.recorder.types[found.name]
        count = self.recorder.count_of(type_)
        if type_.shape != rows or expected.shape[found.axis] != count:
            raise NotTraceable(
                f"{name} gives {count} rows of {list(type_.shape)}, not {list(expected.shape)}"
            )
        return self.symbol(found, expected)


def _types_in(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Symbol, Tensor] | None:
    """A parameter and the numbers that its rows are chosen by, if that is what a call does."""
    match name, args:
        case "__getitem__", (Symbol() as weight, Tensor() as index) if not kwargs:
            pass
        case "index_select", (Symbol() as weight, 0, Tensor() as index):
            pass
        case "embedding", (Tensor() as index, Symbol() as weight, *_):
            pass
        case _:
            return None
    is_fixed = not isinstance(index, Symbol) and index.dtype in (torch.int64, torch.int32)
    is_weight = isinstance(weight.meaning, Expression) and weight.dim() > 0
    return (weight, index) if is_fixed and is_weight and index.dim() == 1 else None


def _on_meta(func: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
    def meta(tensor: Tensor) -> Tensor:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")

    with torch._C.DisableTorchFunction(), torch.no_grad():
        named = dict(zip(kwargs, replaced(list(kwargs.values()), meta), strict=True))
        named = {key: "meta" if key == "device" else value for key, value in named.items()}
        try:
            return func(*replaced(args, meta), **named)
        except NotImplementedError:  # a shape that depends on numbers
            raise NotTraceable("a mask takes some of the rows: multiply by the mask") from None


def _meaning(tensor: Tensor) -> Any:
    if not isinstance(tensor, Symbol):
        return tensor
    assert isinstance(tensor.meaning, Expression)
    return tensor.meaning


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_PLAIN = words(
    "dim numel nelement element_size is_floating_point is_complex is_contiguous stride "
    "storage_offset get_device __len__ ndimension is_inference is_neg is_conj has_names "
    "is_same_size __hash__ is_signed"
)
_ATTRIBUTES = words(
    "dtype device layout ndim is_cuda is_cpu is_sparse is_quantized is_meta is_mkldnn "
    "requires_grad is_leaf is_nested is_sparse_csr is_xpu is_mps names itemsize"
)
_IN_PLACE_BASES = words("scatter_add_ scatter_reduce_ index_add_ index_reduce_")
_IN_PROGRAMS_ALONE = words(
    "dropout alpha_dropout feature_dropout dropout1d dropout2d dropout3d feature_alpha_dropout "
    "instance_norm bernoulli multinomial poisson normal rand_like randn_like "
    "randint_like rrelu gumbel_softmax __setitem__"
)
"""Functions that give something else in every call, or write to what they are given."""
_REFUSED = dict.fromkeys(
    words(
        "__bool__ item tolist __int__ __float__ __index__ nonzero __contains__ equal allclose "
        "numpy __array__ unique"
    ),
    "Python needs the number of a tensor that depends on inputs",
)
