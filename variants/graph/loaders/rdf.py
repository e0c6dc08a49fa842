"""RDF: N-Triples and Turtle, through rdflib."""

import gzip
import io
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hetune.variants.errors import GraphFileError
from hetune.variants.graph._extras import require
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders._reading import check_file, is_gzip, reading

_RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
NODE_TYPES = ("kind", "class", "single")


def load_ntriples(path: Path, *, node_types: str = "kind", literals: bool = True) -> HeteroGraph:
    """Read N-Triples (`.nt`, `.nt.gz`) as a stream: every distinct term is a node.

    Predicates are edge types in order of first appearance; a repeated triple counts once. Nodes are
    in order of first appearance within their type.

    Args:
        path: The file; gzip is recognized by its content.
        node_types: "kind": IRIs, blank nodes and literals are a node type each. "class": the first
            `rdf:type` stated of a term, else its kind. "single": one node type.
        literals: Whether triples whose object is a literal are kept.

    Raises:
        GraphFileError: A line is no triple (named by its number), or the file is cut short.
        GraphError: rdflib is not installed.
    """
    check_file(path)
    ntriples = require("rdflib.plugins.parsers.ntriples", "rdf", "reading RDF")
    rows = _Rows(literals)
    line = 0

    def read_line(parser: Any) -> Any:
        nonlocal line
        line += 1
        return ntriples.W3CNTriplesParser.readline(parser)

    # rdflib's parser does not say in which line it stopped.
    counting = type("_CountingParser", (ntriples.W3CNTriplesParser,), {"readline": read_line})
    parser = counting(rows)
    with reading(path, "an N-Triples file"), _open(path) as file:
        try:
            # Newlines become "\n" here: rdflib counts a CR LF between two buffers as two.
            parser.parse(io.TextIOWrapper(file, encoding="utf-8-sig"))
        except ntriples.ParseError as error:
            reason = " ".join(str(error).split())[:200]
            raise GraphFileError(
                f"{path}, line {line}: not a triple ({reason}); correct or remove the line, "
                "or fetch the file again if it is cut short"
            ) from error
        return rows.graph(path, node_types)


def load_turtle(path: Path, *, node_types: str = "kind", literals: bool = True) -> HeteroGraph:
    """Read Turtle (`.ttl`); the same graph and options as `load_ntriples`.

    The file is held in memory while it is parsed.

    Raises:
        GraphFileError: The syntax is wrong; rdflib's message names the line.
        GraphError: rdflib is not installed.
    """
    check_file(path)
    rdflib = require("rdflib", "rdf", "reading RDF")
    notation3 = require("rdflib.plugins.parsers.notation3", "rdf", "reading RDF")
    rows = _Rows(literals)

    def add(store: Any, triple: tuple[Any, Any, Any], *_: Any, **__: Any) -> None:
        rows.triple(*triple)

    # rdflib's own store yields triples in another order in each process.
    recording = type("_RecordingStore", (rdflib.store.Store,), {"add": add})
    with reading(path, "a Turtle file"), _open(path) as file:
        graph = rdflib.Graph(store=recording(), bind_namespaces="none")
        try:
            graph.parse(file, format="turtle", publicID=path.resolve().as_uri())
        except notation3.BadSyntax as error:
            reason = " ".join(str(error).split())[:300]
            raise GraphFileError(f"{path} is no Turtle: {reason}; correct it there") from error
        return rows.graph(path, node_types)


def _open(path: Path) -> io.BufferedReader:
    return io.BufferedReader(gzip.open(path, "rb")) if is_gzip(path) else path.open("rb")


class _Rows:
    """Collects triples as numbers; the sink of rdflib's parsers."""

    def __init__(self, literals: bool) -> None:
        self._literals = literals
        self._terms: dict[Any, int] = {}
        self._predicates: dict[str, int] = {}
        self._flat = array("i")  # subject, object, predicate, ...
        self._class_of: dict[int, str] = {}

    def triple(self, subject: Any, predicate: Any, obj: Any) -> None:
        if not self._literals and _kind(obj) == "literal":
            return
        terms = self._terms
        s = terms.setdefault(subject, len(terms))
        o = terms.setdefault(obj, len(terms))
        p = self._predicates.setdefault(str(predicate), len(self._predicates))
        self._flat.extend((s, o, p))
        if str(predicate) == _RDF_TYPE:
            self._class_of.setdefault(s, str(obj))

    def graph(self, path: Path, node_types: str) -> HeteroGraph:
        if node_types not in NODE_TYPES:
            raise GraphFileError(f"node_types is {node_types!r}: one of {', '.join(NODE_TYPES)}")
        if not self._flat:
            raise GraphFileError(f"{path} holds no triple: check that it is the right file")
        rows = _distinct(np.frombuffer(self._flat, dtype=np.intc).reshape(-1, 3))
        names: dict[str, int] = {}
        types = np.fromiter(
            (names.setdefault(name, len(names)) for name in self._types(node_types)),
            dtype=np.int64,
            count=len(self._terms),
        )
        order = np.argsort(types, kind="stable")
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        return HeteroGraph(
            number[rows[:, 0]],
            number[rows[:, 1]],
            rows[:, 2],
            types[order],
            ntype_names=names,
            etype_names=self._predicates,
        )

    def _types(self, node_types: str) -> Iterator[str] | Iterable[str]:
        if node_types == "single":
            return ("term" for _ in self._terms)
        kinds = (_kind(term) for term in self._terms)
        if node_types == "kind":
            return kinds
        return (self._class_of.get(i, kind) for i, kind in enumerate(kinds))


def _distinct(rows: np.ndarray) -> np.ndarray:
    """The rows without repeats, in order of first appearance."""
    order = np.lexsort(rows.T)
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = np.any(rows[order[1:]] != rows[order[:-1]], axis=1)
    return rows[np.sort(order[is_new])]


def _kind(term: Any) -> str:
    return {"Literal": "literal", "BNode": "blank"}.get(type(term).__name__, "iri")
