"""The graph that every part of hetune works on."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

import torch

from hetune.variants.graph import _derived
from hetune.variants.graph._arrays import (
    IdArray,
    as_ids,
    check_count,
    check_edge_data,
    check_found,
    contiguous_int32,
    device_of,
    largest,
    numbered,
)
from hetune.variants.graph._canonical import CanonicalEtype, as_triples, check_declared
from hetune.variants.graph._checks import checked_columns
from hetune.variants.graph.saving import save
from hetune.variants.graph.state import GraphState
from hetune.variants.graph.typed_edges import TypedEdges
from hetune.variants.registry.openmp import survive_forks

__all__ = ["CanonicalEtype", "HeteroGraph"]


class HeteroGraph(TypedEdges):
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
        src, dst = as_ids("src", src), as_ids("dst", dst)
        etype = None if etype is None else as_ids("etype", etype)
        ntype = None if ntype is None else as_ids("ntype", ntype)
        ntype_names = None if ntype_names is None else tuple(map(str, ntype_names))
        etype_names = None if etype_names is None else tuple(map(str, etype_names))
        declared = None if canonical_etypes is None else as_triples(canonical_etypes)
        data = dict(edge_data or {})
        made = frozenset(n for n, ids in (("etype", etype), ("ntype", ntype)) if ids is None)
        if ntype is None:
            if num_nodes is None:
                num_nodes = 1 + max(largest(src), largest(dst))
                mend = "number them from 0, or pass num_nodes"
                check_found("nodes", num_nodes, src.numel() + dst.numel(), mend)
            check_count("num_nodes", num_nodes)
            ntype = torch.zeros(1, dtype=torch.int32, device=src.device).expand(num_nodes)
            num_ntypes = _count("ntype", num_ntypes, None, ntype_names)
        else:
            num_ntypes = _count("ntype", num_ntypes, ntype, ntype_names)
        check_count("num_edges", src.numel())
        num_etypes = _count(
            "etype", num_etypes, etype, declared if etype_names is None else etype_names
        )
        if etype is None:
            etype = torch.zeros(src.numel(), dtype=torch.int32, device=src.device)
        if ntype_names is None:
            ntype_names = ("node",) if num_ntypes == 1 else numbered(num_ntypes)
        if etype_names is None:
            etype_names = numbered(num_etypes)
        check_edge_data(data, src.numel(), src.device)
        counts, names = (num_etypes, num_ntypes), (ntype_names, etype_names)
        others = *counts, *names, declared, _tuples(node_names), MappingProxyType(data)
        if validate:
            given = TypedEdges(src, dst, etype, ntype, *others)
            src, dst, etype, ntype = checked_columns(given, num_nodes, made)
        else:
            src, dst, etype = (contiguous_int32(ids) for ids in (src, dst, etype))
            ntype = ntype if "ntype" in made else contiguous_int32(ntype)
        super().__init__(src, dst, etype, ntype, *others)
        self.state = GraphState()
        if validate:
            self._check_canonical()

    # Checks.

    def validate(self) -> None:
        """Check every rule that the class promises.

        Raises:
            GraphError: Names the array, the first offending position and value, and how to mend it.
        """
        checked_columns(self, self.num_nodes)
        self._check_canonical()

    def _check_canonical(self) -> None:
        triples = self.declared_etypes
        if triples is not None:
            check_declared(triples, self.type_pairs, self.num_etypes, self.ntype_names)

    # Derived graphs.

    def canonicalize(self) -> "HeteroGraph":
        """Split edge types so that each has one source and one destination type (DGL's rule).

        Edges keep their order. An edge type that splits gets the names "src|rel|dst"; one that
        does not keeps its name. New types are ordered by (old type, source type, destination type).
        """
        return self if self.is_canonical else self.with_columns(**_derived.split_by_ends(self))

    def add_inverse(self) -> "HeteroGraph":
        """Add the inverse of each edge, with a relation of its own: 2 E edges, 2 R types.

        The inverse of relation r is r + R and is named "inv_<name>"; edge e's inverse is e + E.
        """
        return self.with_columns(**_derived.with_inverse(self))

    def add_self_loops(self, name: str = "self") -> "HeteroGraph":
        """Add an edge from each node to itself, whatever loops there are already.

        The loops are a new relation called `name`; with several node types each gets a relation of
        its own, named "<name>_<node type>". They follow the other edges, in the order of the nodes.
        """
        return self.with_columns(**_derived.with_loops(self, name))

    def with_columns(
        self,
        src: IdArray,
        dst: IdArray,
        etype: IdArray,
        ntype: IdArray | None = None,
        **others: Any,
    ) -> "HeteroGraph":
        """A graph with the types of this one and other edges, which are not checked.

        Declared edge types stay, and names of nodes where the nodes do; edge data does not.

        Args:
            src: As of the class; so are the next three.
            dst: Destinations.
            etype: Types.
            ntype: By default the nodes are those of this graph.
            others: Further keyword arguments of the class, in place of what this graph has.
        """
        options: dict[str, Any] = {"edge_data": None}
        if ntype is not None:
            options["node_names"] = None
        nodes = self.ntype if ntype is None else ntype
        return HeteroGraph(src, dst, etype, nodes, **self._description() | options | others)

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

    def _description(self) -> dict[str, Any]:
        """What makes the same graph of its arrays."""
        return {
            "num_etypes": self.num_etypes,
            "num_ntypes": self.num_ntypes,
            "ntype_names": self.ntype_names,
            "etype_names": self.etype_names,
            "canonical_etypes": self.declared_etypes,
            "node_names": None if self.node_names is None else dict(self.node_names),
            "edge_data": dict(self.edge_data),
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
            digest.update(ids.cpu().contiguous().numpy().astype("<i4", copy=False).data)
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


def rebuilt(
    src: torch.Tensor, dst: torch.Tensor, etype: torch.Tensor, ntype: torch.Tensor, options: Any
) -> HeteroGraph:
    """A graph that was pickled, checked, for files come from anywhere.

    Raises:
        GraphError: It is none.
    """
    return HeteroGraph(src, dst, etype, ntype, **options)


def _count(
    kind: str, given: int | None, ids: torch.Tensor | None, names: Sequence[object] | None
) -> int:
    """How many types there are: as given, as there are names, else by the largest id."""
    if given is None and names is not None:
        given = len(names)
    if given is None:
        given = 1 if ids is None else max(1, 1 + largest(ids))
        if ids is not None:
            mend = f"number them from 0, or pass num_{kind}s"
            what = {"etype": "edge types", "ntype": "node types"}[kind]
            check_found(what, given, ids.numel(), mend)
    check_count(f"num_{kind}s", given)
    return given


def _tuples(given: Mapping[str, Iterable[str]] | None) -> Mapping[str, tuple[str, ...]] | None:
    """Names of nodes as tuples, shared with whoever has them already; None where there are none."""
    if not given:
        return None
    return MappingProxyType(
        {
            str(ntype): names if isinstance(names, tuple) else tuple(map(str, names))
            for ntype, names in given.items()
        }
    )


torch.serialization.add_safe_globals([rebuilt])
