"""What a run reads: a kept graph and its features, or those of a folder that the operator names."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path

from hetune.service.core.graphs.features import FeatureStore
from hetune.service.core.graphs.graph_files import FEATURES_PATTERN, ID_PATTERN
from hetune.service.core.graphs.graphs import GraphStore
from hetune.service.core.inference.model_rows import inputs_of
from hetune.service.core.models.graph_check import check_fits
from hetune.service.core.models.models import Model
from hetune.variants.errors import FolderError, GraphFileError, InputError, NotFoundError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.partition.edge_folder import RECORD, EdgeFolder
from hetune.variants.partition.partitions import Partitions
from hetune.variants.partition.row_files import RowsLike, identity_of, open_rows

_SHOWN = 64
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What a run reads.

    Attributes:
        graph: In memory, or its partitions on the disk.
        rows: Features of all nodes, [N, width].
        identity: Tells them from others.
    """

    graph: HeteroGraph | Partitions
    rows: RowsLike
    identity: object


@dataclass(frozen=True, slots=True)
class RunSources:
    """Where graphs and features are found by name. No request names a path.

    Attributes:
        graphs: Kept graphs, by id.
        features: Theirs, by name.
        folder: Of large graphs: each is a folder of partitions, in which features are `.npy` files.
            None for none.
    """

    graphs: GraphStore
    features: FeatureStore
    folder: Path | None

    def open(self, model: Model, graph: str, features: str) -> RunInputs:
        """A graph and its features, for a model.

        Raises:
            NotFoundError: There is no such graph, or it has no such features.
            InputError: They do not fit the model.
            FolderError: They are damaged.
        """
        if not re.fullmatch(ID_PATTERN, graph):
            return self._in_folder(model, graph, features)
        found = self.graphs.get(graph)
        check_fits(model, found)
        rows = inputs_of(model, found, self.features.get(graph, features), {})["x"]
        digest = self.features.describe(graph, features).digest
        return RunInputs(found, rows, [graph, digest])

    def _in_folder(self, model: Model, graph: str, features: str) -> RunInputs:
        folder = self._named(graph)
        if folder is None:
            raise NotFoundError(
                f"there is no graph {graph[:_SHOWN]!r}: give the id of one that the service keeps, "
                "or a name in its folder of large graphs"
            )
        rows = folder / f"{features}.npy"
        if not (re.fullmatch(FEATURES_PATTERN, features) and rows.is_file()):
            raise NotFoundError(f"the graph {graph} has no features {features[:_SHOWN]!r}")
        try:
            partitions = EdgeFolder(folder)
        except GraphFileError as error:
            _log.error("the graph %s cannot be read: %s", graph, error)
            raise FolderError(f"the graph {graph} is damaged: partition its edges anew") from error
        check_fits(model, partitions.types)
        try:
            open_rows(rows, partitions.num_nodes)
        except InputError as error:
            _log.warning("features of the graph %s: %s", graph, error)
            raise InputError(
                f"the features {features} of the graph {graph} are no float rows of "
                f"{partitions.num_nodes} nodes: name others"
            ) from None
        return RunInputs(partitions, rows, [partitions.digest, identity_of(rows)])

    def _named(self, graph: str) -> Path | None:
        """The folder of a large graph; None where there is none, or it lies elsewhere."""
        if self.folder is None or not re.fullmatch(FEATURES_PATTERN, graph):
            return None
        path = (self.folder / graph).resolve()
        is_inside = path.parent == self.folder.resolve()
        return path if is_inside and (path / RECORD).is_file() else None
