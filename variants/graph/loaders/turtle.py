"""Turtle, through rdflib."""

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hetune.variants.errors import GraphError, GraphFileError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders.compressed import contents
from hetune.variants.graph.loaders.file_errors import reason_of
from hetune.variants.graph.loaders.options import RdfOptions
from hetune.variants.graph.loaders.rdf_triples import Triples
from hetune.variants.graph.optional_packages import require

_XSD = "http://www.w3.org/2001/XMLSchema#"
_NUMBERS = {"exponent_syntax": "double", "decimal_syntax": "decimal", "integer_syntax": "integer"}
"""Expressions of rdflib's parser in its order, and the datatypes of what they match."""


def load_turtle(path: Path, options: RdfOptions) -> HeteroGraph:
    """Read Turtle (`.ttl`, also compressed); the same graph and options as `load_ntriples`.

    The file is held in memory while it is parsed.

    Raises:
        GraphFileError: The syntax is wrong; rdflib's message names the line.
        GraphError: rdflib is not installed.
    """
    notation3 = require("rdflib.plugins.parsers.notation3", "rdf", "reading RDF")
    rows = _Rows(options.literals)
    text = contents(path).decode()
    parser = _parser(notation3, rows, path.resolve().as_uri())
    try:
        parser.loadBuf(text)
    except notation3.BadSyntax as error:
        raise GraphFileError(
            f"{path} is no Turtle: {reason_of(error)}; correct it there"
        ) from error
    except (IndexError, TypeError, AttributeError) as error:  # at the end of the text
        raise GraphFileError(
            f"{path} is no Turtle: it ends within a statement, or near line "
            f"{parser.lines + 1} something is wrong; correct it there, or fetch it again"
        ) from error
    return rows.triples().graph(path, options)


class _Iri(str):
    """An IRI of rdflib's parser."""


class _Blank(str):
    """A blank node of rdflib's parser."""


@dataclass(frozen=True, slots=True)
class _Literal:
    """A literal as it is written; rdflib's own class turns it into its value, and back."""

    text: str
    datatype: str | None = None
    language: str | None = None


def _parser(notation3: Any, rows: "_Rows", base: str) -> Any:
    """The parser of rdflib with a sink that keeps terms as they are written."""

    class Sink(notation3.RDFSink):  # type: ignore[misc]
        def newSymbol(self, *args: str) -> _Iri:  # noqa: N802
            return _Iri(args[0])

        def newBlankNode(self, *_: Any, **__: Any) -> _Blank:  # noqa: N802
            self.counter += 1
            return _Blank(self.counter)

        def newLiteral(  # noqa: N802
            self, s: str, dt: str | None = None, lang: str | None = None
        ) -> _Literal:
            return _Literal(s, dt, lang)

        def makeStatement(self, quadruple: Any, why: Any = None) -> None:  # noqa: N802
            _, predicate, subject, obj = quadruple
            rows.add(_term(subject), _term(predicate), _term(obj))

    class Parser(notation3.SinkParser):  # type: ignore[misc]
        def nodeOrLiteral(self, argstr: str, i: int, res: Any) -> int:  # noqa: N802
            at: int = self.skipSpace(argstr, i)
            if at < 0:
                return at
            for expression, kind in _NUMBERS.items():
                match = getattr(notation3, expression).match(argstr, at)
                if match:
                    res.append(_Literal(match[0], _XSD + kind))
                    return int(match.end())
            return int(super().nodeOrLiteral(argstr, at, res))

    return Parser(Sink(None), baseURI=base, turtle=True)


def _term(found: object) -> str:
    """A term of the parser as N-Triples writes it, without escapes."""
    match found:
        case _Literal(text, None, str() as language):
            return f'"{text}"@{language.lower()}'
        case _Literal(text, datatype, _) if datatype in (None, _XSD + "string"):  # as RDF 1.1 says
            return f'"{text}"'
        case _Literal(text, datatype, _):
            return f'"{text}"^^<{datatype}>'
        case bool():
            return f'"{str(found).lower()}"^^<{_XSD}boolean>'
        case _Blank():
            return f"_:{found}"
        case str():
            return f"<{found}>"
        case (_, str() as iri):  # the parser's own, such as rdf:type for "a"
            return f"<{iri}>"
    raise GraphError(f"there is a {type(found).__name__}, which RDF does not have")


class _Rows:
    """Collects triples as numbers."""

    def __init__(self, literals: bool) -> None:
        self._literals = literals
        self._terms: dict[str, int] = {}
        self._predicates: dict[str, int] = {}
        self._flat = array("q")

    def add(self, subject: str, predicate: str, obj: str) -> None:
        """Another triple."""
        if not self._literals and obj[0] == '"':
            return
        terms, predicates = self._terms, self._predicates
        s = terms.setdefault(subject, len(terms))
        o = terms.setdefault(obj, len(terms))
        self._flat.extend((s, predicates.setdefault(predicate, len(predicates)), o))

    def triples(self) -> Triples:
        """All of them."""
        rows = np.frombuffer(self._flat, dtype=np.int64).reshape(-1, 3)
        terms, predicates = list(self._terms), list(self._predicates)
        pa.array(terms + predicates)  # escapes may stand for what is no character
        return Triples(rows, terms, predicates)
