"""Records what a layer's forward computes of its edges alone while it runs on symbols."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from hetune.variants.frontend.tracing.counts import TracedSize, count
from hetune.variants.frontend.tracing.dropout import is_training
from hetune.variants.frontend.tracing.edge_recipes import EdgeRecipe
from hetune.variants.frontend.tracing.new_tensors import in_doubles
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorded_steps import simplified
from hetune.variants.frontend.tracing.recording import (
    Recording,
    Slot,
    Step,
    filled,
    needed,
    slots_in,
)
from hetune.variants.frontend.tracing.symbols import Symbol, replaced, symbols_in


class Tape(TorchFunctionMode):
    """While active, functions of symbols go to their interpreter, and all others are recorded.

    Functions take symbols, what is given, and what functions made of them: nobody would see a
    change of another tensor.

    Args:
        given: The graph's tensors by name.
        num_nodes: N.
        num_edges: E.
        num_sources: Of nodes that edges come from, where these are others.

    Attributes:
        sizes: The numbers of sources and of nodes.
        picked: Tensors that have elements of another one, that one, and the index that says which.
        rows: The number of nodes, and that of the edges that messages go along once it is known.
        is_of_doubles: Whether features are float64, and so are new floats.
        dropped: Makes rows that follow from the graph alone a symbol, for dropout.
        written: Gives what a tensor became by writes of symbols, once there are some.

    Raises:
        NotTraceable: A function takes another tensor, such as a global one.
    """

    def __init__(
        self,
        given: Mapping[str, Tensor],
        num_nodes: int,
        num_edges: int,
        num_sources: int | None = None,
    ) -> None:
        super().__init__()
        self._inputs = {name: tensor.device for name, tensor in given.items()}
        self._graph: tuple[int, ...] = num_nodes, num_edges
        self._steps: list[Step] = []
        self._values: list[Any] = [num_nodes, *given.values()]  # kept: ids stay theirs
        self._slots = {id(tensor): slot for slot, tensor in enumerate(given.values(), 1)}
        if num_sources is not None:
            self._graph = *self._graph, num_sources
            self._values.append(num_sources)
        self._of_graph = set(range(len(self._values)))
        self._known: dict[tuple[Callable[..., Any], str], Any] = {}
        self._fills: dict[int, float] = {}
        self._inside, self._is_replayable = 0, len(self._slots) == len(given)
        self.is_of_doubles = False
        self.dropped: Callable[[Tensor], Tensor] = lambda rows: rows
        self.written: Callable[[Tensor], Tensor] | None = None
        self._positions: set[int] = set()
        self.picked: list[tuple[Tensor, Tensor, Tensor]] = []
        self.rows = [count(num_nodes, self, 0)]
        self.sizes = self.rows[0], self.rows[0]
        if num_sources is not None:
            self.rows.append(count(num_sources, self, len(given) + 1))
            self.sizes = self.rows[1], self.rows[0]

    @property
    def is_inside(self) -> bool:
        """Whether a function of symbols is being interpreted, whose own sizes are no matter."""
        return self._inside > 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        for kind in types:
            if not issubclass(kind, Tensor):  # a user's, which calls functions of its parts
                with self:
                    return kind.__torch_function__(func, types, args, kwargs)
        if self.written is not None and not self.is_inside:
            kept = int(_name(func) in WRITES)
            args = *args[:kept], *self._interpreted(replaced, args[kept:], self.written)
            kwargs = {k: self._interpreted(replaced, v, self.written) for k, v in kwargs.items()}
        if func is torch.nn.functional.dropout and is_training(*args, **kwargs):
            args = self._dropped(args[0]), *args[1:]
        given, named = self._template(args), {k: self._template(v) for k, v in kwargs.items()}
        if found := symbols_in((args, tuple(kwargs.values()))):
            if not self.is_inside:
                if _name(func) in _SIZES:
                    return found[0].interpreter(func, args, kwargs)
                self._check_counts((given, tuple(named.values())))
            return self._interpreted(found[0].interpreter, func, args, kwargs)
        return self._called(func, given, named)

    def _dropped(self, rows: Tensor) -> Tensor:
        if isinstance(rows, Symbol):
            return rows
        found: Tensor = self._interpreted(self.dropped, rows)
        return found

    def _interpreted(self, func: Callable[..., Any], *args: Any) -> Any:
        """What a function gives in which sizes are no matter."""
        self._inside += 1
        try:
            with self:
                return func(*args)
        finally:
            self._inside -= 1

    def has_positions(self, index: Tensor) -> bool:
        """Whether a tensor has places in another one, none twice: where it is not 0, or sorted."""
        return self._slots.get(id(index)) in self._positions

    def extent(self, tensor: Tensor, dim: int) -> int:
        """How long an axis of a tensor of the graph is."""
        with torch._C.DisableTorchFunction():
            found, dim = tensor.shape[dim], dim % tensor.dim()
        slot = self._slots[id(tensor)]
        return self._counted(_extent, (Slot(slot), dim), found) if slot in self._of_graph else found

    def computed(self, func: Callable[..., Any], args: tuple[Any, ...], is_plain: bool) -> Any:
        """What a function of numbers gives; where Python sees a plain value, it is checked."""
        found = func(*map(_plain, args))
        if found is NotImplemented or self.is_inside:
            return found
        given = self._template(args)
        if is_plain or isinstance(found, bool):
            self.check(func, given, found)
            return found
        return self._counted(func, given, found) if isinstance(found, int) else found

    def check(self, func: Callable[..., Any], args: tuple[Any, ...], expected: object) -> None:
        """Records that a function of slots and numbers has to give this, once."""
        key = func, repr(args)
        if slots_in(args) & self._of_graph and key not in self._known:
            self._known[key] = expected
            self._steps.append(Step(func, args, {}, expected=expected))

    def check_same(self, one: Tensor, other: Tensor) -> None:
        """Records that two tensors have to be equal."""
        self.check(torch.equal, self._template((one, other)), True)

    def check_extent(self, tensor: Tensor, dim: int, rows: int) -> None:
        """Records that an axis has to be as long as there are rows."""
        found = self.extent(tensor, dim)
        if (
            isinstance(found, TracedSize)
            and isinstance(rows, TracedSize)
            and found.slot == rows.slot
        ):
            return
        self.check(operator.eq, self._template((found, rows)), True)

    def is_filled(self, tensor: Tensor, value: float) -> bool:
        """Whether a tensor was made of this number alone, and not written to."""
        return self._fills.get(id(tensor)) == value

    def recording(self, outputs: Mapping[str, Tensor]) -> Recording:
        """All that was recorded, as far as these tensors need it. Nothing more is."""
        self._inside += 1
        slots = {name: self._slots[id(tensor)] for name, tensor in outputs.items()}
        steps, slots = simplified(self._steps, self._values, slots)
        steps = needed(steps, slots.values())
        recipe = EdgeRecipe.of(steps, self._inputs, slots)
        at_once = None if recipe is None else recipe.run
        found = Recording(steps, self._inputs, slots, self._graph, at_once)
        if not self._is_replayable:
            found.key = object()
        self._values.clear()
        self.picked.clear()
        return found

    def _called(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a function without symbols gives."""
        name = _name(func)
        if name in _SIZES and not self.is_inside:
            return self._size(name, *self._filled(args), **kwargs)
        used = slots_in((args, tuple(kwargs.values())))
        before = self._versions(used)
        plain: Mapping[str, Any] = {key: self._filled(value) for key, value in kwargs.items()}
        if self.is_of_doubles:  # left out of the recording, which calls replay in float32
            plain = in_doubles(func, self._filled(args), plain)
        found = func(*self._filled(args), **plain)
        written = {
            slot for slot, version in self._versions(used).items() if before[slot] != version
        }
        if used & self._of_graph:
            self._of_graph |= written
        if isinstance(found, Tensor) or _are_tensors(found) or found is None:
            out = self._out(found, bool(used & self._of_graph))
            self._steps.append(Step(func, args, kwargs, out, writes=bool(written) or out is None))
            if written:
                self._fills.clear()
                self._known = {key: n for key, n in self._known.items() if key[0] is _extent}
            self._remember_fill(found, name, args, kwargs)
            self._remember_positions(out, name, args)
            if isinstance(found, Tensor) and name in ("__getitem__", "index_select"):
                of, index = (self._filled(each) for each in (args[0], args[-1]))
                if isinstance(index, Tensor):
                    self.picked.append((found, of, index))
        elif not (name in _FORMS or (self.is_inside and name in _SHAPES)):
            self.check(func, args, found)
            self._is_replayable &= not kwargs
        self._is_replayable &= name not in _RESHAPING
        return found

    def _out(self, found: Any, of_graph: bool) -> int | tuple[int, ...] | None:
        if found is None:
            return None
        if isinstance(found, Tensor):
            slot = self._new_slot(found)
            if of_graph:
                self._of_graph.add(slot)
            return slot
        return tuple(self._out(part, of_graph) for part in found)  # type: ignore[misc]

    def _new_slot(self, value: Any) -> int:
        slot = self._slots.get(id(value)) if isinstance(value, Tensor) else None
        if slot is None:
            slot = len(self._values)
            self._values.append(value)
            if isinstance(value, Tensor):
                self._slots[id(value)] = slot
        return slot

    def _counted(self, func: Callable[..., Any], args: tuple[Any, ...], found: int) -> Any:
        key = func, repr(args)
        if key not in self._known:
            slot = self._new_slot(found)
            self._of_graph.add(slot)
            self._steps.append(Step(func, args, {}, slot))
            self._known[key] = count(found, self, slot)
        return self._known[key]

    def _size(self, name: str, tensor: Tensor, dim: int | None = None) -> Any:
        if dim is not None:
            return self.extent(tensor, dim)
        with torch._C.DisableTorchFunction():
            sizes = [self.extent(tensor, axis) for axis in range(tensor.dim())]
        if name in ("numel", "nelement"):
            return functools.reduce(operator.mul, sizes, 1)
        return sizes[0] if name == "__len__" else torch.Size(sizes)

    def _remember_fill(
        self, found: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """A new tensor's shape is as it was asked for, and so are its numbers."""
        if name not in _FILLS:
            return
        args = args[1:] if name.startswith("new_") else args
        size = kwargs.get("size", args[0] if args and isinstance(args[0], list | tuple) else args)
        value = _FILLS[name]
        if value is None:
            value = kwargs.get("fill_value", args[1] if len(args) > 1 else None)
        if isinstance(value, int | float):
            self._fills[id(found)] = value
        slot = Slot(self._slots[id(found)])
        for axis, extent in enumerate(size):
            if isinstance(extent, Slot):
                extent = count(self._values[extent.index], self, extent.index)
            self._known[_extent, repr((slot, axis))] = extent

    def _remember_positions(
        self, out: int | tuple[int, ...] | None, name: str, args: tuple[Any, ...]
    ) -> None:
        outs = (out,) if isinstance(out, int) else out or ()
        if name == "sort":
            self._positions.add(outs[1])
        elif name in ("nonzero", "argsort") or (
            name in _VIEWS and slots_in(args[:1]) & self._positions
        ):
            self._positions.update(outs)

    def _check_counts(self, template: Any) -> None:
        """Numbers in functions of symbols are those of nodes or edges, or always the same."""
        for slot in sorted(slots_in(template)):
            value, rows = self._values[slot], self.rows
            if isinstance(value, int) and all(slot != each.slot for each in rows):
                same = next((Slot(n.slot) for n in rows if int.__int__(n) == value), value)
                self.check(operator.eq, (Slot(slot), same), True)

    def _template(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            if isinstance(value, Symbol) or value.is_meta:
                return value
            if id(value) not in self._slots:
                kind = "parameter" if isinstance(value, nn.Parameter) else "tensor"
                raise NotTraceable(f"a {kind} is none of the module's own: register it there")
            return Slot(self._slots[id(value)])
        if isinstance(value, TracedSize):
            return Slot(value.slot)
        if isinstance(value, slice):
            return slice(*map(self._template, (value.start, value.stop, value.step)))
        if isinstance(value, list | tuple):
            found = map(self._template, value)
            return list(found) if isinstance(value, list) else tuple(found)
        return value

    def _filled(self, template: Any) -> Any:
        return filled(template, self._values)

    def _versions(self, slots: Iterable[int]) -> dict[int, int]:
        found = ((slot, self._values[slot]) for slot in slots)
        return {
            slot: value._version
            for slot, value in found
            if isinstance(value, Tensor) and not value.is_inference()
        }


def _extent(tensor: Tensor, axis: int) -> int:
    return tensor.shape[axis]


def _plain(value: Any) -> Any:
    return int.__int__(value) if isinstance(value, TracedSize) else value


def _name(func: Callable[..., Any]) -> str:
    """Of a function, or of the attribute that it gets."""
    name: str = func.__name__
    return func.__self__.__name__ if name == "__get__" else name  # type: ignore[attr-defined]


def _are_tensors(found: Any) -> bool:
    is_several = isinstance(found, list | tuple) and len(found) > 0
    return is_several and all(isinstance(part, Tensor) for part in found)


_SIZES = frozenset(("size", "shape", "numel", "nelement", "__len__"))
_SHAPES = frozenset(
    (*_SIZES, "dim", "ndim", "ndimension", "stride", "storage_offset", "is_contiguous")
)
"""What interpreters of functions read of shapes changes nothing that they do."""
_FORMS = frozenset(
    (
        *("dtype", "device", "layout", "requires_grad", "element_size", "itemsize"),
        *("is_floating_point", "is_complex", "is_sparse", "is_sparse_csr", "is_cuda", "is_cpu"),
        *("is_quantized", "is_nested", "is_meta", "is_mkldnn", "is_leaf"),
    )
)
"""What is the same for all arguments of one kind."""
_FILLS = {"zeros": 0, "ones": 1, "full": None, "new_zeros": 0, "new_ones": 1, "new_full": None}
_VIEWS = frozenset(("view", "reshape", "flatten", "squeeze", "t", "select", "__getitem__"))
WRITES = frozenset(("__setitem__", "index_copy_"))
"""Functions that write rows into their first argument."""
_RESHAPING = frozenset(
    (
        *("resize_", "resize_as_", "set_", "squeeze_", "unsqueeze_"),
        *("t_", "transpose_", "swapaxes_", "swapdims_"),
    )
)
"""Functions that change the shape of what they are given."""
