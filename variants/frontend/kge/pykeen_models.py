"""PyKEEN's models of triples: their interactions, of rows that are normalized as PyKEEN does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.kge.layer import RowPlace
from hetune.variants.frontend.kge.model_scores import CompiledKGEModel, ModelScore, use_name
from hetune.variants.frontend.tracing.not_traceable import NotTraceable

Representations = Sequence[tuple[str, Any]]
"""Of entities or relations: by name."""


class CompiledPykeenModel(CompiledKGEModel):
    """A ``pykeen.models.ERModel``, whose scores are compiled."""

    training: bool
    interaction: nn.Module

    def score_hrt(self, hrt_batch: Tensor, *, mode: Any = None) -> Any:
        """Scores [B, 1] of triples, int64 [B, 3]."""
        found = None
        if mode is None and not self._is_random():
            found = self._scores(*hrt_batch.unbind(1))
        if found is None:
            return self.module.score_hrt(hrt_batch, mode=mode)
        self._regularize(*hrt_batch.unbind(1))
        return found.unsqueeze(-1)

    def score_t(self, hr_batch: Tensor, *, tails: Any = None, **options: Any) -> Any:
        """Scores [B, N] of all tails, or [B, K] of some, for int64 [B, 2]."""
        nodes, rels = hr_batch.unbind(1)
        found = None if tails is not None else self._all(nodes, rels, "tail", **options)
        return self.module.score_t(hr_batch, tails=tails, **options) if found is None else found

    def score_h(self, rt_batch: Tensor, *, heads: Any = None, **options: Any) -> Any:
        """Scores [B, N] of all heads, or [B, K] of some, for int64 [B, 2]."""
        rels, nodes = rt_batch.unbind(1)
        found = None if heads is not None else self._all(nodes, rels, "head", **options)
        return self.module.score_h(rt_batch, heads=heads, **options) if found is None else found

    def _all(
        self, nodes: Tensor, rels: Tensor, side: str, slice_size: Any = None, mode: Any = None
    ) -> Tensor | None:
        uses = [each for uses in triple_of(self) for _, each in uses]
        # With an axis for all entities PyKEEN normalizes along another one, and turns heads, not
        # tails, by relations, which is the same only for relations of length 1.
        is_other = any(each.normalizer for each in uses) or (
            side == "tail" and type(self.interaction).__name__ == "RotatEInteraction"
        )
        if mode is not None or is_other or self._is_random():
            return None
        found = self._scores.all(nodes, rels, side, only_programs=True)
        if found is not None:
            nodes, rels = nodes[:, None], rels[:, None]
            self._regularize(*((nodes, rels, None) if side == "tail" else (None, rels, nodes)))
        return found

    def _is_random(self) -> bool:
        parts = (each.dropout for uses in triple_of(self) for _, each in uses)
        return any(part is not None and part.training for part in parts)

    def _regularize(self, *triple: Tensor | None) -> None:
        """Tells regularizers of rows, or of all, as looking them up does."""
        if self.training and torch.is_grad_enabled():
            for ids, uses in zip(triple, triple_of(self), strict=True):
                for _, representation in uses:
                    if representation.regularizer is not None:
                        representation(indices=ids)


def is_pykeen_model(model: nn.Module) -> bool:
    """Whether a model is one of PyKEEN's that has an interaction."""
    models = sys.modules.get("pykeen.models")
    return models is not None and isinstance(model, models.ERModel)


def pykeen_score(model: Any) -> ModelScore:
    """What a model of PyKEEN computes of a triple.

    Raises:
        NotTraceable: It has other parameters than embeddings of entities and relations.
    """
    interaction, triple = model.interaction, triple_of(model)
    drops = [part for part in interaction.modules() if isinstance(part, nn.Dropout)]
    if [*interaction.parameters(), *interaction.buffers(), *drops]:
        raise NotTraceable(f"{type(interaction).__name__} has parameters of its own, or drops out")
    named = {name: each for uses in triple for name, each in uses}
    for name, each in named.items():
        if type(each) is not sys.modules["pykeen.nn.representation"].Embedding:
            raise NotTraceable(f"{name} is a {type(each).__name__}, no Embedding")
    name = type(interaction).__name__
    score: Any = _COMPLEX.get(name) if interaction.is_complex else interaction
    if score is None:
        raise NotTraceable(f"{type(interaction).__name__} is of complex numbers")
    if any(each.is_complex is not interaction.is_complex for each in named.values()) or (
        interaction.is_complex and any(each.normalizer for each in named.values())
    ):
        raise NotTraceable("complex numbers are normalized, or made of real ones")
    places = (RowPlace.HEAD, RowPlace.RELATION, RowPlace.TAIL)
    of_triple = [[(name, place) for name, _ in u] for u, place in zip(triple, places, strict=True)]

    def function(**rows: Tensor) -> Any:
        def row(table: str, place: RowPlace) -> Tensor:
            found, normalizer = rows[use_name(table, place)], named[table].normalizer
            # It has rows in a batch, and may be along the second axis.
            return found if normalizer is None else normalizer(found.unsqueeze(0)).squeeze(0)

        given = ([row(*use) for use in uses] for uses in of_triple)
        return score(*(each[0] if len(each) == 1 else each for each in given))

    function.__name__ = type(model).__name__
    uses = [use for uses in of_triple for use in uses]
    paths = {name: name.replace("_", "_representations.") for name in named}
    tables = {name: f"{path}._embeddings" for name, path in paths.items()}
    shapes = {name: each._shape for name, each in named.items()}
    return ModelScore(function, uses, model, tables, shapes, interaction)


def triple_of(model: Any) -> tuple[Representations, Representations, Representations]:
    """The representations of heads, relations and tails."""
    entities = [(f"entity_{i}", each) for i, each in enumerate(model.entity_representations)]
    relations = [(f"relation_{i}", each) for i, each in enumerate(model.relation_representations)]
    heads = [entities[i] for i in model.interaction.head_indices]
    return heads, relations, [entities[i] for i in model.interaction.tail_indices]


def _rotated(h: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """The product of complex numbers [..., 2]: real and imaginary parts."""
    (a, b), (c, d) = h.unbind(-1), r.unbind(-1)
    return a * c - b * d, a * d + b * c


def _complex_product(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    (re, im), (t_re, t_im) = _rotated(h, r), t.unbind(-1)
    return (re * t_re + im * t_im).sum(-1)


def _complex_distance(h: Tensor, r: Tensor, t: Tensor) -> Any:
    conjugate = torch.stack((r[..., 0], -r[..., 1]), -1)  # PyKEEN turns the tail, if it costs less
    (re, im), (h_re, h_im) = _rotated(t, conjugate), h.unbind(-1)
    return -torch.cat([h_re - re, h_im - im], -1).norm(dim=-1)


_COMPLEX: dict[str, Callable[..., Any]] = {
    "ComplExInteraction": _complex_product,
    "RotatEInteraction": _complex_distance,
}
"""Interactions of complex numbers, of pairs of real ones."""
