"""Graphs of triples whose terms are numbered: what N-Triples and Turtle share."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders.options import RdfOptions

RDF_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
NODE_TYPES = ("kind", "class", "single")
_KINDS = {"<": "iri", "_": "blank", '"': "literal"}


@dataclass(frozen=True, slots=True)
class Triples:
    """Triples of numbered terms.

    Attributes:
        rows: Subject, predicate, object, int64 [n, 3]; subjects and objects are places in `terms`,
            predicates in `predicates`.
        terms: Distinct terms as N-Triples writes them, in order of first appearance.
        predicates: Distinct predicates, in order of first appearance.
    """

    rows: np.ndarray
    terms: Sequence[str]
    predicates: Sequence[str]

    def graph(self, path: Path, options: RdfOptions) -> HeteroGraph:
        """The graph: a repeated triple counts once; nodes are sorted by type.

        Raises:
            GraphFileError: There is no triple, or no such option.
        """
        if options.node_types not in NODE_TYPES:
            raise GraphFileError(
                f"node_types is {options.node_types!r}: one of {', '.join(NODE_TYPES)}"
            )
        if not len(self.rows):
            raise GraphFileError(f"{path} holds no triple: check that it is the right file")
        rows = _distinct(self.rows)
        types, names = self._types(options.node_types)
        order = np.argsort(types, kind="stable")
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        return HeteroGraph(
            number[rows[:, 0]],
            number[rows[:, 2]],
            rows[:, 1],
            types[order],
            ntype_names=names,
            etype_names=[iri.strip("<>") for iri in self.predicates],
            node_names=self._names(order, types, names) if _wants_names(options) else None,
        )

    def _names(
        self, order: np.ndarray, types: np.ndarray, ntypes: Sequence[str]
    ) -> dict[str, tuple[str, ...]]:
        bounds = np.searchsorted(types[order], np.arange(len(ntypes) + 1)).tolist()
        return {
            name: tuple(
                self.terms[i].strip("<>") if self.terms[i][0] == "<" else self.terms[i]
                for i in order[first:end].tolist()
            )
            for name, first, end in zip(ntypes, bounds, bounds[1:], strict=False)
        }

    def _types(self, node_types: str) -> tuple[np.ndarray, list[str]]:
        """The node type of each term, int64, and the types' names in order of first appearance."""
        if node_types == "single":
            return np.zeros(len(self.terms), np.int64), ["term"]
        kinds = [_KINDS[term[0]] for term in self.terms]
        if node_types == "class" and RDF_TYPE in self.predicates:
            is_type = self.rows[:, 1] == self.predicates.index(RDF_TYPE)
            stated = self.rows[is_type]
            _, first = np.unique(stated[:, 0], return_index=True)
            for subject, _, class_of in stated[first]:
                kinds[subject] = self.terms[class_of].strip("<>")
        encoded = pc.dictionary_encode(pa.array(kinds))
        return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _wants_names(options: RdfOptions) -> bool:
    return options.node_names or (options.known is not None and bool(options.known.node_names))


def _distinct(rows: np.ndarray) -> np.ndarray:
    """The rows without repeats, in order of first appearance."""
    order = np.lexsort(rows.T)
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = np.any(rows[order[1:]] != rows[order[:-1]], axis=1)
    return rows[np.sort(order[is_new])]
