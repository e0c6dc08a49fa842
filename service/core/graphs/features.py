"""Features of nodes that are kept with a graph: on disk, and those used last in memory."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from hetune.service.core.formats.documents import Document, parse
from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.formats.message import Pieces, read, read_document
from hetune.service.core.graphs.graph_files import no_features
from hetune.service.core.graphs.graphs import GraphStore
from hetune.service.core.graphs.rows import PaddedRows, features_of
from hetune.service.core.storage.cache import BytesCache
from hetune.variants.errors import InputError, MalformedError, NotFoundError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.lazy_tensors import materialized

Features = Tensor | Mapping[str, Tensor]
"""Float32 rows of all nodes in the graph's order, [N, width], or of each node type."""
_ROWS, _FLOAT_BYTES = "x", 4
_log = logging.getLogger(__name__)


class FeaturesHeader(Document):
    """Features without their rows."""

    by_type: bool
    nodes: int
    width: int
    digest: str
    widths: Annotated[dict[str, int], Field(exclude_if=lambda widths: not widths)] = Field(
        default_factory=dict
    )


class StoredFeatures(FeaturesHeader):
    """Features that are kept with a graph.

    Attributes:
        name: Theirs.
        nodes: How many rows there are.
        width: Numbers in a row, in the widest ones.
        widths: Of the rows of each node type, where these differ.
        by_type: Whether they were given by node type, and so are outputs of runs on them.
        bytes: Of their file.
        digest: SHA-256 of the rows and their form.
    """

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class _Loaded:
    digest: str
    rows: Tensor
    given: Features


