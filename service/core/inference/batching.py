"""Requests that wait at the same time may be answered by one run."""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields

from torch import Tensor

from hetune.service.core.graphs.rows import features_of
from hetune.service.core.inference.answers import Answer, LayerReport
from hetune.service.core.inference.inference import Inference, outputs_of
from hetune.service.core.inference.joined import JoinedPart, JoinedRuns
from hetune.service.core.inference.metrics import Metrics
from hetune.service.core.inference.run_request import RunRequest
from hetune.service.core.inference.selection import VariantSelection
from hetune.service.core.models.models import Model
from hetune.variants.errors import HetuneError, InputError
from hetune.variants.graph.hetero import HeteroGraph

_log = logging.getLogger(__name__)
MOST_SIZE = 32_768
"""Nodes and edges of a joined graph. Above, kernels have enough to do with each graph alone."""
MOST_BYTES = 4 << 20
"""Of a request's body: larger ones are not read ahead of their turn."""
_OPTIONS = tuple(field.name for field in fields(RunRequest))


class WaitingRequest:
    """A request that waits for its turn, or is already being answered with another one.

    Args:
        model: Name of the model.
        read: Reads the rest.
        joinable: Whether it may be read before its turn.
    """

    __slots__ = ("_asked", "_read", "answer", "is_taken", "joinable", "model")

    def __init__(self, model: str, read: Callable[[], RunRequest], joinable: bool) -> None:
        self.model, self.joinable = model, joinable
        self.answer: Answer | None = None
        self.is_taken = False
        self._read = read
        self._asked: RunRequest | HetuneError | None = None

    def asked(self) -> RunRequest:
        """The request, which is read once.

        Raises:
            HetuneError: It cannot be read.
        """
        if self._asked is None:
            try:
                self._asked = self._read()
            except HetuneError as error:
                self._asked = error
        if isinstance(self._asked, HetuneError):
            raise self._asked
        return self._asked


class Batching:
    """Answers requests; where it pays, several of one model by one run.

    Whoever's turn it is looks who else waits: for copies of its own graph, else for any small ones.
    What is different, damaged or too large is left to its own turn, and so is everything if
    the run fails: no request sees another one's error.

    Args:
        inference: Runs one request.
        joined: Runs several.
        selection: Finds models and graphs, and chooses.
        metrics: Where sizes of batches are noted.
        requests: Most requests for one run; 1 for no joining.
        delay: Seconds to wait for others, if fewer wait already.

    Raises:
        InputError: Numbers are out of range.
    """

    def __init__(
        self,
        inference: Inference,
        joined: JoinedRuns,
        selection: VariantSelection,
        metrics: Metrics,
        *,
        requests: int = 1,
        delay: float = 0.0,
    ) -> None:
        if requests < 1 or not 0 <= delay < math.inf:
            raise InputError(
                f"{requests} requests within {delay} seconds cannot be joined: give at least 1, "
                "and no negative time"
            )
        self.joined = joined
        self._inference, self._selection, self._metrics = inference, selection, metrics
        self._requests, self._delay = requests, delay
        self._waiting: dict[int, WaitingRequest] = {}
        self._changed = threading.Condition()

    @contextmanager
    def waiting(
        self, model: str, read: Callable[[], RunRequest], size: int
    ) -> Iterator[WaitingRequest]:
        """A request that waits until `answer` is called, or the end.

        Args:
            model: Name of the model.
            read: Reads the rest; called once, by whoever answers.
            size: Bytes that it reads.
        """
        found = WaitingRequest(model, read, self._requests > 1 and size <= MOST_BYTES)
        if not found.joinable:
            yield found
            return
        with self._changed:
            self._waiting[id(found)] = found
            self._changed.notify_all()
        try:
            yield found
        finally:
            with self._changed:
                self._waiting.pop(id(found), None)

    def answer(self, waiting: WaitingRequest) -> Answer:
        """The answer to a request whose turn it is. Others may be answered by the way.

        Raises:
            HetuneError: As `Inference.run` does, or reading the request.
        """
        with self._changed:
            while waiting.is_taken:
                self._changed.wait()
            if waiting.answer is not None:
                return waiting.answer
            waiting.is_taken = True
            self._waiting.pop(id(waiting), None)
        asked = waiting.asked()
        if waiting.joinable:
            if asked.is_plain and self._has_company(waiting.model):
                answer = self._answer_with_others(waiting, asked)
                if answer is not None:
                    return answer
            self._metrics.batch_requests.observe(1)
        options = {name: getattr(asked, name) for name in _OPTIONS}
        return self._inference.run(waiting.model, **options)

    def _has_company(self, model: str) -> bool:
        """Whether others wait for the model, at the latest after the delay."""
        end = time.monotonic() + self._delay
        with self._changed:
            while True:
                count = sum(w.model == model and not w.is_taken for w in self._waiting.values())
                left = end - time.monotonic()
                if 1 + count >= self._requests or left <= 0:
                    return count > 0
                self._changed.wait(left)

    def _answer_with_others(self, waiting: WaitingRequest, asked: RunRequest) -> Answer | None:
        """The request's answer, with those of others; None if it has to be answered alone."""
        parts = _Parts(self._selection)
        own = parts.part(waiting.model, asked)
        if own is None:
            return None
        taken = self._take(waiting.model)
        try:
            found = [(waiting, own)]
            for other in taken:
                try:
                    part = parts.part(other.model, other.asked())
                except HetuneError:
                    continue  # its own turn will tell
                if part is not None and part.joins(own):
                    found.append((other, part))
            chosen = _chosen(found, self._requests)
            if len(chosen) < 2:
                return None
            answers = self.joined.run([part for _, part in chosen])
            if answers is None:
                return None
            for (other, _), answer in zip(chosen, answers, strict=True):
                other.answer = answer
            self._metrics.batch_requests.observe(len(chosen))
            return waiting.answer
        except HetuneError as error:
            _log.info("requests are answered one by one: %s", error)
            return None
        except Exception:
            _log.exception("requests could not be answered together, and are one by one")
            return None
        finally:
            self._give_back(taken)

    def _take(self, model: str) -> list[WaitingRequest]:
        """Those who wait for a model, who are nobody else's until they are given back."""
        with self._changed:
            found = [w for w in self._waiting.values() if w.model == model and not w.is_taken]
            for waiting in found[: 2 * self._requests]:
                waiting.is_taken = True
        return found[: 2 * self._requests]

    def _give_back(self, taken: Sequence[WaitingRequest]) -> None:
        with self._changed:
            for waiting in taken:
                waiting.is_taken = False
                if waiting.answer is not None:
                    self._waiting.pop(id(waiting), None)
            self._changed.notify_all()


