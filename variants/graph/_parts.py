"""What a graph is made of: completed from what callers give, and checked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph._arrays import (
    IdArray,
    as_ids,
    check_count,
    check_edge_data,
    check_found,
    check_names,
    check_range,
    check_sorted,
    largest,
    own_int32,
)
from hetune.variants.graph._canonical import CanonicalEtype, as_triples


@dataclass(frozen=True, slots=True)
class Parts:
    """Arrays, counts and names of a graph with N nodes, E edges, R edge and T node types.

    Attributes:
        src: Source node of each edge, [E].
        dst: Destination node of each edge, [E].
        etype: Type of each edge, [E].
        ntype: Type of each node, [N].
        num_nodes: N.
        num_etypes: R.
        num_ntypes: T.
        ntype_names: T names.
        etype_names: R names.
        declared: R canonical edge types, where the caller gave them.
        node_names: Names of the nodes of each type that has any; None where none has.
        edge_data: Values of the edges by name, each of shape [E, ...].
    """

    src: torch.Tensor
    dst: torch.Tensor
    etype: torch.Tensor
    ntype: torch.Tensor
    num_nodes: int
    num_etypes: int
    num_ntypes: int
    ntype_names: tuple[str, ...]
    etype_names: tuple[str, ...]
    declared: tuple[CanonicalEtype, ...] | None
    node_names: Mapping[str, tuple[str, ...]] | None
    edge_data: Mapping[str, torch.Tensor]

    def owned(self, *, copy: bool) -> Self:
        """With contiguous int32 arrays; copies where asked."""
        arrays = (self.src, self.dst, self.etype, self.ntype)
        src, dst, etype, ntype = (own_int32(ids, copy=copy) for ids in arrays)
        return replace(self, src=src, dst=dst, etype=etype, ntype=ntype)

    def check(self) -> None:
        """Raise `GraphError` unless arrays and names fit together, and all ids are in range."""
        self._check_shapes()
        self._check_ids()
        self._check_node_names()

    def _check_shapes(self) -> None:
        edges = self.src.numel()
        for name, ids in (("dst", self.dst), ("etype", self.etype)):
            if ids.numel() != edges:
                raise GraphError(
                    f"{name} has {ids.numel()} entries but src has {edges}: give one per edge"
                )
        if self.ntype.numel() != self.num_nodes:
            raise GraphError(
                f"ntype has {self.ntype.numel()} entries but num_nodes is {self.num_nodes}: "
                "give one type per node"
            )
        for name, ids in (("dst", self.dst), ("etype", self.etype), ("ntype", self.ntype)):
            if ids.device != self.src.device:
                raise GraphError(
                    f"{name} is on {ids.device} but src is on {self.src.device}: "
                    f"move it with {name}.to({str(self.src.device)!r})"
                )
        check_names("ntype", self.ntype_names, self.num_ntypes)
        check_names("etype", self.etype_names, self.num_etypes)

    def _check_node_names(self) -> None:
        if self.node_names is None:
            return
        counts = torch.bincount(self.ntype, minlength=self.num_ntypes).tolist()
        nodes = dict(zip(self.ntype_names, counts, strict=True))
        for ntype, names in self.node_names.items():
            if ntype not in nodes:
                raise GraphError(
                    f"node_names has the node type {ntype!r}, which is not one of ntype_names "
                    f"{list(self.ntype_names)}: correct it"
                )
            if len(names) != nodes[ntype]:
                raise GraphError(
                    f"node_names[{ntype!r}] has {len(names)} names but there are {nodes[ntype]} "
                    "such nodes: give one name per node"
                )
            if len(set(names)) < len(names):
                raise GraphError(
                    f"node_names[{ntype!r}] holds {_repeated(names)!r} twice: names must be "
                    "distinct within a type"
                )

    def _check_ids(self) -> None:
        check_range("src", self.src, self.num_nodes, "nodes", "num_nodes")
        check_range("dst", self.dst, self.num_nodes, "nodes", "num_nodes")
        check_range("etype", self.etype, self.num_etypes, "edge types", "num_etypes")
        check_range("ntype", self.ntype, self.num_ntypes, "node types", "num_ntypes")
        check_sorted("ntype", self.ntype)


def _repeated(names: Sequence[str]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def complete(
    src: IdArray,
    dst: IdArray,
    etype: IdArray | None,
    ntype: IdArray | None,
    *,
    num_nodes: int | None,
    num_etypes: int | None,
    num_ntypes: int | None,
    ntype_names: Iterable[str] | None,
    etype_names: Iterable[str] | None,
    canonical_etypes: Iterable[Sequence[str]] | None,
    node_names: Mapping[str, Iterable[str]] | None,
    edge_data: Mapping[str, torch.Tensor] | None,
) -> Parts:
    """Tensors of what was given, and what was left out found from the rest.

    The arguments are those of `HeteroGraph`, whose rules this follows. Ids are not checked yet.

    Raises:
        GraphError: An array is no array of ids, or a count does not fit.
    """
    src, dst = as_ids("src", src), as_ids("dst", dst)
    etype = None if etype is None else as_ids("etype", etype)
    ntype = None if ntype is None else as_ids("ntype", ntype)
    ntype_names = None if ntype_names is None else tuple(map(str, ntype_names))
    etype_names = None if etype_names is None else tuple(map(str, etype_names))
    declared = None if canonical_etypes is None else as_triples(canonical_etypes)

    if num_nodes is None:
        by_ids = 1 + max(largest(src), largest(dst))
        num_nodes = by_ids if ntype is None else ntype.numel()
        if ntype is None:
            ends = src.numel() + dst.numel()
            check_found("nodes", num_nodes, ends, "number them from 0, or pass num_nodes")
    if num_etypes is None:
        known = etype_names if etype_names is not None else declared
        seen = 1 if etype is None else max(1, 1 + largest(etype))
        num_etypes = seen if known is None else len(known)
        if known is None and etype is not None:
            mend = "number them from 0, or pass num_etypes"
            check_found("edge types", num_etypes, etype.numel(), mend)
    if num_ntypes is None:
        seen = 1 if ntype is None else max(1, 1 + largest(ntype))
        num_ntypes = seen if ntype_names is None else len(ntype_names)
        if ntype_names is None and ntype is not None:
            mend = "number them from 0, or pass num_ntypes"
            check_found("node types", num_ntypes, ntype.numel(), mend)
    for name, count in (
        ("num_nodes", num_nodes),
        ("num_edges", src.numel()),
        ("num_etypes", num_etypes),
        ("num_ntypes", num_ntypes),
    ):
        check_count(name, count)
    if ntype_names is None:
        single = num_ntypes == 1
        ntype_names = ("node",) if single else tuple(str(t) for t in range(num_ntypes))
    if etype_names is None:
        etype_names = tuple(str(r) for r in range(num_etypes))
    if etype is None:
        etype = torch.zeros(src.numel(), dtype=torch.int32, device=src.device)
    if ntype is None:
        ntype = torch.zeros(num_nodes, dtype=torch.int32, device=src.device)
    counts = num_nodes, num_etypes, num_ntypes
    named, data = _node_names(node_names), dict(edge_data or {})
    check_edge_data(data, src.numel(), src.device)
    return Parts(src, dst, etype, ntype, *counts, ntype_names, etype_names, declared, named, data)


def _node_names(
    given: Mapping[str, Iterable[str]] | None,
) -> Mapping[str, tuple[str, ...]] | None:
    """Tuples, shared with whoever has them already; None where there are none."""
    if not given:
        return None
    return {
        str(ntype): names if isinstance(names, tuple) else tuple(map(str, names))
        for ntype, names in given.items()
    }
