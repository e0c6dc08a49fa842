"""Sites: the sums into nodes of a program that are decided of each for itself."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from hetune.variants.passes.pipeline import Pass, run_passes
from hetune.variants.passes.rewrite import Builder, rewrite
from hetune.variants.program.nodes import (
    Let,
    Linear,
    Op,
    Param,
    Program,
    Space,
    Sum,
    operands,
    with_operands,
)

Site = tuple[str, ...]
"""Names of sums into nodes that share products, and so are computed alike."""


def sites_of(program: Program) -> tuple[Site, ...]:
    """The sums into nodes of a program: those that read one linear map of edges are one site."""
    sites: list[tuple[list[str], set[str]]] = []
    for let in program.lets:
        if not _is_sum_into_nodes(let):
            continue
        names, products = [let.name], _products(program, let.name)
        for site in [site for site in sites if site[1] & products]:
            sites.remove(site)
            names, products = [*site[0], *names], products | site[1]
        sites.append((names, products))
    order = {let.name: position for position, let in enumerate(program.lets)}
    return tuple(sorted((tuple(names) for names, _ in sites), key=lambda site: order[site[0]]))


def only(program: Program, site: Site) -> Program:
    """The program with the sums of all other sites given."""
    return _sliced(program, program.result, site)


@dataclass(frozen=True, slots=True)
class AtSum:
    """Applies passes to one sum into nodes and what feeds it, up to the sums before it.

    Attributes:
        name: The sum.
        passes: What is applied.
    """

    name: str
    passes: tuple[Pass, ...]

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        part = run_passes(self.passes, _sliced(program, self.name, (self.name,)))

        def rule(builder: Builder, op: Op, hint: str) -> str | None:
            if hint != self.name:
                return None
            renamed = {param.name: param.name for param in part.params}
            for let in part.lets:
                inner = with_operands(let.op, tuple(renamed[name] for name in operands(let.op)))
                renamed[let.name] = builder.emit(inner, let.name)
            return renamed[part.result]

        return rewrite(program, rule)


def _is_sum_into_nodes(let: Let) -> bool:
    return isinstance(let.op, Sum) and let.op.space is Space.NODE


def _products(program: Program, name: str) -> set[str]:
    """The linear maps of edges or pairs that a sum reads, without those behind node values."""
    ops = {let.name: let.op for let in program.lets}
    found: set[str] = set()
    seen: set[str] = set()
    ahead = list(operands(ops[name]))
    while ahead:
        at = ahead.pop()
        if at in seen or at not in ops or not program.type_of(at).space.is_edgewise:
            continue
        seen.add(at)
        if isinstance(ops[at], Linear):
            found.add(at)
        ahead += operands(ops[at])
    return found


def _sliced(program: Program, result: str, kept: Container[str]) -> Program:
    """What a value needs, where sums into nodes are given but for those that are kept."""
    live, types = {result}, program.types
    given: set[str] = set()
    lets: list[Let] = []
    for let in reversed(program.lets):
        if let.name not in live:
            continue
        if _is_sum_into_nodes(let) and let.name not in kept:
            given.add(let.name)
            continue
        live.update(operands(let.op))
        lets.append(let)
    params = [param for param in program.params if param.name in live]
    params += [Param(name, types[name], "feature") for name in types if name in given]
    return Program(program.name, tuple(params), tuple(reversed(lets)), result, program.groups)
