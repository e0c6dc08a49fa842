"""Makers that start from a graph that is there: files, published shapes, parts of others."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from hetune.profiling.corpus.options import option, share
from hetune.variants.errors import SourceError
from hetune.variants.graph.generate import generate
from hetune.variants.graph.generate_specs import SPECS
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders import load


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGraph:
    """A graph of the user's, by path.

    Attributes:
        path: What `hetune.load` reads.
        format: The ending to read it by; "" for its own.
        inverse: Add to each edge its inverse, of a relation of its own.
        self_loops: Add an edge from each node to itself.
        canonical: Split edge types that join several pairs of node types, as HGT needs it.
        digest: `digest_of` the path; if given, the file must still hold the same.
    """

    path: str = option()
    format: str = option("")
    inverse: bool = option(False)
    self_loops: bool = option(False)
    canonical: bool = option(False)
    digest: str = option("")

    def size(self) -> tuple[int, int]:
        """Nodes and edges, by reading the file."""
        graph = self.make()
        return graph.num_nodes, graph.num_edges

    def make(self) -> HeteroGraph:
        """The graph.

        Raises:
            SourceError: The file is not there, or has changed since its digest was taken.
            GraphError: It cannot be read as a graph.
        """
        if self.digest and digest_of(Path(self.path)) != self.digest:
            raise SourceError(
                f"{self.path} has changed since the campaign was read: put back what it was, or "
                "start the campaign anew"
            )
        graph = load(self.path, format=self.format or None)
        if self.canonical:
            graph = graph.canonicalize()
        if self.inverse:
            graph = graph.add_inverse()
        return graph.add_self_loops() if self.self_loops else graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A graph drawn with the counts of a published one (`hetune.generate`).

    Attributes:
        graph: Its name: "aifb", "am", "bgs", "biokg", "fb15k", "mag", "mutag" or "wikikg2".
        scale: Factor on nodes and edges.
        seed: Where chance starts.
        inverse: Add to each edge its inverse; several of these graphs hold them already.
    """

    graph: str = option(choices=tuple(sorted(SPECS)))
    scale: float = option(1.0, low=1e-9, high=1e3)
    seed: int = option(0, low=0)
    inverse: bool = option(False)

    def size(self) -> tuple[int, int]:
        """Nodes and edges, nearly."""
        spec = SPECS[self.graph]
        nodes = sum(max(1, round(count * self.scale)) for _, count in spec.ntypes)
        return nodes, round(spec.edges * self.scale) << self.inverse

    def make(self) -> HeteroGraph:
        """The graph."""
        graph = generate(self.graph, self.scale, self.seed)
        return graph.add_inverse() if self.inverse else graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """How much of another graph a subsample keeps; see `hetune.variants.graph.subsample`.

    Attributes:
        of: The kind of the other graph; its options follow as "of.nodes" and so on.
        nodes: Share of the nodes.
        edges: Share of the edges between those.
        seed: Where chance starts.
    """

    of: str = option()
    nodes: float = share(1.0)
    edges: float = share(1.0)
    seed: int = option(0, low=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """What a reversed graph is made of.

    Attributes:
        of: The kind of the other graph; its options follow as "of.nodes" and so on.
    """

    of: str = option()


def digest_of(path: Path) -> str:
    """Digest of a file's bytes, or of all names and bytes in a folder, in hex.

    Raises:
        SourceError: It cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        if not path.is_dir():
            with path.open("rb") as file:
                return hashlib.file_digest(file, lambda: digest).hexdigest()
        for member in sorted(p for p in path.rglob("*") if p.is_file()):
            with member.open("rb") as file:
                digest.update(member.relative_to(path).as_posix().encode() + b"\0")
                digest.update(hashlib.file_digest(file, "blake2b").digest())
        return digest.hexdigest()
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error}): check the path") from error
