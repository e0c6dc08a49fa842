"""All worthwhile ways of running a program: choice points, alternatives, pruning."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from hetune.variants.passes.aggregate_first import AggregateFirst
from hetune.variants.passes.compact import Compact
from hetune.variants.passes.fold import Fold, FoldScores
from hetune.variants.passes.hybrid import DST_SIDE, SRC_SIDE, SplitMessages, SplitScores
from hetune.variants.passes.pipeline import Pass, clean, run_passes
from hetune.variants.passes.transform_side import TransformSide
from hetune.variants.passes.weights_first import FoldScale, WeightsFirst
from hetune.variants.program.nodes import End, Linear, Program, Space

MESSAGES = ("edge", "src", "dst", "hybrid")
SCORES = ("src", "dst", "hybrid")
EDGE_SCORES = "edge-scores"
"""Part of an alternative's id: dot products of source rows stay on the edges."""
_SUMS_FIRST = ("dst", "hybrid")
"""Messages whose sums read source rows edge by edge."""


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
    weights = (False, True) if _changes(WeightsFirst(), program) else (False,)
    scores: tuple[str, ...] = SCORES if _changes(SplitScores(), program) else ("",)
    folds = _folds(program)
    for messages, score, first in itertools.product(MESSAGES, scores, weights):
        for folded in folds:
            if not _sound(messages, score, folded):
                continue
            parts = [messages]
            parts += [f"scores-{score}"] if score else []
            parts += ["weights-first"] if first else []
            parts += folded.parts
            yield "+".join(parts), _pipeline(messages, score, first, folded)
            if first and messages in _SUMS_FIRST:
                parts.append(EDGE_SCORES)
                yield "+".join(parts), _pipeline(messages, score, first, folded, edge_scores=True)


def _changes(step: Pass, program: Program) -> bool:
    return run_passes((step,), program) != program


@dataclass(frozen=True, slots=True)
class _Folded:
    """Which linear maps of node types are folded into those of edge types.

    Attributes:
        weights: The edge types' weights that follow one.
        whole: All that follow one, and those at both ends of scores.
    """

    weights: tuple[str, ...] = ()
    whole: bool = False

    @property
    def parts(self) -> list[str]:
        """Its parts of an alternative's id."""
        return ["folded"] if self.whole else [f"fold-{weight}" for weight in self.weights]


def _pipeline(
    messages: str,
    scores: str,
    weights_first: bool,
    folded: _Folded,
    *,
    edge_scores: bool = False,
) -> tuple[Pass, ...]:
    passes: list[Pass] = []
    if weights_first:
        passes.append(WeightsFirst())
    passes += [Fold(weight) for weight in folded.weights]
    if scores:
        passes.append(FoldScale())
    if scores == "dst":
        passes.append(TransformSide(End.DST))
    if scores == "hybrid":
        passes += [SplitScores(), TransformSide(End.DST, DST_SIDE)]
    if folded.whole:
        passes += _FOLD_ALL
    if messages == "hybrid":
        passes.append(SplitMessages())
    groups = [""]
    if "hybrid" in (messages, scores):
        groups += [SRC_SIDE, DST_SIDE]
    if messages == "dst":
        passes.append(AggregateFirst())
    if messages == "hybrid":
        passes.append(AggregateFirst(DST_SIDE))
    linear = messages != "edge"
    passes += [Compact(group, linear, scores=not edge_scores) for group in groups]
    return tuple(passes)


_FOLD_ALL: tuple[Pass, ...] = (FoldScores(), Fold())


def _folds(program: Program) -> tuple[_Folded, ...]:
    """The ways of folding that some input may favour.

    It is no choice where folding makes no edge type's product larger: then it only saves the
    products of nodes.
    """
    scaled = run_passes((FoldScale(),), program)
    folded = run_passes(_FOLD_ALL, scaled)
    if folded != scaled and _is_no_larger(folded, scaled):
        return (_Folded(whole=True),)
    weights = (weight for weight in _typed_products(program) if _changes(Fold(weight), program))
    return tuple(_Folded(subset) for subset in _subsets(tuple(weights)))


def _is_no_larger(program: Program, other: Program) -> bool:
    """Whether each product by edge types has a place in the other that is as large."""
    small, large = (
        sorted(p.type_of(weight).width for weight in _typed_products(p)) for p in (program, other)
    )
    return len(small) <= len(large) and all(
        size <= known for size, known in zip(reversed(small), reversed(large), strict=False)
    )


def _typed_products(program: Program) -> tuple[str, ...]:
    products = (let.op.w for let in program.lets if isinstance(let.op, Linear))
    typed = (weight for weight in products if program.type_of(weight).space is Space.ETYPE)
    return tuple(dict.fromkeys(typed))


def _subsets(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for size in range(len(names) + 1):
        yield from itertools.combinations(names, size)


def _sound(messages: str, scores: str, folded: _Folded) -> bool:
    """Whether a combination can pay.

    Folding some weights needs the transformed side to be the source. What leaves messages on the
    edges leaves scores there too, and that is vanilla.
    """
    if messages == "edge":
        return not scores
    at_source = messages == "src" and scores in ("", "src")
    return folded.whole or not folded.weights or at_source
