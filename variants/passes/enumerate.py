"""All worthwhile ways of running a program: choice points, alternatives, pruning."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from hetune.variants.passes.aggregate_first import AggregateFirst
from hetune.variants.passes.compact import Compact
from hetune.variants.passes.fold import Fold
from hetune.variants.passes.hybrid import DST_SIDE, SRC_SIDE, SplitMessages, SplitScores
from hetune.variants.passes.pipeline import Pass, clean, run_passes
from hetune.variants.passes.transform_side import TransformSide
from hetune.variants.passes.weights_first import FoldScale, WeightsFirst
from hetune.variants.program.nodes import End, Linear, Program, Space

MESSAGES = ("edge", "src", "dense", "dst", "hybrid")
SCORES = ("src", "dst", "hybrid")


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way through a program's choice points.

    Attributes:
        id: Stable and readable, e.g. ``"hybrid"`` or ``"dst+scores-src+weights-first"``.
        passes: The pipeline that makes it from the layer's program.
        program: The result.
    """

    id: str
    passes: tuple[Pass, ...]
    program: Program


def alternatives(program: Program) -> tuple[Alternative, ...]:
    """Every way of running the program that some input may favour, each under one id.

    Alternatives that lead to the same program are offered once, the first.
    """
    program = clean(program)
    found: dict[Program, Alternative] = {}
    for name, passes in _pipelines(program):
        made = run_passes(passes, program)
        if made not in found:
            found[made] = Alternative(name, passes, made)
    return tuple(found.values())


def _pipelines(program: Program) -> Iterator[tuple[str, tuple[Pass, ...]]]:
    yield "vanilla", ()
    weights = (False, True) if WeightsFirst()(program) != program else (False,)
    scores: tuple[str, ...] = SCORES if SplitScores()(program) != program else ("",)
    folds = _foldable(program)
    for messages, score, first in itertools.product(MESSAGES, scores, weights):
        for folded in _subsets(folds):
            if not _sound(messages, score, folded):
                continue
            parts = [messages]
            parts += [f"scores-{score}"] if score else []
            parts += ["weights-first"] if first else []
            parts += [f"fold-{weight}" for weight in folded]
            yield "+".join(parts), _pipeline(messages, score, first, folded)


def _pipeline(
    messages: str, scores: str, weights_first: bool, folded: tuple[str, ...]
) -> tuple[Pass, ...]:
    passes: list[Pass] = []
    if weights_first:
        passes.append(WeightsFirst())
    passes += [Fold(weight) for weight in folded]
    if scores:
        passes.append(FoldScale())
    if scores == "dst":
        passes.append(TransformSide(End.DST))
    if scores == "hybrid":
        passes += [SplitScores(), TransformSide(End.DST, DST_SIDE)]
    if messages == "hybrid":
        passes.append(SplitMessages())
    source = Space.SRC_DENSE if messages == "dense" else Space.SRC_PAIR
    groups = [""]
    if "hybrid" in (messages, scores):
        groups += [SRC_SIDE, DST_SIDE]
    if messages == "dst":
        passes.append(AggregateFirst())
    if messages == "hybrid":
        passes.append(AggregateFirst(DST_SIDE))
    passes += [Compact(group, source, linear=messages != "edge") for group in groups]
    return tuple(passes)


def _foldable(program: Program) -> tuple[str, ...]:
    weights = {
        let.op.w: None
        for let in program.lets
        if isinstance(let.op, Linear) and program.type_of(let.op.w).space is Space.ETYPE
    }
    return tuple(w for w in weights if Fold(w)(program) != program)


def _subsets(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for size in range(len(names) + 1):
        yield from itertools.combinations(names, size)


def _sound(messages: str, scores: str, folded: tuple[str, ...]) -> bool:
    """Whether a combination can pay.

    Folding needs the transformed side to be the source. What leaves messages on the edges leaves
    scores there too, and that is vanilla.
    """
    if messages == "edge":
        return not scores
    return not folded or (messages in ("src", "dense") and scores in ("", "src"))
