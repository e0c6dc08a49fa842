"""Sites: the sums into nodes of a program, each with choices of its own."""

from __future__ import annotations

from collections.abc import Container, Iterable, KeysView, Mapping
from dataclasses import dataclass

from hetune.variants.passes.pipeline import Pass, run_passes
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    Let,
    Linear,
    Param,
    Program,
    Reduce,
    Space,
    operands,
    with_operands,
)

Site = tuple[str, ...]
"""Names of reductions into nodes that share products, and so are computed in the same way."""


def sites_of(program: Program) -> tuple[Site, ...]:
    """The reductions into nodes of a program: those that read one linear map are one site."""
    sites: list[tuple[Site, set[str]]] = []
    for name in _into_nodes(program):
        names: Site = (name,)
        products = _products(program, name)
        for site in [site for site in sites if site[1] & products]:
            sites.remove(site)
            names, products = site[0] + names, products | site[1]
        sites.append((names, products))
    order = [let.name for let in program.lets]
    found = (tuple(sorted(names, key=order.index)) for names, _ in sites)
    return tuple(sorted(found, key=lambda site: order.index(site[0])))


def only(program: Program, site: Site) -> Program:
    """The program of a site and what it needs; reductions of other sites become parameters."""
    others = _into_nodes(program) - set(site)
    needed = _needed(program, site, others)
    lets = tuple(let for let in needed if let.name not in others)
    read = {name for let in lets for name in operands(let.op)}
    params = [param for param in program.params if param.name in read]
    params += [Param(let.name, let.type, "feature") for let in needed if let.name in others]
    return Program(program.name, tuple(params), lets, site, program.groups)


@dataclass(frozen=True, slots=True)
class AtSite:
    """Applies passes to a site and what feeds it, up to the reductions of other sites.

    Attributes:
        site: The site.
        passes: What is applied.
    """

    site: Site
    passes: tuple[Pass, ...]

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        part = run_passes(self.passes, only(program, self.site))
        results = dict(zip(self.site, part.results, strict=True))
        builder = Builder(program.params, (*program.groups, *part.groups))
        renamed = {param.name: param.name for param in program.params}
        made: dict[str, str] = {}
        # Sites keep their names, by which later passes find them.
        others = _into_nodes(program)
        rest = _needed(program, (*program.results, *(p.name for p in part.params)), self.site)
        for let in rest:
            if let.name not in results:
                renamed[let.name] = _emit(builder, let, renamed, let.name)
                continue
            for inner in _needed(part, (results[let.name],)):
                if inner.name not in made:
                    is_result = inner.name == results[let.name]
                    hint = f"{inner.name}_part" if inner.name in others else inner.name
                    hint = let.name if is_result else hint
                    made[inner.name] = _emit(builder, inner, renamed | made, hint)
            renamed[let.name] = made[results[let.name]]
        return builder.finish(program, tuple(renamed[name] for name in program.results))


def _emit(builder: Builder, let: Let, renamed: Mapping[str, str], hint: str) -> str:
    op = with_operands(let.op, tuple(renamed[name] for name in operands(let.op)))
    return builder.emit(op, hint)


def _needed(program: Program, names: Iterable[str], given: Container[str] = ()) -> list[Let]:
    """The named values and what they need, in order; the operands of given ones are left out."""
    live = set(names)
    found: list[Let] = []
    for let in reversed(program.lets):
        if let.name in live:
            found.append(let)
            if let.name not in given:
                live.update(operands(let.op))
    return found[::-1]


def _into_nodes(program: Program) -> KeysView[str]:
    types = program.types
    return {
        let.name: None
        for let in program.lets
        if isinstance(let.op, Reduce)
        and let.type.space is Space.NODE
        and types[let.op.x].space.is_edgewise
    }.keys()


def _products(program: Program, name: str) -> set[str]:
    """The linear maps of edges or pairs that a reduction reads, without those behind nodes."""
    lets = {let.name: let for let in program.lets}
    found: set[str] = set()
    seen: set[str] = set()
    ahead = list(operands(lets[name].op))
    while ahead:
        at = ahead.pop()
        if at in seen or at not in lets or not lets[at].type.space.is_edgewise:
            continue
        seen.add(at)
        if isinstance(lets[at].op, Linear):
            found.add(at)
        ahead += operands(lets[at].op)
    return found
