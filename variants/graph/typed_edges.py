"""What a typed graph consists of: columns of edges and nodes, and the names of their types."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph._canonical import CanonicalEtype, explain_split, name_triples
from hetune.variants.graph.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class TypedEdges:
    """Columns, counts and names of a graph, for `HeteroGraph`, which derives others from them.

    Attributes:
        src: Source node of each edge, int32 [E].
        dst: Destination node of each edge, int32 [E].
        etype: Type of each edge, int32 [E].
        ntype: Type of each node, int32 [N], non-decreasing; all may share one place in memory.
        num_etypes: R, relations without edges included.
        num_ntypes: T, node types without nodes included.
        ntype_names: T names.
        etype_names: R names.
        declared_etypes: R canonical edge types, where they were given.
        node_names: Names of the nodes of each type that has any, by its name; None where none are
            kept.
        edge_data: Values of the edges by name, [E, ...] in the order of the edges, such as
            "weight". They follow the edges to other devices, through `canonicalize` and
            `add_inverse` (whose edges have the values of those that they invert), files and
            pickling. `add_self_loops` and `edited` leave them out, for new edges have none. They
            are no part of the fingerprint.
    """

    src: torch.Tensor
    dst: torch.Tensor
    etype: torch.Tensor
    ntype: torch.Tensor
    num_etypes: int
    num_ntypes: int
    ntype_names: tuple[str, ...]
    etype_names: tuple[str, ...]
    declared_etypes: tuple[CanonicalEtype, ...] | None
    node_names: Mapping[str, tuple[str, ...]] | None
    edge_data: Mapping[str, torch.Tensor]

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.ntype.numel()

    @property
    def num_sources(self) -> int:
        """How many nodes edges may come from: N, but of a `BipartiteGraph`."""
        return self.num_nodes

    @property
    def num_targets(self) -> int:
        """How many nodes edges may lead to: likewise."""
        return self.num_nodes

    @property
    def num_edges(self) -> int:
        """E."""
        return self.src.numel()

    @property
    def device(self) -> torch.device:
        """Where the arrays are."""
        return self.src.device

    @cached_property
    def node_offsets(self) -> tuple[int, ...]:
        """First global id of each node type, and N: length T + 1."""
        counts = torch.bincount(self.ntype, minlength=self.num_ntypes)
        return (0, *counts.cumsum(0).tolist())

    # Canonical edge types.

    @cached_property
    def type_pairs(self) -> tuple[tuple[int, int, int], ...]:
        """The (etype, source ntype, destination ntype) that edges have, each once, sorted."""
        if self.num_ntypes == 1:
            used = torch.bincount(self.etype, minlength=self.num_etypes).nonzero().flatten()
            return tuple((r, 0, 0) for r in used.tolist())
        types = self.num_ntypes
        found = torch.unique(self.type_keys()).tolist()
        return tuple((k // types**2, k // types % types, k % types) for k in found)

    @property
    def is_canonical(self) -> bool:
        """Whether each edge type has one source and one destination node type."""
        return len({r for r, _, _ in self.type_pairs}) == len(self.type_pairs)

    @cached_property
    def canonical_etypes(self) -> tuple[CanonicalEtype, ...]:
        """(source type, relation, destination type) of each edge type, length R.

        The relation of an edge type named "src|rel|dst" after its own node types is "rel". A
        relation without edges, for which none was given, joins the first node type to itself.

        Raises:
            GraphError: An edge type joins several pairs of node types.
        """
        if self.declared_etypes is not None:
            return self.declared_etypes
        if not self.is_canonical:
            raise GraphError(explain_split(self.type_pairs, self.etype_names, self.ntype_names))
        ends = {r: (s, d) for r, s, d in self.type_pairs}
        entries = [(r, ends.get(r)) for r in range(self.num_etypes)]
        return name_triples(entries, self.etype_names, self.ntype_names)

    @cached_property
    def etype_src_ntype(self) -> torch.Tensor:
        """Source node type of each edge type, int32 [R]. Needs a canonical graph."""
        return self._end_types(0)

    @cached_property
    def etype_dst_ntype(self) -> torch.Tensor:
        """Destination node type of each edge type, int32 [R]. Needs a canonical graph."""
        return self._end_types(2)

    def _end_types(self, side: int) -> torch.Tensor:
        ids = {name: t for t, name in enumerate(self.ntype_names)}
        ends = [ids[triple[side]] for triple in self.canonical_etypes]
        return torch.tensor(ends, dtype=torch.int32, device=self.device)

    def metadata(self) -> tuple[list[str], list[CanonicalEtype]]:
        """Node types and canonical edge types, as PyG's `HeteroData.metadata()` gives them."""
        return list(self.ntype_names), list(self.canonical_etypes)

    def vocabulary(self, *, node_names: bool = True) -> Vocabulary:
        """The names of types and, where they are kept and wanted, of nodes, in their order."""
        triples = self.declared_etypes
        if triples is None and [r for r, _, _ in self.type_pairs] == list(range(self.num_etypes)):
            triples = self.canonical_etypes
        kept = self.node_names if node_names else None
        return Vocabulary(self.ntype_names, self.etype_names, triples, kept)

    @property
    def is_resolved(self) -> bool:
        """Whether `canonical_etypes` are known: given, or found from the edges."""
        return self.declared_etypes is not None or self.is_canonical

    @property
    def _arrays(self) -> tuple[torch.Tensor, ...]:
        return self.src, self.dst, self.etype, self.ntype

    def type_keys(self) -> torch.Tensor:
        """(etype, source ntype, destination ntype) of each edge as one number, int64 [E]."""
        key = self.etype.long()
        for ends in (self.src, self.dst):
            key = key.mul_(self.num_ntypes).add_(self.ntype[ends])
        return key
