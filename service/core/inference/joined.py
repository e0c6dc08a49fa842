"""One run for several requests: on their graphs as one that is block-diagonal."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.service.core.graphs.graphs import held_bytes
from hetune.service.core.graphs.rows import pick
from hetune.service.core.inference.answers import Answer, BatchReport, LayerReport, RunReport
from hetune.service.core.inference.inference import Inference
from hetune.service.core.inference.metrics import Metrics
from hetune.service.core.inference.selection import VariantSelection
from hetune.service.core.inference.steps import step
from hetune.service.core.models.jumping_knowledge import join
from hetune.service.core.models.models import Model
from hetune.service.core.storage.cache import BytesCache
from hetune.variants.errors import HetuneError
from hetune.variants.graph.blocks import Blocks, block_diagonal
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot
from hetune.variants.graph.threads import used_threads, using_threads
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.domain import split_relations

_log = logging.getLogger(__name__)
_TRIALS = 3
_REMEMBERED = 1024

_ARE_GOOD = GraphSlot[tuple[tuple[str, ...], int], bool]()


@dataclass(frozen=True, slots=True)
class JoinedPart:
    """A request that may be answered by a run with others.

    Attributes:
        model: What to run.
        graph: What on.
        x: Features of all nodes in the graph's order, float32 [N, in_channels].
        layers: What would be chosen for it alone.
        wanted: Which outputs to give.
        by_type: Whether to give them by node type.
    """

    model: Model
    graph: HeteroGraph
    x: Tensor
    layers: tuple[LayerReport, ...]
    wanted: frozenset[int]
    by_type: bool

    @property
    def variants(self) -> tuple[str, ...]:
        """Ids, one for each layer."""
        return tuple(layer.variant for layer in self.layers)

    @property
    def size(self) -> int:
        """Nodes and edges."""
        return self.graph.num_nodes + self.graph.num_edges

    def joins(self, other: JoinedPart) -> bool:
        """Whether one run may answer both, as far as can be told without their graphs."""
        names = (self.graph.ntype_names, self.graph.etype_names)
        return (
            self.model is other.model
            and self.variants == other.variants
            and names == (other.graph.ntype_names, other.graph.etype_names)
        )


class JoinedRuns:
    """Runs requests together where that was seen to give the same bits, and in less time.

    Graphs that come together are joined when they come for the `after`-th time: preparing what
    is joined takes as long as tens of runs. Then drawn features are run both ways. What is joined
    is kept with what came of that.

    Args:
        selection: Says what fits the limit on memory.
        inference: Likewise.
        metrics: Where layers that ran are counted and timed.
        held: Bytes of joined graphs to hold, by estimate.

    Attributes:
        after: How often graphs have to come together.
        gain: Least ratio of the time of separate runs to that of a joined one.
    """

    def __init__(
        self, selection: VariantSelection, inference: Inference, metrics: Metrics, held: int
    ) -> None:
        self.after, self.gain = 3, 1.1
        self._selection, self._inference, self._metrics = selection, inference, metrics
        self._blocks: BytesCache[tuple[str, ...], Blocks] = BytesCache(
            held, lambda blocks: held_bytes(blocks.graph)
        )
        self._came: OrderedDict[tuple[str, ...], int] = OrderedDict()
        self._mutex = threading.Lock()

    def run(self, parts: Sequence[JoinedPart]) -> tuple[Answer, ...] | None:
        """An answer to each request, with the same bits as its own run would give.

        Args:
            parts: At least two, each of which `joins` the others.

        Returns:
            None if separate runs are as fast, are not known to be slower yet, or differ.

        Raises:
            TooLargeError: Together they would hold too much.
        """
        order = sorted(range(len(parts)), key=lambda i: parts[i].graph.fingerprint)
        ordered = [parts[i] for i in order]
        blocks = self._ready(ordered)
        if blocks is None:
            return None
        model, layers = parts[0].model, parts[0].layers
        wanted = frozenset[int]().union(*(part.wanted for part in parts))
        needed = frozenset(range(len(layers))) if len(layers) in wanted else wanted
        self._inference.check_memory(model, blocks.graph.num_nodes, wanted | needed)
        rows, seconds = _together(
            model, parts[0].variants, [part.x for part in ordered], blocks, needed
        )
        for layer, spent in zip(layers, seconds, strict=True):
            ran = layer.model_copy(update={"measured_seconds": spent})
            self._metrics.layer_ran(ran, prepared=True)  # its prediction is for one request
        batch = BatchReport(
            requests=len(parts), nodes=blocks.graph.num_nodes, edges=blocks.graph.num_edges
        )
        answers = {
            i: _answer(parts[i], {n: rows[n][position] for n in rows}, seconds, batch)
            for position, i in enumerate(order)
        }
        return tuple(answers[i] for i in range(len(parts)))

    def _ready(self, parts: Sequence[JoinedPart]) -> Blocks | None:
        key = tuple(part.graph.fingerprint for part in parts)
        blocks = self._blocks.get(key)
        if blocks is None:
            if self._count(key) < self.after:
                return None
            blocks = self._blocks.add(key, block_diagonal([part.graph for part in parts]))
        joined = blocks
        model, variants = parts[0].model, parts[0].variants
        is_good = joined.graph.state.of(
            _ARE_GOOD,
            (variants, torch.get_num_threads()),
            lambda: self._try(parts, joined),
            owner=model.compiled[0],
        )
        return joined if is_good else None

    def _count(self, key: tuple[str, ...]) -> int:
        with self._mutex:
            count = self._came.pop(key, 0) + 1
            self._came[key] = count
            if len(self._came) > _REMEMBERED:
                self._came.popitem(last=False)
            return count

    def _try(self, parts: Sequence[JoinedPart], blocks: Blocks) -> bool:
        """Whether a joined run fits the limits, and is the same as separate ones but faster."""
        model, variants = parts[0].model, parts[0].variants
        graphs = [part.graph for part in parts]
        if _is_hybrid(model, variants) and not _same_sides(graphs, blocks.graph):
            return False
        try:
            layers = (blocks.graph,) * len(variants)
            self._selection.layers(model, layers, math.inf, variants=variants)
        except HetuneError as error:
            _log.info("%d graphs are not joined: %s", len(graphs), error)
            return False
        draw = torch.Generator().manual_seed(0)
        width, all_layers = model.description.in_channels, frozenset(range(len(variants)))
        apart = together = math.inf
        for _ in range(1 + _TRIALS):  # the first one prepares
            xs = [torch.randn(graph.num_nodes, width, generator=draw) for graph in graphs]
            begun = time.perf_counter()
            expected = [_alone(part, x) for part, x in zip(parts, xs, strict=True)]
            halfway = time.perf_counter()
            found, _ = _together(model, variants, xs, blocks, all_layers)
            apart = min(apart, halfway - begun)
            together = min(together, time.perf_counter() - halfway)
            for number, rows in found.items():
                if not all(map(_same_bits, rows, [outs[number] for outs in expected])):
                    _log.info("%d graphs are not joined: rows would differ in bits", len(graphs))
                    return False
        _log.info("%d graphs, joined: %.2f times as fast", len(graphs), apart / together)
        return apart / together > self.gain


def _alone(part: JoinedPart, x: Tensor) -> list[Tensor]:
    """What each layer of a request's own run gives for other features."""
    model, outs = part.model, []
    with torch.no_grad():
        for number, layer in enumerate(part.layers):
            with using_threads(layer.threads):
                out = model.compiled[number](x, part.graph, variant=layer.variant)
                x = model.finishes[number](out)
            outs.append(x)
    return outs


