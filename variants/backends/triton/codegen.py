"""Prints the target IR as a Triton module. No decision is taken here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hetune.variants.backends.triton.target import Do, For, Function, Let, Statement, Unit

_INDENT = "    "
_LINE = 100


def print_unit(unit: Unit) -> str:
    """The unit's text."""
    parts = [
        f'"""{unit.comment}"""',
        "import triton\nimport triton.language as tl",
        *(helper.strip() for helper in unit.helpers),
        *("\n".join(_function(function)) for function in unit.functions),
    ]
    head, imports, *rest = parts
    return "\n\n\n".join([f"{head}\n\n{imports}", *rest]) + "\n"


def _function(function: Function) -> Iterator[str]:
    counts = ", ".join(f'"{name}"' for name in function.counts)
    yield f"@triton.jit(do_not_specialize=[{counts}])" if counts else "@triton.jit"
    parameters = (*function.pointers, *function.counts)
    head = f"def {function.name}({', '.join(parameters)}):"
    if len(head) <= _LINE:
        yield head
    else:
        yield f"def {function.name}("
        yield from (f"{_INDENT}{name}," for name in parameters)
        yield "):"
    yield f'{_INDENT}"""{function.comment}"""'
    yield from _indented(function.body)


def _indented(body: Iterable[Statement]) -> Iterator[str]:
    for statement in body:
        for line in _statement(statement):
            yield _INDENT + line


def _statement(statement: Statement) -> Iterator[str]:
    match statement:
        case Let(name, value):
            yield from _wrapped(f"{name} = {value}")
        case Do(call):
            yield from _wrapped(call)
        case For(name, stop, body, step):
            yield f"for {name} in range(0, {stop}{f', {step}' if step != 1 else ''}):"
            yield from _indented(body)


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
