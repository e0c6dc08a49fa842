"""The words of a line of the text form of the intra-operator IR."""

from __future__ import annotations

import math
import re

from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Element, Rows
from hetune.variants.program.nodes import End, Space

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|-inf\b)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<symbol>\+=|->|[-+*=@:,()\[\]]))"
)


class Line:
    """The tokens of one line, read from left to right."""

    def __init__(self, number: int, text: str) -> None:
        self.number, self.text, self._at = number, text.strip(), 0
        self.indent = len(text) - len(text.lstrip(" "))
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None or match.lastgroup is None:
                raise self.error(f"{self.text[at:].strip()[:1]!r} has no meaning here: remove it")
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()

    def error(self, problem: str) -> KernelError:
        """The error to raise, with the line named in front."""
        return KernelError(f"kernel text, line {self.number} `{self.text}`: {problem}")

    def peek(self, ahead: int = 0) -> str:
        """A token to come; "" at the end."""
        at = self._at + ahead
        return self._tokens[at][1] if at < len(self._tokens) else ""

    def _next(self, kind: str, what: str) -> str:
        if self._at >= len(self._tokens):
            raise self.error(f"the line ends where {what} is expected: add it")
        found, token = self._tokens[self._at]
        if found != kind:
            raise self.error(f"found {token!r} where {what} is expected: write that instead")
        self._at += 1
        return token

    def name(self, what: str) -> str:
        """The next word, which must be a name."""
        return self._next("name", what)

    def accept(self, token: str) -> bool:
        """Whether a token comes next; if so, it is read."""
        found = self.peek() == token
        self._at += found
        return found

    def expect(self, token: str) -> None:
        """Reads a token that must come next."""
        if not self.accept(token):
            found = repr(self.peek()) if self.peek() else "the end of the line"
            raise self.error(f"found {found} where {token!r} is expected: write that instead")

    def finish(self) -> None:
        """Nothing follows."""
        if self.peek():
            raise self.error(f"{self.peek()!r} follows the end of the statement: remove it")

    def real(self) -> float:
        """A number."""
        return math.inf if self.accept("inf") else float(self._next("number", "a number"))

    def integer(self) -> int:
        """A whole number."""
        token = self._next("number", "an integer")
        if not token.removeprefix("-").isdigit():
            raise self.error(f"{token} is not an integer: write one")
        return int(token)

    def setting(self, name: str) -> int:
        """``name=number``."""
        self.expect(name)
        self.expect("=")
        return self.integer()

    def rows(self) -> Rows:
        """A space, and a group after ``@``."""
        word = self.name("a space")
        if word not in set(Space):
            raise self.error(f"there is no space {word!r}: use one of {', '.join(Space)}")
        return Rows(Space(word), self.name("a group") if self.accept("@") else "")

    def element(self) -> Element:
        """What a buffer is made of."""
        word = self.name("what its elements are")
        if word not in set(Element):
            raise self.error(f"{word!r} is no element: use one of {', '.join(Element)}")
        return Element(word)

    def shape(self) -> tuple[int, ...]:
        """A row shape in brackets."""
        self.expect("[")
        extents: list[int] = []
        while not self.accept("]"):
            if extents:
                self.expect(",")
            extents.append(self.integer())
        return tuple(extents)

    def end(self) -> End | None:
        """``[src]``, ``[dst]`` or ``[-]``; None where there is no bracket."""
        if not self.accept("["):
            return None
        end = End.NONE if self.accept("-") else self.named_end()
        self.expect("]")
        return end

    def named_end(self) -> End:
        """``src`` or ``dst``."""
        word = self.name("src or dst")
        if word not in set(End):
            raise self.error(f"{word!r} is no end of an edge: write src or dst")
        return End(word)
