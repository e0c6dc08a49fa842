"""Files of graphs and of features that belong to them: what was used last stays within a quota."""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hetune.service.core.formats.message import Pieces
from hetune.service.core.storage.folder import Folder
from hetune.variants.errors import MalformedError, NotFoundError, TooLargeError
from hetune.variants.registry.atomic_files import sync_folder

ID_PATTERN = r"[0-9a-f]{32}"
FEATURES_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_SUFFIX = ".safetensors"
_FEATURES = ".features"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A graph, or features of it, on disk.

    Attributes:
        used: When it was last used, in nanoseconds since 1970.
        bytes: Its size.
        path: Where it is.
        graph: The graph's id.
        features: Their name; None for the graph itself.
    """

    used: int
    bytes: int
    path: Path
    graph: str
    features: str | None = None


class GraphFiles:
    """The folder of graphs.

    ```
    <root>/<id>.safetensors                    a graph
    <root>/<id>.pinned                         there if it stays whatever the quota
    <root>/<id>.features/<name>.safetensors    features of its nodes
    <root>/**/*.damaged                        what was put aside, until it is given again
    ```

    Files over the quota go, the one used longest ago first; a graph takes its features along, and
    keeps them if it is pinned. Where several processes share the folder, each sees what the others
    do.

    Args:
        root: The folder; created if it is missing.
        quota: Most bytes of all files together.

    Attributes:
        folder: Where they are.
        on_change: Called with the path of each file that goes, or is replaced.

    Raises:
        FolderError: The folder cannot be used.
    """

    def __init__(self, root: Path, quota: int) -> None:
        self.folder = Folder(root)
        self._quota = quota
        self.on_change: list[Callable[[Path], None]] = []

    def path(self, graph: str, features: str | None = None) -> Path:
        """Where a graph is, or features of it.

        Raises:
            NotFoundError: There can be no such graph.
            MalformedError: There can be no features of that name.
        """
        whole = _graph_path(self.folder.root, graph)
        if features is None:
            return whole
        if not re.fullmatch(FEATURES_PATTERN, features):
            raise MalformedError(
                f"{features[:64]!r} is no name of features: take up to 64 letters, digits, dots, "
                "dashes and underscores, first a letter or digit"
            )
        return self._features_of(graph) / f"{features}{_SUFFIX}"

    def all(self) -> list[GraphFile]:
        """All files, the one used longest ago first."""
        found = []
        with self.folder.io("read"):
            for path in self._paths():
                with suppress(FileNotFoundError):  # another process has just removed it
                    is_graph = path.parent == self.folder.root
                    found.append(_file(path.stat(), path, is_graph=is_graph))
        return sorted(found, key=lambda file: (file.used, file.path))

    def features(self, graph: str) -> tuple[str, ...]:
        """Names of the features of a graph, sorted.

        Raises:
            NotFoundError: There is no such graph.
        """
        self.check_there(graph)
        with self.folder.io("read"):
            found = self._features_of(graph).glob(f"*{_SUFFIX}")
            return tuple(sorted(path.name.removesuffix(_SUFFIX) for path in found))

    def check_there(self, graph: str, features: str | None = None) -> None:
        """Checks that there is such a graph, or that it has such features.

        Raises:
            NotFoundError: There are not.
            MalformedError: There can be none of that name.
        """
        path = self.path(graph, features)
        if not self.path(graph).exists():
            raise NotFoundError(f"there is no graph {graph}: give it to the service first")
        if features is not None and not path.exists():
            raise no_features(graph, features)

    def publish(self, content: Pieces, graph: str, features: str | None = None) -> bool:
        """Writes a graph, or features of one that is there, and says whether they are new.

        Raises:
            NotFoundError: There is no such graph for the features.
            TooLargeError: With what has to stay it is over the quota.
            FolderError: It cannot be written.
        """
        path = self.path(graph, features)
        kept = {path, self.path(graph)}
        with self.folder.locked():
            if features is not None:
                self.check_there(graph)
            is_new = not path.exists()
            self._check_room(len(content), path, kept)
            self.folder.publish(content, path)
            _aside(path).unlink(missing_ok=True)
            self._changed(path)
            self._evict(kept)
        return is_new

    def touch(self, *paths: Path) -> bool:
        """Notes that a graph is used, or features of it and then the graph: whether all are there.

        That is by the time of their modification. The graph's is the later one: it takes its
        features along when it goes.
        """
        are_there = True
        for path in paths:
            try:
                now = time.time_ns()  # the system's own clock for files is coarser
                os.utime(path, ns=(now, now))
            except FileNotFoundError:
                are_there = False
            except OSError:
                _log.debug("cannot note the use of %s", path)
        return are_there

    def remove(self, graph: str, features: str | None = None) -> None:
        """Deletes a graph with its features, or some of these.

        Raises:
            NotFoundError: There is nothing of that name.
            FolderError: The folder cannot be written.
        """
        with self.folder.locked(), self.folder.io("write"):
            self.check_there(graph, features)
            self._unlink(graph, features)
            sync_folder(self.path(graph, features).parent)

    def put_aside(self, path: Path) -> None:
        """Keeps a damaged file from being read again, if it is there still.

        Raises:
            FolderError: The folder cannot be written.
        """
        with self.folder.io("write"), suppress(FileNotFoundError):
            path.replace(_aside(path))

    def is_pinned(self, graph: str) -> bool:
        """Whether a graph stays whatever the quota."""
        return self._pin_of(graph).exists()

    def pin(self, graph: str, *, pinned: bool) -> None:
        """Keeps a graph and its features whatever the quota, or lets them go again.

        Raises:
            NotFoundError: There is none of that id.
            FolderError: The folder cannot be written.
        """
        with self.folder.locked(), self.folder.io("write"):
            self.check_there(graph)
            if pinned:
                self._pin_of(graph).touch(mode=0o600)
            else:
                self._pin_of(graph).unlink(missing_ok=True)
            sync_folder(self.folder.root)

    def _paths(self) -> Iterator[Path]:
        yield from self.folder.root.glob(f"*{_SUFFIX}")
        for folder in self.folder.root.glob(f"*{_FEATURES}"):
            with suppress(FileNotFoundError):
                yield from list(folder.glob(f"*{_SUFFIX}"))

    def _check_room(self, more: int, path: Path, kept: set[Path]) -> None:
        staying = sum(
            file.bytes
            for file in self.all()
            if file.path != path and (file.path in kept or self.is_pinned(file.graph))
        )
        if staying + more > self._quota:
            raise TooLargeError(
                f"{staying} bytes of graphs have to stay, most of all those that are pinned, and "
                f"{more} more are over the {self._quota} that this service keeps: unpin one, or "
                "give less"
            )

    def _evict(self, kept: set[Path]) -> None:
        left = {file.path: file for file in self.all()}
        total = sum(file.bytes for file in left.values())
        for file in tuple(left.values()):
            if total <= self._quota:
                return
            if file.path in kept or file.path not in left or self.is_pinned(file.graph):
                continue
            if _was_used_since(file):
                continue
            _log.info("%s goes, for graphs are over their limit", file.path)
            self._unlink(file.graph, file.features)
            for each in tuple(left.values()):
                if each is file or (file.features is None and each.graph == file.graph):
                    total -= left.pop(each.path).bytes

    def _unlink(self, graph: str, features: str | None) -> None:
        """Features go before their graph: no kill lets them wait for its return."""
        path = self.path(graph, features)
        if features is None:
            folder = self._features_of(graph)
            gone = list(folder.glob(f"*{_SUFFIX}"))
            if folder.exists():
                shutil.rmtree(folder)
            for each in gone:
                self._changed(each)
        path.unlink(missing_ok=True)
        self._changed(path)
        if features is None:
            self._pin_of(graph).unlink(missing_ok=True)

    def _changed(self, path: Path) -> None:
        for tell in self.on_change:
            tell(path)

    def _features_of(self, graph: str) -> Path:
        return self.folder.root / f"{graph}{_FEATURES}"

    def _pin_of(self, graph: str) -> Path:
        return self.folder.root / f"{graph}.pinned"


def _aside(path: Path) -> Path:
    """Where a damaged file is kept until there is a sound one."""
    return path.with_suffix(".damaged")


def no_features(graph: str, name: str) -> NotFoundError:
    """The error for features that are not there."""
    return NotFoundError(
        f"the graph {graph} has no features {name!r}: give them to the service first"
    )


def _graph_path(root: Path, graph: str) -> Path:
    if not re.fullmatch(ID_PATTERN, graph):
        raise NotFoundError(f"{graph[:64]!r} is no id of a graph: ids have 32 digits, 0-9 and a-f")
    return root / f"{graph}{_SUFFIX}"


def _was_used_since(file: GraphFile) -> bool:
    """Whether a file was used, or replaced, after it was listed."""
    try:
        return file.path.stat().st_mtime_ns != file.used
    except FileNotFoundError:
        return False


def _file(status: os.stat_result, path: Path, *, is_graph: bool) -> GraphFile:
    name = path.name.removesuffix(_SUFFIX)
    of = name if is_graph else path.parent.name.removesuffix(_FEATURES)
    return GraphFile(
        status.st_mtime_ns, status.st_size, path, of, features=None if is_graph else name
    )
