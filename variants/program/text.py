"""The inter-operator IR as text: a canonical printer and its parser.

    program mean(x: node[8] feature, w: etype[8,4])
      xs: edge[8] = take x edge src
      hs: edge[4] = linear xs w
      out: node[4] = sum hs node
      return out

A row shape is in brackets (``[]`` for one number), a group of edge types follows ``@``, and
``#`` starts a comment. Rows are reduced to nodes at their edges' destination where no end is
named. `parse` knows the syntax only; `verify` judges what was said.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hetune.variants.errors import ProgramError
from hetune.variants.program.functions import FOLDS, MAP_ARITY, REDUCTIONS
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Concat,
    Count,
    Dot,
    Einsum,
    End,
    Fold,
    Group,
    Let,
    Linear,
    Map,
    Merge,
    Op,
    Param,
    Program,
    Reduce,
    Reshape,
    Rule,
    Slice,
    Softmax,
    Space,
    Take,
    Type,
)

_LINE_LENGTH = 100
_MOST_DIGITS = 18
_Item = TypeVar("_Item")


def show(program: Program) -> str:
    """The program as text, ending in a newline; equal programs have equal text."""
    params = [show_param(param) for param in program.params]
    groups = f" groups({', '.join(map(show_group, program.groups))})" if program.groups else ""
    head = f"program {program.name}({', '.join(params)}){groups}"
    if len(head) > _LINE_LENGTH:
        lines = "".join(f"  {param},\n" for param in params)
        head = f"program {program.name}(\n{lines}){groups}"
    body = [f"  {show_let(let)}" for let in program.lets]
    return "\n".join([head, *body, f"  return {', '.join(program.results)}"]) + "\n"


def show_group(group: Group) -> str:
    """``s: fewer_src``."""
    return group.name if group.rule is None else f"{group.name}: {group.rule.name.lower()}"


def show_param(param: Param) -> str:
    """``x: node[64] feature``; weights carry no role."""
    role = "" if param.role == "weight" else f" {param.role}"
    return f"{param.name}: {show_type(param.type)}{role}"


def show_let(let: Let) -> str:
    """``hs: edge[64] = linear xs w``."""
    return f"{let.name}: {show_type(let.type)} = {show_op(let.op)}"


def show_type(type: Type) -> str:
    """``edge@g[4,16]``."""
    return show_space(type.space, type.group) + _show_shape(type.shape)


def show_op(op: Op) -> str:
    """``softmax score node``."""
    match op:
        case Take(x, space, end, group):
            tail = "" if end is End.NONE else f" {end}"
            return f"take {x} {show_space(space, group)}{tail}"
        case Linear(x, w):
            return f"linear {x} {w}"
        case Map(fn, args, const):
            tail = "" if const is None else f" {float(const)!r}"
            return f"{fn} {' '.join(args)}{tail}"
        case Dot(x, y):
            return f"dot {x} {y}"
        case Reduce(x, space, fn, end):
            tail = "" if end is _default_end(space) else f" {end}"
            return f"{fn} {x} {space}{tail}"
        case Softmax(x, over):
            return f"softmax {x} {over}"
        case Count(space, group, end):
            tail = " src" if end is End.SRC else ""
            return f"count {show_space(space, group)}{tail}"
        case Einsum(spec, args):
            return f'einsum "{spec}" {" ".join(args)}'
        case Merge(parts):
            return f"merge {' '.join(parts)}"
        case Reshape(x, shape):
            return f"reshape {x} {_show_shape(shape)}"
        case Fold(x, axis, fn):
            return f"fold {x} {axis} {fn}"
        case Concat(parts):
            return f"concat {' '.join(parts)}"
        case Slice(x, start, stop):
            return f"slice {x} {start} {stop}"


def show_space(space: Space, group: str) -> str:
    """``edge@g``."""
    return f"{space}" if group == ALL_EDGES else f"{space}@{group}"


def _default_end(space: Space) -> End:
    """The end that rows are reduced by where none is named."""
    return End.DST if space is Space.NODE else End.NONE


def _show_shape(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def parse(text: str) -> Program:
    """The program that `show` would print so; it is not verified.

    Raises:
        ProgramError: The text does not follow the syntax; the message has the line.
    """
    return _Parser(_tokens(text)).program()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*)
      | (?P<newline>\n)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>-?\d+(\.\d+)?([eE][+-]?\d+)?)
      | (?P<string>"[^"\n]*")
      | (?P<mark>[()\[\],:=@])""",
    re.VERBOSE,
)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    line, at = 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ProgramError(f"line {line}: unexpected character {text[at]!r}")
        kind = match.lastgroup or ""
        if kind != "space":
            tokens.append(_Token(kind, match.group(), line))
        line += kind == "newline"
        at = match.end()
    tokens.append(_Token("newline", "\n", line))
    return [*tokens, _Token("end", "end of text", line)]


