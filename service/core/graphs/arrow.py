"""Graphs as Arrow record batches: an edge a row, and what is no edge in the schema's metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from hetune.service.core.formats.documents import Count, parse
from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.graphs.document import GraphHeader, graph_of
from hetune.variants.errors import GraphError, MalformedError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders.columns import advice_by_names, columns_of
from hetune.variants.graph.loaders.options import ColumnsLike

DOCUMENT = b"document"
"""The key of the schema's metadata that holds an `ArrowHeader`."""
_ENDS = ("src", "dst")
_ETYPE = "etype"
_SMALL = 4
_SHOWN, _SHOWN_CHARACTERS = 8, 200
_MOST = 2**63 - 1


class ArrowHeader(GraphHeader):
    """A graph without its edges.

    Attributes:
        nodes: How many nodes there are of each type, in the types' order; in place of num_nodes,
            num_ntypes and ntype_names.
        columns: What the columns are, as `hetune.load` takes it: "src:from,dst:to". Others are left
            out; by default they are called src, dst and etype, and there are no others.
    """

    nodes: dict[str, Count] | None = None
    columns: dict[str, str | int] | str | None = None


def graph_of_batches(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], limits: ServiceLimits
) -> HeteroGraph:
    """The graph of record batches, which are validated.

    Args:
        schema: Columns `src` and `dst`, integers: ids in the graph's order. Optionally `etype`:
            integers, or a dictionary of names. These are numbered as they appear, unless the
            header has `etype_names`. The header may say that other columns are these.
        batches: Of that schema.
        limits: What is accepted.

    Raises:
        MalformedError: Columns are missing, or others than these, or hold nulls.
        TooLargeError: The graph is over a limit.
        GraphError: It is none.
    """
    header = parse(ArrowHeader, (schema.metadata or {}).get(DOCUMENT, b"{}"))
    places = _places(schema, header)
    _check_types(schema, places)
    is_named = _ETYPE in places and _is_text(schema.types[places[_ETYPE]])
    names = _Names(header, limits) if is_named else None
    parts: dict[str, list[Tensor]] = {role: [torch.empty(0).int()] for role in places}
    edges = 0
    for batch in batches:
        batch.validate(full=True)
        edges += batch.num_rows
        check_limit("edges", edges, limits.edges)
        for name, place in places.items():
            column = batch.column(place)
            if column.null_count:
                raise MalformedError(f"the column {name} has nulls: give every edge a value")
            ids = _integers(name, column) if names is None or name != _ETYPE else names.ids(column)
            parts[name].append(torch.from_numpy(ids))
    arrays = {name: torch.cat(parts.pop(name)) for name in places}
    update: dict[str, Any] = {} if names is None else {"etype_names": tuple(names.known)}
    if header.nodes is not None:
        update |= {"ntype_names": tuple(header.nodes)}
        arrays["ntype"] = _ntype(header, limits)
    found = header.model_dump(exclude={"nodes", "columns"}) | update
    return graph_of(GraphHeader.model_validate(found), arrays, limits)


class _Names:
    """Numbers of edge types by their names, dictionary by dictionary."""

    def __init__(self, header: ArrowHeader, limits: ServiceLimits) -> None:
        if header.canonical_etypes is not None and header.etype_names is None:
            raise MalformedError(
                "etype has names, and there are canonical_etypes without any: give etype_names, "
                "which say which is which"
            )
        given = header.etype_names
        self._is_given, self._limits = given is not None, limits
        self.known = {name: number for number, name in enumerate(given or ())}
        self._last: pa.Array | None = None
        self._numbers = np.empty(0, dtype=np.int32)

    def ids(self, column: pa.DictionaryArray) -> np.ndarray:
        """The number of each entry's name."""
        entries = column.dictionary
        if self._last is None or _place(self._last) != _place(entries):
            self._numbers, self._last = self._numbered(entries), entries
        found: np.ndarray = self._numbers[_integers(_ETYPE, column.indices)]
        return found

    def _numbered(self, entries: pa.Array) -> np.ndarray:
        check_limit("edge types", len(entries), self._limits.types)
        entries.validate(full=True)
        if entries.null_count:
            raise MalformedError("an edge type's name is null: give each one")
        found = entries.to_pylist()
        for name in found:
            if name not in self.known:
                if self._is_given:
                    raise MalformedError(f"etype has {name[:64]!r}, which is none of etype_names")
                self.known[name] = len(self.known)
        check_limit("edge types", len(self.known), self._limits.types)
        return np.array([self.known[name] for name in found], dtype=np.int32)