class FeatureStore:
    """Features that were given to the service, each under a name with one graph.

    They count for the limit on disk as graphs do, and go with their graph. Features that are given
    under a name which is there take the place of those. A damaged file is put aside; its features
    have to be given again.

    Args:
        graphs: The graphs.
        limits: What is accepted and held.
    """

    def __init__(self, graphs: GraphStore, limits: ServiceLimits) -> None:
        self._graphs, self._files, self._limits = graphs, graphs.files, limits
        self._loaded: BytesCache[Path, _Loaded] = BytesCache(
            limits.feature_bytes, lambda loaded: loaded.rows.nbytes
        )
        self._files.on_change.append(self._loaded.discard)

    def put(self, graph: str, name: str, features: Features) -> tuple[StoredFeatures, bool]:
        """Keeps features with a graph, and says whether the name is new.

        Args:
            graph: The graph's id.
            name: Letters, digits, dots, dashes, underscores; at most 64, first a letter or digit.
            features: All of one width, or of one for each node type.

        Raises:
            MalformedError: The name is none.
            NotFoundError: There is no such graph.
            InputError: Dtypes or shapes do not fit the graph.
            TooLargeError: With what has to stay they are over the limit on disk.
            FolderError: They cannot be written.
        """
        path = self._files.path(graph, name)
        is_typed = isinstance(features, Mapping)
        parts = tuple(features.values()) if isinstance(features, Mapping) else (features,)
        width, widths = _width(parts), _widths(features)
        count = sum(len(part) for part in parts if part.dim())
        size = count * width * _FLOAT_BYTES
        check_limit("bytes on disk", size, self._limits.stored_bytes)
        if widths:  # a few wide rows make all others as wide, and so memory of a small body
            check_limit("bytes of rows as wide as the widest", size, self._limits.body_bytes)
        rows = features_of(features, self._graphs.get(graph), width, widths)
        header = FeaturesHeader(
            by_type=is_typed,
            nodes=rows.shape[0],
            width=rows.shape[1],
            digest=_digest(rows, is_typed, widths),
            widths=widths,
        )
        content = Pieces(header.model_dump_json(), {_ROWS: rows})
        is_new = self._files.publish(content, graph, name)
        self._files.touch(path, self._files.path(graph))
        return _described(path, header, len(content)), is_new

    def get(self, graph: str, name: str) -> Features:
        """Features, in the form in which they were given; they must not be changed.

        Raises:
            NotFoundError: There is no such graph, or it has none of that name.
            FolderError: They cannot be read.
        """
        given = self._graphs.get(graph)
        path = self._files.path(graph, name)
        self._files.touch(path, self._files.path(graph))
        header = self._header(graph, name, path)
        loaded = self._loaded.get(path)
        if loaded is None or loaded.digest != header.digest:
            self._loaded.discard(path)
            loaded = self._read(graph, name, path, given)
            self._loaded.add(path, loaded)
        return loaded.given

    def resolve(self, graph: HeteroGraph | str, features: Features | str) -> Features:
        """Features that are given as they are, or by the name under which a graph has them.

        Raises:
            NotFoundError: The graph has none of that name.
            InputError: There is a name, but the graph is none that is kept.
            FolderError: They cannot be read.
        """
        if not isinstance(features, str):
            return features
        if not isinstance(graph, str):
            raise InputError(
                f"the features {features[:64]!r} are asked for by name, but the graph is not: "
                "give the id of the graph that they are kept with"
            )
        return self.get(graph, features)

    def all(self, graph: str) -> tuple[StoredFeatures, ...]:
        """The features that are kept with a graph, by name.

        Raises:
            NotFoundError: There is no such graph.
            FolderError: They cannot be read.
        """
        found = []
        for name in self._files.features(graph):
            with suppress(NotFoundError):  # just removed, or damaged
                found.append(self.describe(graph, name))
        return tuple(found)

    def describe(self, graph: str, name: str) -> StoredFeatures:
        """What features are, without reading their rows.

        Raises:
            NotFoundError: There is no such graph, or it has none of that name.
            FolderError: They cannot be read.
        """
        self._files.check_there(graph, name)
        path = self._files.path(graph, name)
        header = self._header(graph, name, path)
        try:
            return _described(path, header, path.stat().st_size)
        except FileNotFoundError:
            raise no_features(graph, name) from None

    def remove(self, graph: str, name: str) -> None:
        """Deletes features.

        Raises:
            NotFoundError: There is no such graph, or it has none of that name.
        """
        self._files.remove(graph, name)

    def _header(self, graph: str, name: str, path: Path) -> FeaturesHeader:
        try:
            with self._files.folder.io("read"):
                return parse(FeaturesHeader, read_document(path))
        except FileNotFoundError:
            raise no_features(graph, name) from None
        except MalformedError as error:
            raise self._damaged(path, graph, name, str(error)) from None

    def _read(self, graph: str, name: str, path: Path, given: HeteroGraph) -> _Loaded:
        try:
            with self._files.folder.io("read"):
                message = read(path, is_own=True)
            header, rows = parse(FeaturesHeader, message.document), message.tensors[_ROWS]
        except FileNotFoundError:
            raise no_features(graph, name) from None
        except (MalformedError, KeyError) as error:
            raise self._damaged(path, graph, name, str(error)) from None
        if rows.shape != (given.num_nodes, header.width) or rows.dtype != torch.float32:
            raise self._damaged(path, graph, name, "its rows are not those of the graph")
        if _digest(rows, header.by_type, header.widths) != header.digest:
            raise self._damaged(path, graph, name, "its content has another digest")
        found = PaddedRows(rows, given, header.widths) if header.by_type else rows
        return _Loaded(header.digest, rows, found)

    def _damaged(self, path: Path, graph: str, name: str, reason: str) -> NotFoundError:
        _log.error("the features %s are damaged and put aside: %s", path, reason)
        self._files.put_aside(path)
        return NotFoundError(
            f"the features {name!r} of the graph {graph} were damaged on disk: give them to the "
            "service again"
        )


def _width(parts: tuple[Tensor, ...]) -> int:
    """The largest of rows, else of no rows, which fit any; 1 where there is neither.

    Raises:
        InputError: Some are no rows.
    """
    for part in parts:
        if part.dim() != 2 and part.numel():
            raise InputError(
                f"features have the shape {list(part.shape)}: give a row of numbers for each node, "
                "[nodes, width]"
            )
    widths = [(part.shape[1], len(part)) for part in parts if part.dim() == 2 and part.shape[1]]
    return max(widths, key=lambda found: (found[1] > 0, found[0]), default=(1, 0))[0]


def _widths(features: Features) -> dict[str, int]:
    """Of each node type that has rows, where these differ."""
    parts = features.items() if isinstance(features, Mapping) else ()
    found = {kind: part.shape[1] for kind, part in parts if part.dim() == 2 and part.numel()}
    return dict(sorted(found.items())) if len({*found.values()}) > 1 else {}


def _digest(rows: Tensor, by_type: bool, widths: Mapping[str, int]) -> str:
    form = f"{by_type} {dict(widths)} " if widths else f"{by_type} "
    found = hashlib.sha256(f"{list(rows.shape)} {form}".encode())
    found.update(materialized(rows).view(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _described(path: Path, header: FeaturesHeader, size: int) -> StoredFeatures:
    name = path.name.removesuffix(path.suffix)
    return StoredFeatures(name=name, bytes=size, **header.model_dump())
