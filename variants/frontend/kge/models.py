"""Models of other libraries, with compiled scores of triples."""

from __future__ import annotations

from functools import partial

from torch import nn

from hetune.variants.errors import InputError
from hetune.variants.frontend.kge.model_scores import (
    CompiledKGEModel,
    CompiledScores,
    ScoreCompiler,
)
from hetune.variants.frontend.kge.pyg_models import CompiledPygModel, is_pyg_model, pyg_score
from hetune.variants.frontend.kge.pykeen_models import (
    CompiledPykeenModel,
    is_pykeen_model,
    pykeen_score,
)
from hetune.variants.frontend.tracing.not_traceable import NotTraceable

_LIBRARIES = (
    (is_pyg_model, pyg_score, CompiledPygModel),
    (is_pykeen_model, pykeen_score, CompiledPykeenModel),
)


def compiled_kge_model(model: nn.Module, compiler: ScoreCompiler) -> CompiledKGEModel | None:
    """A model whose scores of triples are compiled; None of what is no such model.

    Args:
        model: Of ``torch_geometric.nn.kge``, or a ``pykeen.models.ERModel``.
        compiler: Compiles its score.

    Raises:
        InputError: Its score is not compiled.
    """
    model = model.module if isinstance(model, CompiledKGEModel) else model
    for is_of_library, read, kind in _LIBRARIES:
        if is_of_library(model):
            try:
                scores = CompiledScores(partial(read, model), compiler)
            except NotTraceable as error:
                raise InputError(f"{type(model).__name__} is not compiled: {error}") from None
            return kind.of(model, scores, partial(compiled_kge_model, compiler=compiler))
    return None
