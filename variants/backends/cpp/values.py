"""Row values in registers: pieces of a row, and elementwise functions of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf, prod

from hetune.variants.backends.cpp.pieces import Piece, cut
from hetune.variants.errors import KernelError


@dataclass(frozen=True, slots=True)
class CppValue:
    """A row of shape ``shape``: C++ names of its pieces, in order."""

    shape: tuple[int, ...]
    names: tuple[tuple[Piece, str], ...]

    def element(self, index: int) -> str:
        """One element, as a float."""
        for piece, name in self.names:
            if piece.offset <= index < piece.offset + piece.lanes:
                return name if piece.lanes == 1 else f"{name}[{index - piece.offset}]"
        raise AssertionError(f"element {index} of a row of shape {self.shape}")

    def piece(self, wanted: Piece, shape: tuple[int, ...]) -> str:
        """The piece of a row of the (longer or equal) ``shape``, broadcast as a prefix.

        A float stands for as many equal elements.
        """
        if shape == self.shape:
            for piece, name in self.names:
                if piece == wanted:
                    return name
            raise AssertionError(f"{wanted} of a row of shape {shape}")
        if shape[: len(self.shape)] != self.shape:
            raise KernelError(
                f"a row of shape {self.shape} does not broadcast to {shape}: "
                "the shorter shape must be a prefix of the longer one"
            )
        return self.element(wanted.offset // prod(shape[len(self.shape) :]))


def row_pieces(shape: tuple[int, ...], lanes: int) -> tuple[Piece, ...]:
    """Pieces of a row; none crosses from one innermost row to the next."""
    last = shape[-1] if shape else 1
    count = prod(shape[:-1])
    return tuple(piece for i in range(count) for piece in cut(last, lanes, i * last))


def piece_end(piece: Piece, shape: tuple[int, ...]) -> str:
    """What the C++ name of a piece ends in: its first element, unless it is the whole row."""
    return "" if piece.lanes == prod(shape) else f"_{piece.offset}"


def literal(value: float) -> str:
    """A float32 constant."""
    if isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return f"{float(value)!r}f"


_INFIX = {"add": "+", "sub": "-", "mul": "*", "outer": "*", "div": "/"}
_CALLS = {"abs": "magnitude", "maximum": "larger", "minimum": "smaller"}
"""Functions that have another name in the prelude."""


def apply(fn: str, args: tuple[str, ...], const: float | None) -> str:
    """The C++ expression of an elementwise function of values of one type.

    Floats may stand beside vectors only in sums, differences, products and quotients.
    """
    if fn in _INFIX:
        return f"{args[0]} {_INFIX[fn]} {args[1]}"
    match fn, const:
        case "equal", None:  # a difference might be of products that were not rounded
            x, y = args
            return f"({x} == {y} ? decltype(+{x}){{}} + 1.0f : decltype(+{x}){{}})"
        case "scale", float():
            return f"{args[0]} * {literal(const)}"
        case "shift", float():
            return f"{args[0]} + {literal(const)}"
        case "reciprocal", None:
            return f"1.0f / {args[0]}"
        case "one_minus", None:
            return f"1.0f - {args[0]}"
    numbers = () if const is None else (literal(const),)
    return f"{_CALLS.get(fn, fn)}({', '.join((*args, *numbers))})"


def takes_vectors_alone(fn: str) -> bool:
    """Whether a float cannot stand beside a vector among the function's operands."""
    return fn not in _INFIX
