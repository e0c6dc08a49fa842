"""Runs that take long: kept on disk, computed part by part between requests."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from hetune.costmodel.selection.champion import ChampionFollower
from hetune.service.core.formats.documents import parse
from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.models import Model, ModelStore
from hetune.service.core.runs.documents import RunDocument, RunList, RunRequest, RunState
from hetune.service.core.runs.layers import layers_of
from hetune.service.core.runs.sources import RunInputs, RunSources
from hetune.service.core.storage.folder import Folder
from hetune.variants.errors import (
    BusyError,
    CompileError,
    ConflictError,
    GraphFileError,
    HetuneError,
    InputError,
    MalformedError,
    NotFoundError,
    PartitionError,
)
from hetune.variants.partition.executor import Executor, InOrder, PartRows
from hetune.variants.partition.layers import PartitionedLayer
from hetune.variants.partition.on_ray import on_ray
from hetune.variants.partition.part_run import PartInputs
from hetune.variants.partition.row_files import open_rows
from hetune.variants.partition.run import run_on, work_folder

RUN_PATTERN = r"[0-9a-f]{32}"
MOST_WAITING, MOST_KEPT = 16, 100
_PART_BYTES, _NODE_BYTES = 1 << 28, 8
"""What a part is planned for, so that requests do not wait long, and that for each node of the
graph. One that cannot be smaller may take what a layer's run may."""
_log = logging.getLogger(__name__)

Computed = tuple[tuple[int, int], PartRows]
Compute = Callable[[Callable[[], Computed]], Computed]
"""Does something in the thread that computes, and waits for it."""


class _LeftError(Exception):
    """The service stops, or the run was deleted, and perhaps asked for again."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What a run needs, and the id of what it gives."""

    id: str
    model: Model
    layers: tuple[PartitionedLayer, ...]
    inputs: RunInputs

    @property
    def edges(self) -> int:
        return self.inputs.graph.num_edges * len(self.layers)

    @property
    def bytes(self) -> int:
        width = sum(layer.result_width for layer in self.layers)
        return 4 * width * self.inputs.graph.num_nodes


