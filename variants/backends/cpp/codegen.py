"""Prints the target IR as C++. No decision is taken here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hetune.variants.backends.cpp.target import (
    AcrossEdges,
    Assign,
    ChunksWithStealing,
    Comment,
    Declare,
    Do,
    For,
    Function,
    If,
    InParts,
    Scope,
    Statement,
    Struct,
    Switch,
    TranslationUnit,
    While,
)

_INDENT = "    "
_LINE = 100


def print_unit(unit: TranslationUnit) -> str:
    """The unit's text, without the prelude."""
    parts = [
        [f"// {line}" for line in unit.comment.splitlines()],
        ["namespace {"],
        list(_struct(unit.context)),
        *(list(_function(function)) for function in unit.functions),
        ["}  // namespace"],
        list(_function(unit.entry)),
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _struct(struct: Struct) -> Iterator[str]:
    yield f"// {struct.comment}"
    yield f"struct {struct.name} {{"
    for kind, name in struct.fields:
        yield f"{_INDENT}{kind} {name};"
    yield "};"


def _function(function: Function) -> Iterator[str]:
    for line in function.comment.splitlines():
        yield f"// {line}"
    if function.template:
        yield f"template <{function.template}>"
    head = f"{function.head}({', '.join(function.parameters)}) {{"
    if len(head) <= _LINE:
        yield head
    else:
        yield f"{function.head}("
        yield f"{_INDENT * 2}{', '.join(function.parameters)}) {{"
    yield from _indented(function.body)
    yield "}"


def _indented(body: Iterable[Statement]) -> Iterator[str]:
    for statement in body:
        for line in _statement(statement):
            # A directive starts its line, so that it is seen.
            yield line if line.startswith("#") else _INDENT + line


def _statement(statement: Statement) -> Iterator[str]:
    match statement:
        case Comment(text):
            yield f"// {text}"
        case Declare(kind, name, ""):
            yield f"{kind} {name};"
        case Declare(kind, name, value):
            yield f"{kind} {name} = {value};"
        case Assign(target, value, op):
            yield f"{target} {op} {value};"
        case Do(call):
            yield f"{call};"
        case For():
            yield from _for(statement)
        case AcrossEdges(kind, width, start, stop, body):
            yield f"across_edges<{kind}, {width}>({start}, {stop},"
            yield f"{_INDENT}[&](auto zero, int32_t e) INLINE_LAMBDA {{"
            yield f"{_INDENT}typedef decltype(zero) V;"
            yield from _indented(body)
            yield "});"
        case InParts(start, stop, sums, body):
            yield f"in_parts({start}, {stop},"
            yield f"{_INDENT}[&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {{"
            yield from _indented((body,))
            yield f"}}, {', '.join(sums)});"
        case ChunksWithStealing(var, turns, urgent, body, overflowed):
            yield f"const bool {overflowed} ="
            yield f"{_INDENT}in_turns({turns}, {urgent}, threads, [&](int64_t {var}) {{"
            yield from _indented(body)
            yield "});"
        case While(condition, body):
            yield f"while ({condition}) {{"
            yield from _indented(body)
            yield "}"
        case If(condition, body, otherwise):
            yield f"if ({condition}) {{"
            yield from _indented(body)
            if otherwise:
                yield "} else {"
                yield from _indented(otherwise)
            yield "}"
        case Switch(value, cases):
            yield f"switch ({value}) {{"
            for label, then in cases:
                yield f"{_INDENT}{label}: {' '.join(_statement(then))} break;"
            yield "}"
        case Scope(body):
            yield "{"
            yield from _indented(body)
            yield "}"


def _for(loop: For) -> Iterator[str]:
    if loop.unroll:
        yield f"#pragma GCC unroll {loop.unroll}"
    step = f"++{loop.var}" if loop.step == "1" else f"{loop.var} += {loop.step}"
    head = f"{loop.type} {loop.var} = {loop.start}; {loop.var} < {loop.stop}; {step}"
    yield f"for ({head}) {{"
    yield from _indented(loop.body)
    yield "}"
