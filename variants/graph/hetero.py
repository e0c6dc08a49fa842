"""The graph that every part of hetune works on."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph import _derived
from hetune.variants.graph._arrays import IdArray, check_count, device_of
from hetune.variants.graph._canonical import (
    CanonicalEtype,
    check_declared,
    explain_split,
    name_triples,
)
from hetune.variants.graph._parts import complete
from hetune.variants.graph.saving import rebuilt, save
from hetune.variants.graph.state import GraphState
from hetune.variants.graph.vocabulary import Vocabulary
from hetune.variants.registry.openmp import survive_forks

__all__ = ["CanonicalEtype", "HeteroGraph"]


class HeteroGraph:
    """A directed graph with typed edges and nodes. Immutable.

    Node ids are global; nodes of one type are contiguous (type-major). Edges keep the order in
    which they were given. Duplicate edges, self loops, isolated nodes and relations without edges
    are ordinary. Pickled, it leaves behind what is derived from it; `torch.load` takes what
    `torch.save` wrote with `weights_only=True`.

    Args:
        src: Source node of each edge, shape [E]; int16, int32 or int64 tensor or NumPy array.
        dst: Destination node of each edge, shape [E].
        etype: Type of each edge, shape [E]; all 0 by default.
        ntype: Type of each node, shape [N], non-decreasing; all 0 by default.
        num_nodes: N; by default the length of `ntype`, else the largest id plus one.
        num_etypes: R; by default the count of names, else the largest type plus one.
        num_ntypes: T; by default the count of names, else the largest type plus one.
        ntype_names: T distinct names; by default "0", "1", ... ("node" for a single type).
        etype_names: R distinct names; by default "0", "1", ...
        canonical_etypes: R triples (source type, relation, destination type), where they are
            known; needed for relations without edges, otherwise derived from the edges.
        node_names: Names of the nodes of a type, in order, by the type's name; of as many types as
            have any.
        edge_data: Values of the edges by name, each of shape [E, ...]. No layer looks at them.
        validate: Check everything and copy the arrays. With False the caller vouches for both:
            int32 tensors are shared, ids are not looked at.

    Attributes:
        state: What others keep with the graph, such as its indexes.

    Raises:
        GraphError: Something does not fit; the message says what, where and how to mend it.
    """

    def __init__(
        self,
        src: IdArray,
        dst: IdArray,
        etype: IdArray | None = None,
        ntype: IdArray | None = None,
        *,
        num_nodes: int | None = None,
        num_etypes: int | None = None,
        num_ntypes: int | None = None,
        ntype_names: Iterable[str] | None = None,
        etype_names: Iterable[str] | None = None,
        canonical_etypes: Iterable[Sequence[str]] | None = None,
        node_names: Mapping[str, Iterable[str]] | None = None,
        edge_data: Mapping[str, torch.Tensor] | None = None,
        validate: bool = True,
    ) -> None:
        survive_forks()  # torch starts threads for what follows
        parts = complete(
            src,
            dst,
            etype,
            ntype,
            num_nodes=num_nodes,
            num_etypes=num_etypes,
            num_ntypes=num_ntypes,
            ntype_names=ntype_names,
            etype_names=etype_names,
            canonical_etypes=canonical_etypes,
            node_names=node_names,
            edge_data=edge_data,
        )
        if validate:
            parts.check()
        self._parts = parts.owned(copy=validate)
        self.state = GraphState()
        if validate:
            self._check_canonical()

    # The arrays and counts.

    @property
    def src(self) -> torch.Tensor:
        """Source node of each edge, int32 [E]."""
        return self._parts.src

    @property
    def dst(self) -> torch.Tensor:
        """Destination node of each edge, int32 [E]."""
        return self._parts.dst

    @property
    def etype(self) -> torch.Tensor:
        """Type of each edge, int32 [E]."""
        return self._parts.etype

    @property
    def ntype(self) -> torch.Tensor:
        """Type of each node, int32 [N], non-decreasing."""
        return self._parts.ntype

    @property
    def num_nodes(self) -> int:
        """N."""
        return self._parts.num_nodes

    @property
    def num_edges(self) -> int:
        """E."""
        return self._parts.src.numel()

    @property
    def num_etypes(self) -> int:
        """R, relations without edges included."""
        return self._parts.num_etypes

    @property
    def num_ntypes(self) -> int:
        """T, node types without nodes included."""
        return self._parts.num_ntypes

    @property
    def ntype_names(self) -> tuple[str, ...]:
        """T names."""
        return self._parts.ntype_names

    @property
    def etype_names(self) -> tuple[str, ...]:
        """R names."""
        return self._parts.etype_names

    @property
    def node_names(self) -> dict[str, tuple[str, ...]] | None:
        """Names of the nodes of each type that has any, by its name; None where none are kept."""
        return None if self._parts.node_names is None else dict(self._parts.node_names)

    @property
    def edge_data(self) -> Mapping[str, torch.Tensor]:
        """Values of the edges by name, [E, ...] in the order of the edges, such as "weight".

        They follow the edges to other devices, through `canonicalize` and `add_inverse` (whose
        edges have the values of those that they invert), files and pickling. `add_self_loops` and
        `edited` leave them out, for new edges have none. They are no part of the fingerprint.
        """
        return MappingProxyType(self._parts.edge_data)

    @property
    def device(self) -> torch.device:
        """Where the arrays are."""
        return self._parts.src.device

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
        found = torch.unique(_derived.type_keys(self)).tolist()
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
        if self._parts.declared is not None:
            return self._parts.declared
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
        triples = self._parts.declared
        if triples is None and [r for r, _, _ in self.type_pairs] == list(range(self.num_etypes)):
            triples = self.canonical_etypes
        kept = self.node_names if node_names else None
        return Vocabulary(self.ntype_names, self.etype_names, triples, kept)

    # Checks.

    def validate(self) -> None:
        """Check every rule that the class promises.

        Raises:
            GraphError: Names the array, the first offending position and value, and how to mend it.
        """
        self._parts.check()
        self._check_canonical()

    def _check_canonical(self) -> None:
        declared = self._parts.declared
        if declared is not None:
            check_declared(declared, self.type_pairs, self.num_etypes, self.ntype_names)

    # Derived graphs.

    def canonicalize(self) -> "HeteroGraph":
        """Split edge types so that each has one source and one destination type (DGL's rule).

        Edges keep their order. An edge type that splits gets the names "src|rel|dst"; one that
        does not keeps its name. New types are ordered by (old type, source type, destination type).
        """
        return self if self.is_canonical else self._with(_derived.split_by_ends(self))

    def add_inverse(self) -> "HeteroGraph":
        """Add the inverse of each edge, with a relation of its own: 2 E edges, 2 R types.

        The inverse of relation r is r + R and is named "inv_<name>"; edge e's inverse is e + E.
        """
        return self._with(_derived.with_inverse(self))

    def add_self_loops(self, name: str = "self") -> "HeteroGraph":
        """Add an edge from each node to itself, whatever loops there are already.

        The loops are a new relation called `name`; with several node types each gets a relation of
        its own, named "<name>_<node type>". They follow the other edges, in the order of the nodes.
        """
        return self._with(_derived.with_loops(self, name))

    @property
    def is_resolved(self) -> bool:
        """Whether `canonical_etypes` are known: given, or found from the edges."""
        return self._parts.declared is not None or self.is_canonical

    def _with(self, edges: _derived.EdgeColumns) -> "HeteroGraph":
        check_count("num_edges", edges.src.numel())
        columns = (edges.src, edges.dst, edges.etype, self.ntype)
        return HeteroGraph(*columns, **self._description() | edges.description())

    def to(self, device: str | torch.device) -> "HeteroGraph":
        """The same graph with its arrays on another device; itself where they are there already.

        Raises:
            GraphError: There is no such device, or it is not here.
        """
        target = device_of(device)
        if target == self.device:
            return self
        data = {name: values.to(target) for name, values in self.edge_data.items()}
        arrays = (ids.to(target) for ids in self._arrays)
        moved = HeteroGraph(*arrays, **self._description() | {"edge_data": data})
        for name in ("node_offsets", "type_pairs", "fingerprint"):
            if name in self.__dict__:
                moved.__dict__[name] = self.__dict__[name]
        return moved

    @property
    def _arrays(self) -> tuple[torch.Tensor, ...]:
        return self.src, self.dst, self.etype, self.ntype

    def _description(self) -> dict[str, Any]:
        """What makes the same graph of its arrays."""
        return {
            "num_nodes": self.num_nodes,
            "num_etypes": self.num_etypes,
            "num_ntypes": self.num_ntypes,
            "ntype_names": self.ntype_names,
            "etype_names": self.etype_names,
            "canonical_etypes": self._parts.declared,
            "node_names": self.node_names,
            "edge_data": self._parts.edge_data,
            "validate": False,
        }

    # Identity and derived objects.

    @cached_property
    def fingerprint(self) -> str:
        """Content hash in hex, the same in every process and on every machine.

        Over counts, names of types and the arrays, in the order of the edges; neither the device
        nor names of nodes matter.
        """
        digest = hashlib.blake2b(digest_size=16)
        triples = self.canonical_etypes if self.is_resolved else None
        header = [self.num_nodes, self.num_edges, self.ntype_names, self.etype_names, triples]
        digest.update(json.dumps(["HeteroGraph/1", *header]).encode())
        for ids in self._arrays:
            digest.update(ids.cpu().numpy().astype("<i4", copy=False).data)
        return digest.hexdigest()

    def unindexed(self) -> "HeteroGraph":
        """The same graph, and nothing that is kept with it."""
        return HeteroGraph(*self._arrays, **self._description())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> Any:
        return rebuilt, (*self._arrays, {**self._description(), "validate": True})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the `.npz` that `hetune.load` reads back.

        Raises:
            GraphFileError: The path does not end in ".npz", or cannot be written.
        """
        save(self, path)

    def __repr__(self) -> str:
        where = "" if self.device.type == "cpu" else f", device={str(self.device)!r}"
        return (
            f"HeteroGraph(num_nodes={self.num_nodes}, num_edges={self.num_edges}, "
            f"num_ntypes={self.num_ntypes}, num_etypes={self.num_etypes}{where})"
        )