def _places(schema: pa.Schema, header: ArrowHeader) -> dict[str, int]:
    """The position of each role's column."""
    names = schema.names
    if header.columns is not None:
        return _named_columns(names, header.columns)
    for name in _ENDS:
        if name not in names:
            raise MalformedError(
                f"the column {name} is missing: give one node id for each edge, or say in the "
                f"document which columns have them, such as {_advice(names)}"
            )
    for name in names:
        if name not in (*_ENDS, _ETYPE) or names.count(name) > 1:
            raise MalformedError(
                f"there is no use for the column {name[:64]!r}: give src, dst and etype, once "
                f"each, or say in the document which columns they are, such as {_advice(names)}"
            )
    return {name: place for place, name in enumerate(names)}


def _named_columns(names: list[str], columns: ColumnsLike) -> dict[str, int]:
    try:
        parsed = columns_of(columns)
        assert parsed is not None
        found = parsed.positions(names, len(names))
    except GraphError as error:
        raise MalformedError(str(error)) from error
    for role in found:
        if role not in (*_ENDS, _ETYPE):
            raise MalformedError(f"graphs are kept without a {role} of edges: leave its column out")
    return found


def _advice(names: list[str]) -> str:
    return advice_by_names(names[:_SHOWN]).replace("columns=", '"columns": ')[:_SHOWN_CHARACTERS]


def _check_types(schema: pa.Schema, places: Mapping[str, int]) -> None:
    for name, place in places.items():
        kind = schema.types[place]
        if not pa.types.is_integer(kind) and not (name == _ETYPE and _is_text(kind)):
            allowed = " or a dictionary of texts" if name == _ETYPE else ""
            raise MalformedError(f"the column {name} is {str(kind)[:64]}: give integers{allowed}")


def _is_text(kind: pa.DataType) -> bool:
    if not pa.types.is_dictionary(kind):
        return False
    return bool(pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type))


def _integers(name: str, column: pa.Array) -> np.ndarray:
    """A copy.

    Raises:
        GraphError: A number is too large for an id, and for int64.
    """
    found: np.ndarray = column.to_numpy(zero_copy_only=True)
    if found.dtype == np.uint64 and (most := int(found.max(initial=0))) > _MOST:
        raise GraphError(f"the column {name} has {most}, which is too large for an id: renumber")
    is_small = found.dtype.itemsize < _SMALL or found.dtype == np.int32
    return found.astype(np.int32 if is_small else np.int64)


def _place(entries: pa.Array) -> tuple[int, ...]:
    """Where a dictionary lies in memory: batches that share one are told by it."""
    buffers = (0 if buffer is None else buffer.address for buffer in entries.buffers())
    return (len(entries), entries.offset, *buffers)


def _ntype(header: ArrowHeader, limits: ServiceLimits) -> Tensor:
    assert header.nodes is not None
    given = (header.num_nodes, header.num_ntypes, header.ntype_names)
    if any(each is not None for each in given):
        raise MalformedError(
            "there are num_nodes, num_ntypes or ntype_names beside nodes: give nodes alone"
        )
    check_limit("node types", len(header.nodes), limits.types)
    check_limit("nodes", sum(header.nodes.values()), limits.nodes)
    counts = torch.tensor(list(header.nodes.values()), dtype=torch.int64)
    return torch.repeat_interleave(torch.arange(len(counts), dtype=torch.int32), counts)
