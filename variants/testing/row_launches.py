"""Random products with elementwise walks around them: what `fuse_rows` is tested with."""

from __future__ import annotations

import random

from hetune.variants.kernel.nodes import (
    Apply,
    Buffer,
    Def,
    Direct,
    Gemm,
    Kernel,
    Launch,
    Read,
    Rows,
    Stmt,
    Traversal,
    Write,
)
from hetune.variants.kernel.verify import verify
from hetune.variants.kernel.walk import touched
from hetune.variants.program.nodes import End, Space, Type
from hetune.variants.testing.launches import GROUPS

_UNARY = ("relu", "gelu", "sigmoid", "tanh", "one_minus", "leaky_relu", "scale")
_BINARY = ("add", "sub", "mul", "maximum")


def random_rows(seed: int, widths: tuple[int, ...] = (1, 3, 7, 16)) -> Launch:
    """A verified launch of a product, and of walks over its rows before and after it.

    Args:
        seed: Any integer; equal seeds give equal launches.
        widths: Widths of a head to draw from.
    """
    launch = _Rows(random.Random(seed), widths).launch()  # noqa: S311
    verify(launch)
    return launch


class _Rows:
    def __init__(self, rng: random.Random, widths: tuple[int, ...]) -> None:
        self._rng = rng
        self._heads = rng.choice((1, 1, 2))
        self._k, self._n = rng.choice(widths), rng.choice(widths)
        space = rng.choice((Space.NODE, Space.NODE, Space.EDGE, Space.DST_PAIR))
        self._rows = Rows(space, "" if space is Space.NODE else rng.choice(GROUPS))
        self._buffers: list[Buffer] = []
        self._names = 0

    def launch(self) -> Launch:
        rng = self._rng
        kernels: list[Kernel] = []
        x = self._own((self._heads, self._k))
        if rng.random() < 0.7:
            active = self._own((self._heads, self._k), lasts=rng.random() < 0.2)
            kernels.append(self._function(x, active))
            x = self._again(active, (self._heads * self._k,)) if rng.random() < 0.5 else active
        out = self._own((self._heads * self._n,), lasts=rng.random() < 0.3)
        kernels.append(self._product(x, out))
        known = [out]
        walks = rng.randint(1, 2)
        for i in range(walks):
            source = rng.choice(known)
            if rng.random() < 0.4:
                source = self._again(source, (self._heads, self._n))
            kernels.append(self._walk(source, known, i == walks - 1))
        if rng.random() < 0.2:
            kernels.append(self._function(rng.choice(known), self._own(self._flat)))
        used = {name for kernel in kernels for name in touched(kernel)}
        return Launch(tuple(kernels), tuple(b for b in self._buffers if b.name in used))

    @property
    def _flat(self) -> tuple[int, ...]:
        return (self._heads * self._n,)

    # Buffers.

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _buffer(self, space: Space, shape: tuple[int, ...], scratch: str = "") -> str:
        group = self._rows.group if space is Space.DST_PAIR else ""
        self._buffers.append(Buffer(self._name("b"), Type(space, shape, group), scratch))
        return self._buffers[-1].name

    def _of(self, name: str) -> Buffer:
        return next(b for b in self._buffers if b.name == name)

    def _own(self, shape: tuple[int, ...], lasts: bool = True) -> str:
        return self._buffer(self._rows.space, shape, "" if lasts else self._name("s"))

    def _again(self, name: str, shape: tuple[int, ...]) -> str:
        """The same memory under another row shape, where a launch knows that it is."""
        buffer = self._of(name)
        if not buffer.scratch or buffer.type.shape == shape:
            return name
        return self._buffer(self._rows.space, shape, buffer.scratch)

    # Kernels.

    def _apply(self, shape: tuple[int, ...], *args: str) -> Def:
        fn = self._rng.choice(_UNARY if len(args) == 1 else _BINARY)
        const = self._rng.choice((0.2, -0.5)) if fn in ("leaky_relu", "scale") else None
        return Def(self._name("v"), shape, Apply(fn, args, const))

    def _function(self, source: str, stored: str) -> Traversal:
        shape = self._of(source).type.shape
        raw = Def(self._name("v"), shape, Read(source))
        active = self._apply(shape, raw.name)
        if shape != self._of(stored).type.shape:
            stored = self._own(shape)
        return Traversal(self._rows, (raw, active, Write(stored, active.name)))

    def _product(self, x: str, out: str) -> Gemm:
        rng, heads, k, n = self._rng, self._heads, self._k, self._n
        on_nodes = self._rows.space is Space.NODE
        typed = Space.NTYPE if on_nodes else Space.ETYPE
        w = self._buffer(rng.choice((typed, Space.SHARED)), (heads, k, n))
        bias = scale = None
        if rng.random() < 0.5:
            bias = self._buffer(rng.choice((typed, Space.SHARED)), self._flat)
        if rng.random() < 0.3:
            scale = self._own(rng.choice(((), (heads,))))
        only = rng.choice((End.NONE, End.SRC, End.DST)) if on_nodes else End.NONE
        # What is scratch has nothing in rows that are left alone.
        fill = only is not End.NONE and (self._of(out).scratch != "" or rng.random() < 0.6)
        return Gemm(
            out, Direct(x), w, self._rows, heads, k, n,
            scale=scale, bias=bias, only=only, fill=fill,
        )  # fmt: skip

    def _walk(self, source: str, known: list[str], last: bool) -> Traversal:
        """Elementwise functions of a row, of others, and of numbers for each row."""
        rng, rows = self._rng, self._rows
        shape = self._of(source).type.shape
        value = self._name("v")
        body: list[Stmt] = [Def(value, shape, Read(source))]
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.5:
                step = self._apply(shape, value)
            else:
                typed = Space.NTYPE if rows.space is Space.NODE else Space.ETYPE
                space = rng.choice((rows.space, typed, Space.SHARED))
                of = rng.choice((shape, ()))
                other = Def(self._name("v"), of, Read(self._buffer(space, of)))
                body.append(other)
                step = self._apply(shape, *rng.sample((value, other.name), 2))
            body.append(step)
            value = step.name
        stored = source
        if last or rng.random() < 0.8:
            stored = self._own(shape, lasts=last or rng.random() < 0.5)
            known.append(stored)
        # What is scratch has no row to add to before it is written.
        holds = stored == source or self._of(stored).scratch == ""
        body.append(Write(stored, value, holds and rng.random() < 0.2))
        return Traversal(rows, tuple(body))