class _Parser:
    """Recursive descent; newlines matter only in the body, where they end a value."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def program(self) -> Program:
        self._skip_lines()
        self._expect("name", "program")
        name = self._expect("name").text
        params = self._listed(self._param)
        groups: tuple[Group, ...] = ()
        if self._accept("groups"):
            groups = self._listed(self._group)
        self._skip_lines()
        lets: list[Let] = []
        while not self._accept("return"):
            lets.append(self._let())
            self._skip_lines()
        results = [self._expect("name").text]
        while self._accept(","):
            results.append(self._expect("name").text)
        self._skip_lines()
        self._expect("end")
        return Program(name, params, tuple(lets), tuple(results), groups)

    def _group(self) -> Group:
        name = self._expect("name").text
        if not self._accept(":"):
            return Group(name)
        token = self._expect("name")
        rules = {rule.name.lower(): rule for rule in Rule}
        if token.text not in rules:
            raise ProgramError(
                f"line {token.line}: no rule is called {token.text!r}; there are {', '.join(rules)}"
            )
        return Group(name, rules[token.text])

    def _param(self) -> Param:
        name = self._expect("name").text
        self._expect("mark", ":")
        type_ = self._type()
        role = self._take().text if self._peek().kind == "name" else "weight"
        return Param(name, type_, role)

    def _let(self) -> Let:
        name = self._expect("name").text
        self._expect("mark", ":")
        type_ = self._type()
        self._expect("mark", "=")
        op = self._op()
        self._expect("newline")
        return Let(name, type_, op)

    def _op(self) -> Op:
        head = self._expect("name")
        match head.text:
            case "take":
                x = self._expect("name").text
                space, group = self._space()
                return Take(x, space, self._end() or End.NONE, group)
            case "linear":
                return Linear(self._expect("name").text, self._expect("name").text)
            case "dot":
                return Dot(self._expect("name").text, self._expect("name").text)
            case fn if fn in REDUCTIONS:
                x, space = self._expect("name").text, self._whole_space()
                return Reduce(x, space, fn, self._end() or _default_end(space))
            case "softmax":
                return Softmax(self._expect("name").text, self._whole_space())
            case "count":
                space, group = self._space()
                return Count(space, group, self._end() or End.DST)
            case "einsum":
                spec = self._expect("string").text.strip('"')
                return Einsum(spec, self._names())
            case "merge":
                return Merge(self._names())
            case "reshape":
                return Reshape(self._expect("name").text, self._shape())
            case "fold":
                return Fold(self._expect("name").text, self._whole(), self._fold())
            case "concat":
                return Concat(self._names())
            case "slice":
                return Slice(self._expect("name").text, self._whole(), self._whole())
            case fn if fn in MAP_ARITY:
                args = self._names()
                const = float(self._take().text) if self._peek().kind == "number" else None
                return Map(fn, args, const)
        known = [
            "take", "linear", "dot", "softmax", "count", "einsum", "merge", "reshape", "fold",
            "concat", "slice",
        ]  # fmt: skip
        raise ProgramError(
            f"line {head.line}: no operator is called {head.text!r}; "
            f"there are {', '.join([*known, *REDUCTIONS, *MAP_ARITY])}"
        )

    def _whole(self) -> int:
        return _count(self._expect("number"), "place in a row shape")

    def _fold(self) -> str:
        token = self._expect("name")
        if token.text not in FOLDS:
            raise ProgramError(
                f"line {token.line}: no fold is called {token.text!r}; there are {', '.join(FOLDS)}"
            )
        return token.text

    def _end(self) -> End | None:
        return End(self._take().text) if self._peek().text in ("src", "dst") else None

    def _names(self) -> tuple[str, ...]:
        names: list[str] = []
        while self._peek().kind == "name":
            names.append(self._take().text)
        return tuple(names)

    def _type(self) -> Type:
        space, group = self._space()
        return Type(space, self._shape(), group)

    def _space(self) -> tuple[Space, str]:
        token = self._expect("name")
        if token.text not in Space.__members__.values():
            raise ProgramError(
                f"line {token.line}: no space is called {token.text!r}; "
                f"there are {', '.join(Space)}"
            )
        group = self._expect("name").text if self._accept("@") else ALL_EDGES
        return Space(token.text), group

    def _whole_space(self) -> Space:
        space, group = self._space()
        if group != ALL_EDGES:
            raise ProgramError(
                f"line {self._peek().line}: @{group} stands where the group follows from the "
                "operand: leave it out"
            )
        return space

    def _shape(self) -> tuple[int, ...]:
        self._expect("mark", "[")
        extents: list[int] = []
        while not self._accept("]"):
            extents.append(_count(self._expect("number"), "extent of a row shape"))
            if self._peek().text != "]":
                self._expect("mark", ",")
        return tuple(extents)

    def _listed(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        self._expect("mark", "(")
        items: list[_Item] = []
        self._skip_lines()
        while not self._accept(")"):
            items.append(item())
            self._skip_lines()
            if self._peek().text != ")":
                self._expect("mark", ",")
                self._skip_lines()
        return tuple(items)

    def _skip_lines(self) -> None:
        while self._peek().kind == "newline":
            self._at += 1

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _accept(self, text: str) -> bool:
        found = self._peek().text == text and self._peek().kind in ("name", "mark")
        self._at += found
        return found

    def _expect(self, kind: str, text: str | None = None) -> _Token:
        token = self._take()
        if token.kind != kind or text not in (None, token.text):
            wanted = {"newline": "the end of the line", "end": "the end of the text"}.get(kind)
            wanted = wanted or (repr(text) if text else f"a {kind}")
            found = "the end of the line" if token.kind == "newline" else repr(token.text)
            raise ProgramError(f"line {token.line}: expected {wanted}, found {found}")
        return token


def _count(token: _Token, what: str) -> int:
    if not token.text.isdigit() or len(token.text) > _MOST_DIGITS:
        raise ProgramError(f"line {token.line}: {token.text[:_MOST_DIGITS]} is no {what}")
    return int(token.text)
