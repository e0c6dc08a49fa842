"""The graph that every part of hetune works on."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import torch

from hetune.variants.graph import _derived
from hetune.variants.graph._arrays import IdArray, check_count, device_of
from hetune.variants.graph._canonical import (
    CanonicalEtype,
    check_declared,
)
from hetune.variants.graph._parts import complete
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
        super().__init__(parts.owned(copy=validate))
        self.state = GraphState()
        if validate:
            self._check_canonical()

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


def rebuilt(
    src: torch.Tensor, dst: torch.Tensor, etype: torch.Tensor, ntype: torch.Tensor, options: Any
) -> HeteroGraph:
    """A graph that was pickled, checked, for files come from anywhere.

    Raises:
        GraphError: It is none.
    """
    return HeteroGraph(src, dst, etype, ntype, **options)


torch.serialization.add_safe_globals([rebuilt])
