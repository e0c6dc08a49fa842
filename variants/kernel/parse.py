"""Reading the text form of the intra-operator IR; `text` says what it is, and prints it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from hetune.variants.errors import KernelError
from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.kernel.nodes import (
    Apply,
    Buffer,
    Def,
    Direct,
    EdgeSoftmax,
    Element,
    Expr,
    FoldAxis,
    ForEach,
    Gather,
    Gemm,
    Init,
    Inner,
    Kernel,
    Launch,
    Outer,
    Read,
    Schedule,
    ScoreLoop,
    SegmentSum,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.text import INDENT
from hetune.variants.kernel.words import Line
from hetune.variants.program.nodes import End, Space, Type


def parse(text: str) -> Launch:
    """The launch of a text that `show` printed. Blank lines are skipped.

    Raises:
        KernelError: The text is malformed; names the line and what was expected there.
    """
    return _Reader(text).launch()


def parse_schedule(text: str) -> AnySchedule:
    """The schedule of a text that `show_schedule` printed. Settings left out have defaults.

    Raises:
        KernelError: The text is malformed, or names a setting or value that there is not.
    """
    line = Line(1, text.rstrip("\n"))
    kind = GpuSchedule if line.accept("gpu_schedule") else Schedule
    if kind is Schedule:
        line.expect("schedule")
    known = [f.name for f in fields(kind)]
    settings: dict[str, int] = {}
    while line.peek():
        name = line.name("a setting")
        if name not in known:
            raise line.error(f"there is no setting {name!r}: use one of {', '.join(known)}")
        line.expect("=")
        settings[name] = line.integer()
    return kind(**settings)


class _Reader:
    """Recursive descent over lines; blocks are told by their indentation."""

    def __init__(self, text: str) -> None:
        numbered = enumerate(text.splitlines(), start=1)
        self._lines = [Line(number, line) for number, line in numbered if line.strip()]
        self._at = 0

    def _block(self, depth: int) -> Iterator[Line]:
        """The lines of the block at this depth; whoever gets one reads what is nested in it."""
        indent = depth * len(INDENT)
        while self._at < len(self._lines) and self._lines[self._at].indent >= indent:
            line = self._lines[self._at]
            if line.indent > indent:
                raise line.error(f"indented by {line.indent} spaces: indent it by {indent}")
            self._at += 1
            yield line

    def launch(self) -> Launch:
        if not self._lines:
            raise KernelError("kernel text is empty: it must start with `launch`")
        self._at = 1
        head = self._lines[0]
        head.expect("launch")
        head.finish()
        buffers: list[Buffer] = []
        kernels: list[Kernel] = []
        for line in self._block(1):
            if line.accept("buffer"):
                if kernels:
                    raise line.error("a buffer follows a kernel: move it above all kernels")
                buffers.append(self._buffer(line))
            elif line.accept("gemm"):
                kernels.append(self._gemm(line))
            elif line.accept("outer"):
                kernels.append(self._outer(line))
            else:
                line.expect("traverse")
                rows = line.rows()
                line.finish()
                kernels.append(Traversal(rows, self._body(2)))
        if self._at < len(self._lines):
            raise self._lines[self._at].error("only one launch is expected: indent it or remove it")
        return Launch(tuple(kernels), tuple(buffers))

    def _buffer(self, line: Line) -> Buffer:
        name = line.name("a buffer's name")
        line.expect(":")
        rows = line.rows()
        shape = line.shape()
        element = line.element() if line.accept("of") else Element.FLOAT32
        scratch = ""
        if line.accept("in"):
            line.expect("scratch")
            scratch = line.name("the scratch's name")
        line.finish()
        return Buffer(name, Type(rows.space, shape, rows.group), scratch, element)

    def _gemm(self, line: Line) -> Gemm:
        out = line.name("a buffer")
        line.expect("[")
        rows = line.rows()
        scatter = line.accept("->")
        if scatter:
            line.expect(Space.NODE)
        line.expect("]")
        accumulate = line.accept("+=")
        if not accumulate:
            line.expect("=")
        scale = self._factor(line)
        x = self._operand(line)
        line.expect("@")
        w = line.name("a weight")
        bias = line.name("a bias") if line.accept("+") else None
        heads, k, n = line.setting("heads"), line.setting("k"), line.setting("n")
        only, fill = End.NONE, False
        if line.accept("only"):
            line.expect("=")
            only, fill = line.named_end(), line.accept("fill")
        line.finish()
        tail = self._body(2)
        return Gemm(
            out, x, w, rows, heads, k, n, scatter, accumulate, scale, bias, only, fill, tail
        )

    def _outer(self, line: Line) -> Outer:
        out = line.name("a buffer")
        line.expect("[")
        rows = line.rows()
        line.expect("]")
        accumulate = line.accept("+=")
        if not accumulate:
            line.expect("=")
        scale = self._factor(line)
        x, y = None, self._operand(line)
        if line.accept(","):
            x, y = y, self._operand(line)
        heads, k, n = line.setting("heads"), line.setting("k"), line.setting("n")
        line.finish()
        return Outer(out, x, y, rows, heads, k, n, accumulate, scale)

    def _factor(self, line: Line) -> str | None:
        if line.peek(1) != "*":
            return None
        name = line.name("a factor")
        line.expect("*")
        return name

    def _operand(self, line: Line) -> Direct | Gather | SegmentSum:
        name = line.name("an operand")
        if name == "sum" and line.accept("("):
            weight = self._factor(line)
            buffer, end = line.name("a buffer"), line.end()
            line.expect(")")
            return SegmentSum(buffer, end or End.NONE, weight)
        if line.accept("("):
            buffer, const = line.name("a buffer"), None
            if line.accept(","):
                line.expect("const")
                line.expect("=")
                const = line.real()
            line.expect(")")
            return Direct(buffer, name, const)
        end = line.end()
        return Direct(name) if end is None else Gather(name, end)

    def _body(self, depth: int) -> tuple[Stmt, ...]:
        return tuple(self._statement(line, depth) for line in self._block(depth))

    def _statement(self, line: Line, depth: int) -> Stmt:
        statement: Stmt
        word = line.name("a statement")
        if line.accept(":"):
            shape = line.shape()
            line.expect("=")
            statement = Def(word, shape, self._expr(line))
        elif word == "init":
            name = line.name("an accumulator")
            line.expect(":")
            statement = Init(name, line.shape(), line.name("a reduction"))
        elif word == "update":
            statement = Update(line.name("an accumulator"), line.name("a value"))
        elif word == "store":
            buffer, accumulate = line.name("a buffer"), line.accept("+=")
            if not accumulate:
                line.expect("=")
            statement = Write(buffer, line.name("a value"), accumulate)
        elif word == "for":
            rows = line.rows()
            line.finish()
            return ForEach(rows, self._body(depth + 1))
        elif word == "softmax":
            return self._softmax(line, depth)
        else:
            raise line.error(
                f"no statement starts with {word!r}: write `name: [shape] = ...`, init, update, "
                "store, for or softmax"
            )
        line.finish()
        return statement

    def _softmax(self, line: Line, depth: int) -> EdgeSoftmax:
        name = line.name("a name for the shares")
        line.expect(":")
        shape = line.shape()
        line.expect("over")
        rows = line.rows()
        buffer = line.name("a buffer") if line.accept("to") else ""
        line.finish()
        scores: list[ScoreLoop] = []
        sums: list[ForEach] = []
        for inner in self._block(depth + 1):
            if inner.accept("scores"):
                if sums:
                    raise inner.error("scores follow a loop of sums: move them above all sums")
                scores.append(self._scores(inner, depth + 1))
                continue
            loop = self._statement(inner, depth + 1)
            if not isinstance(loop, ForEach):
                raise inner.error("a softmax has `scores` and `for` loops alone")
            sums.append(loop)
        return EdgeSoftmax(name, shape, rows, tuple(scores), buffer, tuple(sums))

    def _scores(self, head: Line, depth: int) -> ScoreLoop:
        rows = head.rows()
        head.finish()
        body: list[Def] = []
        value = ""
        for line in self._block(depth + 1):
            if value:
                raise line.error("follows the score: move it above")
            if line.peek() == "score" and line.peek(1) != ":":
                line.expect("score")
                value = line.name("the score's value")
                line.finish()
                continue
            statement = self._statement(line, depth + 1)
            if not isinstance(statement, Def):
                raise line.error("scores are made of definitions alone")
            body.append(statement)
        if not value:
            raise head.error("no score: end the loop with `score VALUE`")
        return ScoreLoop(rows, tuple(body), value)

    def _expr(self, line: Line) -> Expr:
        word = line.name("an expression")
        if word == "read" and line.peek() != "(":
            return Read(line.name("a buffer"), line.end() or End.NONE)
        line.expect("(")
        if word == "fold":
            return self._fold(line)
        args: list[str] = []
        const: float | None = None
        while not line.accept(")"):
            if args or const is not None:
                line.expect(",")
            if line.peek() == "const" and line.peek(1) == "=":
                line.expect("const")
                line.expect("=")
                const = line.real()
            else:
                args.append(line.name("an argument"))
        if word == "dot" and const is None and len(args) == 2:
            return Inner(args[0], args[1])
        return Apply(word, tuple(args), const)

    def _fold(self, line: Line) -> FoldAxis:
        x = line.name("a value")
        line.expect(",")
        axis = line.setting("axis")
        line.expect(",")
        fn = line.name("what it does with the axis")
        line.expect(")")
        return FoldAxis(x, axis, fn)
