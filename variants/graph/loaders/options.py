"""What the loaders can be told: the keyword arguments of `hetune.load`, by the kind of file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hetune.variants.graph.vocabulary import (
    Unknown,
    Vocabulary,
    VocabularyLike,
    vocabulary_of,
)

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
"""Endings that may follow those of text formats."""
ColumnsLike: TypeAlias = str | Mapping[str, str | int] | Sequence[str | None]
"""Roles of columns: see `TableOptions.columns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameOptions:
    """Of every file.

    Attributes:
        vocabulary: Whose order types and nodes are given: a `Vocabulary`, its file, a dictionary or
            a graph. Types that a file numbers have their numbers in it.
        like: A graph whose vocabulary that is.
        unknown: What becomes of names that the vocabulary lacks: "error", or "drop" for leaving
            them out, with a warning that counts the edges.
    """

    vocabulary: VocabularyLike | None = None
    like: VocabularyLike | None = None
    unknown: Unknown = "error"

    @property
    def known(self) -> Vocabulary | None:
        """The vocabulary that is to be followed.

        Raises:
            GraphError: It is none, or both are given.
        """
        return vocabulary_of(self.vocabulary, self.like)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions(NameOptions):
    """Of every file with an edge per row.

    Attributes:
        columns: What the columns are. Roles in the order of the columns, where None or "-" leaves
            a column out: `("src", "etype", "dst")`; or the name or position (from 0) of each
            role's column: `{"src": "from", "dst": 3}`. As text: "src,etype,dst", "src:from,dst:3".
            The roles are src, dst, etype, weight and time; weight and time are kept in
            `HeteroGraph.edge_data`, as float32 and as int64 (float64 where there are fractions).
        relabel: True numbers integers like labels, in order of first appearance; False insists on
            integers.
        num_nodes: N, where isolated nodes follow the largest id.
        num_etypes: R, where edge types without edges follow the largest one.
        bipartite: Names of a source and a destination node type whose ids are apart from each
            other; by default both columns name the same nodes.
        node_names: Whether labels are kept as `HeteroGraph.node_names`; ids are none.
    """

    columns: ColumnsLike | None = None
    relabel: bool | None = None
    num_nodes: int | None = None
    num_etypes: int | None = None
    bipartite: Sequence[str] | None = None
    node_names: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions(TableOptions):
    """Of text with an edge per line.

    Attributes:
        header: Whether the first line is no edge: names of columns, or a count.
        delimiter: What separates columns, one character; " " stands for any run of blanks and tabs.
        comment: Lines that begin with it are skipped.
    """

    header: bool | None = None
    delimiter: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFolderOptions(TextOptions):
    """Of a folder of triples.

    Attributes:
        split: Only the edges of "train", "valid" or "test"; all nodes and types stay.
    """

    split: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NpzOptions(NameOptions):
    """Of `.npz` archives.

    Attributes:
        split: Only the edges of "train", "valid" or "test"; all nodes and types stay.
        num_nodes: N, where isolated nodes follow the largest id and there is no array `ntype`.
        num_etypes: R, where there is no array `etype_names`.
    """

    split: str | None = None
    num_nodes: int | None = None
    num_etypes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RdfOptions(NameOptions):
    """Of RDF.

    Attributes:
        node_types: "kind": IRIs, blank nodes and literals are a node type each. "class": the first
            `rdf:type` stated of a term, else its kind. "single": one node type.
        literals: Whether triples whose object is a literal are kept.
        node_names: Whether terms are kept as `HeteroGraph.node_names`: IRIs as they are, blank
            nodes and literals as N-Triples writes them, without escapes.
    """

    node_types: str = "kind"
    literals: bool = True
    node_names: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NTriplesOptions(RdfOptions):
    """Of N-Triples.

    Attributes:
        on_error: "raise", or "skip": lines that are no triples are left out, with a warning that
            counts them and shows the first.
    """

    on_error: str = "raise"


class SkippedLinesWarning(UserWarning):
    """Lines of a file were left out because they could not be read."""


class ColumnsWarning(UserWarning):
    """Columns of a file may mean something else than they are taken for, or weights are not read.

    Nothing is said where `columns=` is given.
    """
