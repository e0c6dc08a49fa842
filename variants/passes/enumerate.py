"""The choices that a program offers: found where rewrites apply, whatever the layer is called."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hetune.variants.passes.choices import FOLD_ALL, Placement, SumChoices
from hetune.variants.passes.fold import FoldProducts
from hetune.variants.passes.hybrid import SplitScores
from hetune.variants.passes.pipeline import Pass, run_passes
from hetune.variants.passes.weights_first import FoldScale, WeightsFirst
from hetune.variants.program.nodes import Linear, Program, Space

_SCORES = (Placement.SRC, Placement.DST, Placement.HYBRID)


def choices_of(program: Program) -> Iterator[SumChoices]:
    """All choices for a program, the same at each of its sums into nodes.

    Choices that can never pay are left out; several may lead to one program.

    Args:
        program: Without equal and dead values, as `clean` leaves it.
    """
    weights = (False, True) if _changes(WeightsFirst(), program) else (False,)
    scores: tuple[Placement | None, ...] = _SCORES if _changes(SplitScores(), program) else (None,)
    folds_all = _folds_all(program)
    folds = ((),) if folds_all else tuple(_subsets(_foldable(program)))
    for messages, score, first, folded in itertools.product(Placement, scores, weights, folds):
        found = SumChoices(messages, score, first, folded, folds_all)
        if not found.is_sound:
            continue
        yield found
        # Sums first read source rows edge by edge.
        if first and messages is Placement.DST:
            yield SumChoices(messages, score, first, folded, folds_all, edge_scores=True)


def _changes(step: Pass, program: Program) -> bool:
    return run_passes((step,), program) != program


def _folds_all(program: Program) -> bool:
    """Whether folding makes no edge type's product larger, and only saves those of nodes."""
    scaled = run_passes((FoldScale(),), program)
    folded = run_passes(FOLD_ALL, scaled)
    return folded != scaled and _is_no_larger(folded, scaled)


def _foldable(program: Program) -> tuple[str, ...]:
    return tuple(
        weight for weight in _typed_products(program) if _changes(FoldProducts(weight), program)
    )


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