class Runs:
    """Runs of kept models, one at a time among all processes that share the folder.

    A run's id says what is run: asking for the same again gives the same run, and goes on with one
    that has failed. What is finished of a run outlives the process.

    Args:
        root: Folder of their records, `<id>.json`, and of their rows, `<id>.npy`.
        models: The models.
        sources: Where graphs and features are.
        follower: Tells what chooses.
        engine: What runs layers.
        limits: `stored_bytes` bounds what all runs take on disk, `run_bytes` a part in memory.
        ray: Address of a Ray cluster that computes parts; None for this process.

    Raises:
        FolderError: The folder cannot be used.
    """

    def __init__(
        self,
        root: Path,
        models: ModelStore,
        sources: RunSources,
        follower: ChampionFollower,
        engine: Engine,
        limits: ServiceLimits,
        ray: str | None = None,
    ) -> None:
        self.folder, self._models, self._sources = Folder(root), models, sources
        self._follower, self._engine, self._limits, self._ray = follower, engine, limits, ray
        self._working = FileLock(root / "working", timeout=0)
        self._done: dict[str, int] = {}
        self.submitted = threading.Event()

    def submit(self, request: RunRequest) -> tuple[RunDocument, bool]:
        """Asks for a run, and says whether it is new, or begins anew after it has failed.

        Raises:
            NotFoundError: There is no such model, graph, or features.
            InputError: They do not fit, or the model does not run in parts.
            TooLargeError: With the others it is over a limit.
            BusyError: As many wait as may.
            FolderError: It cannot be written.
        """
        made = self._prepared(request.model, request.version, request.graph, request.features)
        with self.folder.locked():
            found = self._read(made.id)
            if found is not None and found.state is not RunState.failed:
                return self._shown(found), False
            others = [each for each in self._records() if each.id != made.id]
            if sum(each.state is RunState.waiting for each in others) >= MOST_WAITING:
                raise BusyError(f"{MOST_WAITING} runs wait: try again later, or delete some")
            check_limit("runs", len(others) + 1, MOST_KEPT)
            total = sum(each.bytes for each in others) + made.bytes
            check_limit("bytes of runs on disk", total, self._limits.stored_bytes)
            new = RunDocument(
                id=made.id,
                model=made.model.name,
                version=made.model.version,
                graph=request.graph,
                features=request.features,
                state=RunState.waiting,
                edges=made.edges,
                edges_done=0,
                nodes=made.inputs.graph.num_nodes,
                width=made.layers[-1].result_width,
                bytes=made.bytes,
                error="",
                created=datetime.now(UTC),
                finished=None,
            )
            self._write(new)
        self.submitted.set()
        return new, True

    @property
    def is_performing(self) -> bool:
        """Whether a run is performed here."""
        return bool(self._done)

    def all(self) -> RunList:
        """All runs, the latest first."""
        found = sorted(self._records(), key=lambda each: each.created, reverse=True)
        return RunList(runs=tuple(map(self._shown, found)))

    def get(self, id: str) -> RunDocument:
        """A run, and how far it is.

        Raises:
            NotFoundError: There is none of that id.
        """
        found = self._read(id)
        if found is None:
            raise NotFoundError(f"there is no run {id[:64]!r}: it may have been deleted")
        return self._shown(found)

    def rows(self, id: str) -> Path:
        """The file of a run's rows: `.npy`, float32 [N, width] in the graph's order.

        Raises:
            NotFoundError: There is no such run, or its file is gone.
            ConflictError: It is not done.
        """
        found = self.get(id)
        if found.state is not RunState.done:
            raise ConflictError(f"the run {id} is {found.state}: rows are there when it is done")
        if not self._rows(id).is_file():
            raise NotFoundError(f"the rows of the run {id} are gone: delete it, and ask again")
        return self._rows(id)

    def remove(self, id: str) -> None:
        """Ends a run, and deletes its rows.

        Raises:
            NotFoundError: There is no such run.
            FolderError: The folder cannot be written.
        """
        with self.folder.locked(), self.folder.io("write"):
            self.get(id)
            self.folder.remove(self._record(id))
            self._clear(id)

    def perform_next(self, compute: Compute, is_stopping: Callable[[], bool]) -> bool:
        """Performs the run that waits longest, and says whether there may be another one.

        Args:
            compute: What computes parts here.
            is_stopping: Whether the run is to be left, as far as it is.
        """
        self.submitted.clear()
        try:
            with self._working:
                waiting = [e for e in self._records() if e.state is RunState.waiting]
                if not waiting or is_stopping():
                    return False
                return self._perform(min(waiting, key=lambda e: e.created), compute, is_stopping)
        except Timeout:  # another process works on runs
            return False

    def _perform(self, run: RunDocument, compute: Compute, is_stopping: Callable[[], bool]) -> bool:
        def tell(done: int, _: int) -> None:
            self._done[run.id] = done
            if is_stopping() or self._read(run.id) != run:
                raise _LeftError

        self._done[run.id] = 0
        try:
            made = self._prepared(run.model, run.version, run.graph, run.features)
            if made.id != run.id:
                raise InputError("the model, the graph or its features have changed: ask again")
            most, part = self._limits.run_bytes, _PART_BYTES + _NODE_BYTES * run.nodes
            given = made.layers, made.inputs.graph, made.inputs.rows, self._rows(run.id)
            with self._executor(compute) as executor:
                run_on(executor, *given, most, None, tell, planned=min(part, most))
            self._end(run, RunState.done)
        except _LeftError:
            self._end(run)
        except Exception as failure:
            if not is_stopping():  # when nothing is computed any more
                self._end(run, RunState.failed, _reason(run.id, failure))
        finally:
            self._done.pop(run.id, None)
        return not is_stopping()

    def _end(self, run: RunDocument, state: RunState | None = None, error: str = "") -> None:
        """Notes how a run has ended, if it has; of one that was deleted nothing stays."""
        with self.folder.locked():
            if self._read(run.id) != run:
                self._clear(run.id)
            elif state is not None:
                done = run.edges if state is RunState.done else 0
                now = datetime.now(UTC)
                change = {"state": state, "edges_done": done, "error": error, "finished": now}
                self._write(run.model_copy(update=change))

    def _prepared(self, model: str, version: int | None, graph: str, features: str) -> _Prepared:
        found = self._models.get(model, version)
        layers = layers_of(found, self._engine, self._follower.active.selector)
        inputs = self._sources.open(found, graph, features)
        width = open_rows(inputs.rows, None).shape[1]
        for layer in layers:
            layer.check_rows(width, inputs.graph.num_nodes)
        stamp = self._models.stamp(found.name, found.version)
        what = [found.name, found.version, stamp, graph, features, inputs.identity]
        id = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]
        return _Prepared(id, found, layers, inputs)

    def _executor(self, compute: Compute) -> AbstractContextManager[Executor]:
        return _BetweenRequests(compute) if self._ray is None else on_ray(self._ray)

    def _records(self) -> list[RunDocument]:
        with self.folder.io("read"):
            ids = [path.stem for path in self.folder.root.glob("*.json")]
        return [found for id in ids if (found := self._read(id)) is not None]

    def _read(self, id: str) -> RunDocument | None:
        if not re.fullmatch(RUN_PATTERN, id):
            return None
        try:
            with self.folder.io("read"):
                return parse(RunDocument, self._record(id).read_bytes())
        except FileNotFoundError:
            return None
        except MalformedError as error:
            _log.error("the record of the run %s is damaged: %s", id, error)
            return None

    def _write(self, run: RunDocument) -> None:
        self.folder.publish(run.model_dump_json().encode(), self._record(run.id))

    def _shown(self, run: RunDocument) -> RunDocument:
        done = self._done.get(run.id)
        if done is None or run.state is not RunState.waiting:
            return run
        return run.model_copy(update={"state": RunState.running, "edges_done": done})

    def _clear(self, id: str) -> None:
        self._rows(id).unlink(missing_ok=True)
        shutil.rmtree(work_folder(self._rows(id)), ignore_errors=True)

    def _record(self, id: str) -> Path:
        return self.folder.root / f"{id}.json"

    def _rows(self, id: str) -> Path:
        return self.folder.root / f"{id}.npy"


class _BetweenRequests(InOrder):
    """Computes parts where requests are computed, each in its turn."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute

    def result(self) -> Computed:
        """Computes the first part that is left. Requests do not wait until it is read."""
        ranges, read = self._started.popleft()
        self._started.appendleft((ranges, _finished(read)))
        return self._compute(partial(InOrder.result, self))


def _finished(read: Callable[[], PartInputs]) -> Callable[[], PartInputs]:
    """Reads, and gives what tells what came of it."""
    found = Future[PartInputs]()
    try:
        found.set_result(read())
    except Exception as error:
        found.set_exception(error)
    return found.result


def _reason(id: str, failure: Exception) -> str:
    """What clients are told; paths of the service are for the log."""
    if isinstance(failure, PartitionError | GraphFileError | OSError):
        _log.error("the run %s: %s", id, failure)
        return (
            "files of the service cannot be read or written: free some space and ask again; what "
            "is finished is kept"
        )
    if isinstance(failure, HetuneError) and not isinstance(failure, CompileError):
        return str(failure)
    _log.error("the run %s", id, exc_info=failure)
    return "it failed for a reason that is in the service's log"