def _together(
    model: Model,
    variants: Sequence[str],
    xs: Sequence[Tensor],
    blocks: Blocks,
    needed: frozenset[int],
) -> tuple[dict[int, tuple[Tensor, ...]], list[float]]:
    """Each graph's rows of the layers that are needed, and each layer's seconds."""
    rows: dict[int, tuple[Tensor, ...]] = {}
    seconds = []
    with torch.no_grad():
        x = blocks.stacked(xs)
        for number, (module, variant) in enumerate(zip(model.modules, variants, strict=True)):
            with step("compute", layer=module.kind, number=number, variant=variant):
                start = time.perf_counter()
                x = model.compiled[number](x, blocks.graph, variant=variant)
                seconds.append(time.perf_counter() - start)
            finish = model.finishes[number]
            if finish.is_exact:
                x = finish(x)
                parts = blocks.split(x) if number in needed else ()
            else:
                parts = tuple(finish(part) for part in blocks.split(x))
                x = blocks.stacked(parts)
            if number in needed:
                rows[number] = parts
    return rows, seconds


def _same_bits(one: Tensor, other: Tensor) -> bool:
    """Signs of zeros included."""
    return torch.equal(one.view(torch.int32), other.view(torch.int32))


def _is_hybrid(model: Model, variants: Sequence[str]) -> bool:
    """Whether a variant goes by the sides of relations. Requests are joined on a CPU alone."""
    return any(
        variant.choices.plan.program.is_hybrid
        for module, chosen in zip(model.modules, variants, strict=True)
        for variant in variants_of(module.adapter().program, "cpu")
        if variant.id == chosen
    )


def _same_sides(graphs: Sequence[HeteroGraph], joined: HeteroGraph) -> bool:
    """Whether hybrid variants transform each relation on the side that they would alone."""
    sides = split_relations(joined)
    for graph in {id(graph): graph for graph in graphs}.values():
        used = set(torch.unique(graph.etype).tolist())
        own = split_relations(graph)
        if any(used & set(own[side]) != used & set(sides[side]) for side in sides):
            return False
    return True


def _answer(
    part: JoinedPart, outs: Mapping[int, Tensor], seconds: Sequence[float], batch: BatchReport
) -> Answer:
    count = len(part.layers)
    kept = {number: pick(out, part.graph, None, part.by_type) for number, out in outs.items()}
    if count in part.wanted:
        kept[count] = join([kept[number] for number in range(count)], part.model.description)
    report = RunReport(
        model=part.model.name,
        version=part.model.version,
        graph=part.graph.fingerprint,
        layers=tuple(
            layer.model_copy(update={"measured_seconds": spent, "threads": used_threads()})
            for layer, spent in zip(part.layers, seconds, strict=True)
        ),
        batch=batch,
    )
    return Answer(report, {number: kept[number] for number in sorted(part.wanted)})
