"""What a product does with its rows before it stores them: elementwise walks, joined to it."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from hetune.variants.kernel.names import Names, declared, renamed
from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    Gemm,
    Kernel,
    Launch,
    Read,
    Stmt,
    Traversal,
    Write,
)
from hetune.variants.kernel.passes.aliases import may_share, memory_of, names_of
from hetune.variants.kernel.walk import product_reads, writes
from hetune.variants.program.nodes import End


def with_tail(product: Kernel, walk: Kernel, launch: Launch) -> Gemm | None:
    """The product with a walk that follows it as its tail, all of whose stores are left.

    None if the walk is not over the product's rows or not elementwise, or stores what the product
    reads, or if the product's rows are parts of sums, or not all there.
    """
    if not isinstance(product, Gemm) or not isinstance(walk, Traversal):
        return None
    partial = product.only is not End.NONE and not product.fill
    if product.rows != walk.rows or product.accumulate or partial:
        return None
    width = product.heads * product.n
    body = _flat(walk.body, width, launch)
    if body is None:
        return None
    names = Names({product.out, *declared(product.tail)})
    fresh = {s.name: names.fresh(s.name) for s in body if isinstance(s, Def)}
    tail = _Tail(launch, names, width)
    before = product.tail or (Write(product.out, product.out),)
    if not all(map(tail.add, (*before, *renamed(body, fresh)))):
        return None
    fused = replace(product, tail=tuple(tail.body))
    operands = {m for name, _ in product_reads(product) for m in names_of(name, launch)}
    return fused if operands.isdisjoint(writes(fused)) else None


def without_idle_stores(product: Gemm, others: set[str], launch: Launch) -> Gemm:
    """The product without stores of its tail that are overwritten, or scratch that nobody reads.

    Args:
        product: The product.
        others: The buffers that other kernels of the launch touch.
        launch: Where the buffers are.
    """
    kept: list[Stmt] = []
    needed: set[str] = set()
    """Names of memory that later statements read."""
    replaced: set[str] = set()
    """Names of memory that later statements overwrite first."""
    for statement in reversed(product.tail):
        match statement:
            case Def(expr=Read(buffer)):
                needed |= names_of(buffer, launch)
                replaced -= names_of(buffer, launch)
            case Write(buffer, _, accumulate):
                names = names_of(buffer, launch)
                lasts = not memory_of(buffer, launch) or names & (others | needed)
                if buffer in replaced or not lasts:
                    continue
                if accumulate:
                    needed |= names
                    replaced -= names
                else:
                    needed -= names
                    replaced |= names
        kept.append(statement)
    found = replace(product, tail=tuple(kept[::-1]))
    return found if any(writes(found)) else product


class _Tail:
    """A tail that grows: what reads a row that has just been stored takes its value."""

    def __init__(self, launch: Launch, names: Names, width: int) -> None:
        self.body: list[Stmt] = []
        self._launch, self._new, self._width = launch, names, width
        self._held: dict[str, str] = {}
        """By name of a buffer, the value that its row has."""
        self._stored: set[str] = set()
        self._values: dict[str, str] = {}
        """Names that are left out, and the values in their place."""

    def add(self, statement: Stmt) -> bool:
        """Append a statement; False if what it reads is not known."""
        (statement,) = renamed((statement,), self._values)
        match statement:
            case Def(name, _, Read(buffer)):
                if buffer in self._held:
                    self._values[name] = self._held[buffer]
                    return True
                if self._may_be_stored(buffer):
                    return False
            case Write(buffer, value, accumulate):
                names = names_of(buffer, self._launch)
                if accumulate and buffer in self._held:
                    total = self._new.fresh(f"{buffer}_total")
                    both = Apply("add", (self._held[buffer], value))
                    self.body.append(Def(total, (self._width,), both))
                    statement, value, accumulate = Write(buffer, total), total, False
                elif not names & self._stored and self._may_be_stored(buffer):
                    return False
                for name in names:
                    self._held.pop(name, None)
                    if not accumulate:
                        self._held[name] = value
                self._stored |= names
        self.body.append(statement)
        return True

    def _may_be_stored(self, buffer: str) -> bool:
        return any(may_share(buffer, name, self._launch) for name in self._stored)


def _flat(body: tuple[Stmt, ...], width: int, launch: Launch) -> tuple[Stmt, ...] | None:
    """The body with flat rows; None if it is not elementwise, or its rows are of another width."""
    flat: list[Stmt] = []
    shapes: dict[str, tuple[int, ...]] = {}
    for statement in body:
        match statement:
            case Def(name, shape, Read() | Apply()) if _fits(shape, width):
                if isinstance(statement.expr, Apply) and statement.expr.fn == "outer":
                    return None
                shapes[name] = () if prod(shape) < width else (width,)
                flat.append(Def(name, shapes[name], statement.expr))
            case Write(buffer, value) if shapes[value] == (width,):
                if launch.type_of(buffer).width != width:
                    return None
                flat.append(statement)
            case _:
                return None
    return tuple(flat)


def _fits(shape: tuple[int, ...], width: int) -> bool:
    return prod(shape) in (1, width)
