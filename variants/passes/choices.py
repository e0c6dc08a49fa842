"""The choices for a sum into nodes and all that feeds it, and the passes that carry them out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from hetune.variants.passes.aggregate_first import AggregateFirst
from hetune.variants.passes.compact import Compact
from hetune.variants.passes.fold import FoldProducts, FoldScores
from hetune.variants.passes.hybrid import DST_SIDE, SRC_SIDE, SplitMessages, SplitScores
from hetune.variants.passes.pipeline import Pass
from hetune.variants.passes.transform_side import TransformSide
from hetune.variants.passes.weights_first import FoldScale, WeightsFirst
from hetune.variants.program.nodes import ALL_EDGES, End

FOLD_ALL: tuple[Pass, ...] = (FoldScores(), FoldProducts())


class Placement(StrEnum):
    """The rows that a linear map of edge types is computed for."""

    EDGE = "edge"
    SRC = "src"
    """One for each (src, etype) pair."""
    DST = "dst"
    """One for each (dst, etype) pair."""
    HYBRID = "hybrid"
    """Each edge type's pairs on the side where it has fewer."""


@dataclass(frozen=True, slots=True)
class SumChoices:
    """How a sum into nodes and what feeds it are computed.

    Attributes:
        messages: The rows that are transformed; at destinations, rows are summed first.
        scores: The rows of bilinear scores that are transformed; None where there are none.
        weights_first: Whether vectors meet weights before rows do.
        folds: Edge types' weights that the node types' map before them is multiplied into.
        folds_all: Whether this is done with all of them, and with both ends of scores.
        edge_scores: Whether dot products of source rows stay on the edges.
    """

    messages: Placement
    scores: Placement | None = None
    weights_first: bool = False
    folds: tuple[str, ...] = ()
    folds_all: bool = False
    edge_scores: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts of an id, such as ``("dst", "scores-src")``."""
        return (
            str(self.messages),
            *([f"scores-{self.scores}"] if self.scores else ()),
            *(["weights-first"] if self.weights_first else ()),
            *(["folded"] if self.folds_all else [f"fold-{weight}" for weight in self.folds]),
            *(["edge-scores"] if self.edge_scores else ()),
        )

    @property
    def is_hybrid(self) -> bool:
        """Whether what is transformed differs from edge type to edge type."""
        return Placement.HYBRID in (self.messages, self.scores)

    @property
    def is_sound(self) -> bool:
        """Whether this can pay.

        Folding some weights needs the transformed side to be the source. What leaves messages on
        the edges leaves scores there too, and that is vanilla.
        """
        if self.messages is Placement.EDGE:
            return not self.scores
        at_source = self.messages is Placement.SRC and self.scores in (None, Placement.SRC)
        return not self.folds or at_source

    def on(self, side: Placement) -> SumChoices:
        """The choices for graphs on which every edge type has fewer pairs on that side."""
        messages = side if self.messages is Placement.HYBRID else self.messages
        scores = side if self.scores is Placement.HYBRID else self.scores
        return replace(self, messages=messages, scores=scores)

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The pipeline that carries them out."""
        passes: list[Pass] = []
        if self.weights_first:
            passes.append(WeightsFirst())
        passes += [FoldProducts(weight) for weight in self.folds]
        if self.scores:
            passes.append(FoldScale())
        if self.scores is Placement.DST:
            passes.append(TransformSide(End.DST))
        if self.scores is Placement.HYBRID:
            passes += [SplitScores(), TransformSide(End.DST, DST_SIDE)]
        if self.folds_all:
            passes += FOLD_ALL
        if self.messages is Placement.HYBRID:
            passes += [SplitMessages(), AggregateFirst(DST_SIDE)]
        if self.messages is Placement.DST:
            passes.append(AggregateFirst())
        moves = self.messages is not Placement.EDGE
        groups = (ALL_EDGES, SRC_SIDE, DST_SIDE) if self.is_hybrid else (ALL_EDGES,)
        passes += [Compact(group, moves, scores=not self.edge_scores) for group in groups]
        return tuple(passes)
