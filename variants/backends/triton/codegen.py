"""Prints the target IR as a Triton module. No decision is taken here."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from hetune.variants.backends.triton.target import (
    TritonCall,
    TritonDo,
    TritonFor,
    TritonFunction,
    TritonIf,
    TritonLet,
    TritonStatement,
    TritonUnit,
)

_INDENT = "    "
_LINE = 100


def print_unit(unit: TritonUnit) -> str:
    """The unit's text."""
    parts = [
        f'"""{unit.comment}"""',
        "import triton\nimport triton.language as tl",
        *(helper.strip() for helper in unit.helpers),
        *("\n".join(_function(function)) for function in unit.functions),
        "\n".join(_launch(unit.functions)),
    ]
    head, imports, *rest = parts
    return "\n\n\n".join([f"{head}\n\n{imports}", *rest]) + "\n"


def _function(function: TritonFunction) -> Iterator[str]:
    if (callee := function.callee) is not None:
        constants = (f"{name}: tl.constexpr" for name in callee.constants)
        parameters = (*function.parameters, *callee.numbers, *constants)
        yield "@triton.jit"
        yield from _head(f"{function.name}_parts", parameters)
        yield from _indented(callee.body, function)
        yield from ("", "")
    counts = ", ".join(f'"{name}"' for name in function.counts)
    yield f"@triton.jit(do_not_specialize=[{counts}])" if counts else "@triton.jit"
    yield from _head(function.name, function.parameters)
    yield f'{_INDENT}"""{function.comment}"""'
    yield from _indented(function.body, function)


def _head(name: str, parameters: tuple[str, ...]) -> Iterator[str]:
    yield from _filled(f"def {name}(", parameters, "):")


def _filled(start: str, parts: Iterable[str], end: str) -> Iterator[str]:
    """Names in as few lines as they fit."""
    line = f"{start}{', '.join(parts)}{end}"
    if len(line) <= _LINE:
        yield line
        return
    yield start
    yield from textwrap.wrap(
        f"{', '.join(parts)},",
        _LINE - 3 * len(_INDENT),
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
    )
    yield end


def _launch(functions: Iterable[TritonFunction]) -> Iterator[str]:
    """How the kernels are compiled: what a compiler cannot tell from their text."""
    yield "LAUNCH = {"
    for function in functions:
        types = " ".join(
            (*(kind for kind, _ in function.pointers), *("i32",) * len(function.counts))
        )
        yield f'{_INDENT}"{function.name}": {{'
        yield f'{_INDENT * 2}"types": "{types}",'
        yield f'{_INDENT * 2}"num_warps": {function.warps},'
        yield f'{_INDENT * 2}"num_stages": {function.stages},'
        yield f"{_INDENT}}},"
    yield "}"


def _indented(body: Iterable[TritonStatement], function: TritonFunction) -> Iterator[str]:
    for statement in body:
        for line in _statement(statement, function):
            yield _INDENT + line


def _statement(statement: TritonStatement, function: TritonFunction) -> Iterator[str]:
    match statement:
        case TritonLet(name, value):
            yield from _wrapped(f"{name} = {value}")
        case TritonDo(call):
            yield from _wrapped(call)
        case TritonFor(name, stop, body, step):
            extent = stop if step == "1" else f"0, {stop}, {step}"
            yield f"for {name} in range({extent}):"
            yield from _indented(body, function)
        case TritonCall(arguments):
            yield from _filled(f"{function.name}_parts(", (*function.parameters, *arguments), ")")
        case TritonIf(condition, then, otherwise):
            yield f"if {condition}:"
            yield from _indented(then, function)
            if len(otherwise) == 1 and isinstance(otherwise[0], TritonIf):
                head, *rest = _statement(otherwise[0], function)
                yield f"el{head}"
                yield from rest
            else:
                yield "else:"
                yield from _indented(otherwise, function)


def _wrapped(line: str) -> Iterator[str]:
    """A long call with one argument on each line."""
    if len(line) <= _LINE - len(_INDENT) * 3 or not line.endswith(")"):
        yield line
        return
    # The parenthesis that the last one closes, and the commas right inside of it.
    depth, commas, start = 0, [], 0
    for place in range(len(line) - 1, 0, -1):
        depth += (line[place] in ")]") - (line[place] in "([")
        if depth == 1 and line[place] == ",":
            commas.append(place)
        if depth == 0:
            start = place
            break
    yield line[: start + 1]
    ends = [*reversed(commas), len(line) - 1]
    for begin, end in zip([start, *reversed(commas)], ends, strict=True):
        yield f"{_INDENT}{line[begin + 1 : end].strip()},"
    yield ")"
