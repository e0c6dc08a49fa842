"""Products with the same matrix, added up or subtracted, as one product: ``(h - t) @ m``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    Linear,
    Map,
    Op,
    Program,
    Space,
    operands,
    with_operands,
)

Terms = list[tuple[bool, str]]
"""Of a sum: whether one is added, and its name."""


def with_products_of_sums(program: Program) -> Program:
    """The program with one product where a sum of rows of edges has several with a matrix.

    The products that become one are read by nothing else.
    """
    ops: dict[str, Op] = {let.name: let.op for let in program.lets}
    uses = Counter(name for op in ops.values() for name in operands(op))
    uses.update(program.results)
    types, builder, now = program.types, Builder(program.params), dict[str, str]()

    def terms_of(name: str, is_added: bool) -> Iterator[tuple[bool, str]]:
        match ops.get(name):
            case Map("add" | "sub" as fn, (x, y)) if types[x] == types[y]:
                for arg, is_positive in ((x, True), (y, fn == "add")):
                    inner = terms_of(arg, is_added == is_positive) if uses[arg] == 1 else None
                    yield from inner or ((is_added == is_positive, arg),)
            case _:
                yield is_added, name

    def product(name: str) -> Linear | None:
        op = ops.get(name) if uses[name] == 1 else None
        return op if isinstance(op, Linear) and types[op.x].space is Space.EDGE else None

    def summed(terms: Iterable[tuple[bool, str]], hint: str) -> str:
        (is_added, found), *others = sorted(terms, key=lambda term: not term[0])
        if not is_added:
            found = builder.emit(Map("scale", (found,), -1.0), hint)
        for is_added, name in others:
            found = builder.emit(Map("add" if is_added else "sub", (found, name)), hint)
        return found

    for let in program.lets:
        terms = [*terms_of(let.name, True)]
        products = [(sign, op) for sign, name in terms if (op := product(name)) is not None]
        shared = [w for w, count in Counter(op.w for _, op in products).items() if count > 1]
        if not shared:
            read = tuple(now.get(name, name) for name in operands(let.op))
            now[let.name] = builder.emit(with_operands(let.op, read), let.name)
            continue
        kept: Terms = [
            (sign, now.get(name, name))
            for sign, name in terms
            if (op := product(name)) is None or op.w not in shared
        ]
        for w in shared:
            parts = [(sign, now.get(op.x, op.x)) for sign, op in products if op.w == w]
            one = Linear(summed(parts, f"{let.name}_rows"), now.get(w, w))
            kept.append((True, builder.emit(one, f"by_{w}")))
        now[let.name] = summed(kept, let.name)
    return builder.finish(program, tuple(now.get(name, name) for name in program.results))