class _Parts:
    """Makes parts of requests, and chooses but once for each graph."""

    def __init__(self, selection: VariantSelection) -> None:
        self._selection = selection
        self._known: dict[
            tuple[str, int | None, str], tuple[Model, HeteroGraph, tuple[LayerReport, ...]] | None
        ] = {}

    def part(self, model: str, asked: RunRequest) -> JoinedPart | None:
        """The part of a request; None if it has to be answered alone.

        Raises:
            HetuneError: It cannot be answered at all.
        """
        if not asked.is_plain:
            return None
        assert isinstance(asked.graph, str)
        key = model, asked.version, asked.graph
        if key not in self._known:
            self._known[key] = self._look_up(*key)
        known = self._known[key]
        if known is None:
            return None
        found, graph, layers = known
        return JoinedPart(
            found,
            graph,
            features_of(asked.features, graph, found.description.in_channels),
            layers,
            outputs_of(asked.outputs, found.description.num_outputs),
            not isinstance(asked.features, Tensor),
        )

    def _look_up(
        self, model: str, version: int | None, graph: str
    ) -> tuple[Model, HeteroGraph, tuple[LayerReport, ...]] | None:
        found, given, expected_runs = self._selection.resolve(model, version, graph)
        if given.num_nodes + given.num_edges > MOST_SIZE // 2:
            return None
        graphs = (given,) * len(found.modules)
        return found, given, self._selection.layers(found, graphs, expected_runs)


def _chosen(
    found: Sequence[tuple[WaitingRequest, JoinedPart]], most: int
) -> Sequence[tuple[WaitingRequest, JoinedPart]]:
    """Who is answered together: copies of the first one's graph if there are, else whoever fits.

    A power of two of them: fewer kinds of joined graphs come again more often.
    """
    own = found[0][1].graph.fingerprint
    copies = [entry for entry in found if entry[1].graph.fingerprint == own]
    several = copies if len(copies) > 1 else found
    sizes = itertools.accumulate(part.size for _, part in several)
    count = min(sum(size <= MOST_SIZE for size in sizes), most)
    return several[: 1 << count.bit_length() - 1]
