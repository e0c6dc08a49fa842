"""What functions of messages are given: rows of edges, and of nodes with what came to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.dgl.moves import Moves
from hetune.variants.frontend.tracing.interpreter import words
from hetune.variants.frontend.tracing.not_traceable import NotTraceable

Frame = dict[str, Any]
"""Rows of nodes, or of edges, by name."""


class Ends(Mapping[str, Any]):
    """The rows of nodes at an end of each edge."""

    def __init__(self, frame: Frame, take: Callable[[Tensor], Tensor]) -> None:
        self._frame, self._take = frame, take

    def __getitem__(self, name: str) -> Tensor:
        return self._take(self._frame[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._frame)

    def __len__(self) -> int:
        return len(self._frame)


class EdgeRows:
    """All edges of a graph at once, as DGL's `EdgeBatch`."""

    def __init__(self, moves: Moves, sources: Frame, targets: Frame, edges: Frame) -> None:
        self.src = Ends(sources, moves.at_src)
        self.dst = Ends(targets, moves.at_dst)
        self.data = edges
        self._moves = moves

    def __len__(self) -> int:
        return self._moves.num_edges

    batch_size = __len__


class NodeRows:
    """All nodes of a graph at once, as DGL's `NodeBatch`."""

    def __init__(self, moves: Moves, nodes: Frame, messages: Frame) -> None:
        self.data = nodes
        self.mailbox = {name: Mailbox(moves, rows) for name, rows in messages.items()}
        self._moves = moves

    def __len__(self) -> int:
        return self._moves.num_nodes

    batch_size = __len__


class Mailbox:
    """What came to each node, ``[nodes, messages, *row shape]``; it is kept as rows of edges.

    Functions of each message give messages, and functions over them, along axis 1, rows of nodes.
    """

    def __init__(self, moves: Moves, rows: Tensor) -> None:
        self._moves, self._rows = moves, rows

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name, kwargs = func.__name__.strip("_"), dict(kwargs or {})
        if name in _OVER:
            return _over(name, func, *args, **kwargs)
        if name not in _EACH:
            raise NotTraceable(
                f"{name} of all messages of a node: functions of each message, and sum, mean, max, "
                "min and softmax over them, are programs"
            )
        moves = next(arg._moves for arg in args if isinstance(arg, Mailbox))
        return Mailbox(moves, func(*(_of_edges(moves, arg) for arg in args), **kwargs))

    def __getattr__(self, name: str) -> Any:
        method = getattr(Tensor, name, None)
        if name.startswith("__") or not callable(method):
            raise NotTraceable(f"{name} of messages, whose number differs from node to node")
        return lambda *args, **kwargs: self.__torch_function__(method, (), (self, *args), kwargs)


def _operator(name: str) -> None:
    def operator(self: Mailbox, *args: Any) -> Any:
        return Mailbox.__torch_function__(getattr(Tensor, name), (), (self, *args))

    setattr(Mailbox, name, operator)


for _name in words("add radd sub rsub mul rmul truediv rtruediv pow neg matmul gt lt ge le abs"):
    _operator(f"__{_name}__")


def _of_edges(moves: Moves, value: Any) -> Any:
    """An operand with a row for each edge: of nodes, what was spread over their messages is."""
    if isinstance(value, Mailbox):
        return value._rows
    if isinstance(value, Tensor) and value.dim() > 1 and value.shape[:2] == (moves.num_nodes, 1):
        return moves.at_dst(value.squeeze(1))
    return value


def _over(
    name: str,
    func: Callable[..., Any],
    x: Mailbox,
    dim: int | None = None,
    keepdim: bool = False,
    **kwargs: Any,
) -> Any:
    """A function along an axis: that of the messages, or one of each message."""
    moves, rows = x._moves, x._rows
    if dim is None:
        raise NotTraceable(f"{name} of all nodes' messages: name an axis")
    axis = dim + rows.dim() + 1 if dim < 0 else dim
    if axis > 1:
        given = {"keepdim": keepdim} if name != "softmax" else {}
        return Mailbox(moves, func(rows, axis - 1, **given, **kwargs))
    if axis == 0:
        raise NotTraceable(f"{name} over all nodes")
    if name == "softmax":
        return Mailbox(moves, moves.softmax(rows))
    found = moves.reduced(rows, name.removeprefix("a"))
    found = found.unsqueeze(1) if keepdim else found
    return _First(found) if name in ("max", "min") else found


class _First(tuple[Tensor]):
    """What a maximum over messages gives, but for where it was found."""

    def __new__(cls, values: Tensor) -> _First:
        return super().__new__(cls, (values,))

    @property
    def values(self) -> Tensor:
        """The largest, or smallest, of each element."""
        return self[0]

    def __iter__(self) -> Iterator[Any]:
        return iter((self[0], None))


_OVER = words("sum mean max min amax amin softmax")
_EACH = words(
    "add radd sub rsub mul rmul truediv rtruediv div pow neg matmul gt lt ge le abs linear relu "
    "leaky_relu elu gelu silu exp log sqrt rsqrt sigmoid tanh softplus square clamp sin cos "
    "dropout where"
)


def masked(rows: Tensor, degrees: Tensor) -> Tensor:
    """Rows of nodes, 0 where no message came."""
    has = (degrees > 0).to(torch.get_default_dtype())
    return rows * has.reshape(len(has), *[1] * (rows.dim() - 1))
