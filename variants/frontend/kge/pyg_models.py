"""PyG's models of triples: their own forward, with rows in place of what embeddings look up."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from hetune.variants.frontend.kge.layer import RowPlace
from hetune.variants.frontend.kge.model_scores import CompiledKGEModel, ModelScore, use_name
from hetune.variants.frontend.tracing.not_traceable import NotTraceable

_TRIPLE = (RowPlace.HEAD, RowPlace.RELATION, RowPlace.TAIL)


class CompiledPygModel(CompiledKGEModel):
    """A model of ``torch_geometric.nn.kge``, whose scores are compiled."""

    def forward(self, head_index: Tensor, rel_type: Tensor, tail_index: Tensor) -> Any:
        """Scores [B] of triples, int64 [B] each."""
        found = self._scores(head_index, rel_type, tail_index)
        return self.module(head_index, rel_type, tail_index) if found is None else found


def is_pyg_model(model: nn.Module) -> bool:
    """Whether a model is one of PyG's, or derived from one."""
    kge = sys.modules.get("torch_geometric.nn.kge")
    return kge is not None and isinstance(model, kge.KGEModel)


def pyg_score(model: nn.Module) -> ModelScore:
    """What a model of PyG computes of a triple.

    Raises:
        NotTraceable: It has other parameters than embeddings, or computes with numbers of entities.
    """
    parts = model.named_children()
    embeddings = {name: p for name, p in parts if isinstance(p, nn.Embedding) and _is_plain(p)}
    known = {id(embedding.weight) for embedding in embeddings.values()}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if id(tensor) not in known:
            raise NotTraceable(f"{name} is no embedding's weight, which rows are chosen from")
    uses: dict[tuple[str, RowPlace], None] = {}

    def row_of(table: str, place: RowPlace) -> Tensor:
        uses[table, place] = None
        return embeddings[table].weight[:1]

    _forward(model, row_of)

    def function(**rows: Tensor) -> Any:
        return _forward(model, lambda *use: rows[use_name(*use)].unsqueeze(0)).squeeze(0)

    function.__name__ = type(model).__name__
    tables = {name: name for name in embeddings}
    return ModelScore(function, [*uses], model, tables, {}, model)


def _is_plain(part: nn.Embedding) -> bool:
    options = part.max_norm, part.padding_idx, part.scale_grad_by_freq or None
    return type(part) is nn.Embedding and all(option is None for option in options)


class _Rows(nn.Module):
    """In place of an embedding: looks up what of a triple it is called with."""

    def __init__(self, row_of: Callable[[RowPlace], Tensor]) -> None:
        super().__init__()
        self._row_of = row_of

    def forward(self, place: RowPlace) -> Tensor:
        """A row [1, width]."""
        return self._row_of(place)


def _forward(model: nn.Module, row_of: Callable[[str, RowPlace], Tensor]) -> Any:
    """The model's score [1] of a triple whose rows are given, by table and place."""
    twin = object.__new__(type(model))
    parts: dict[str, nn.Module | None] = dict(model._modules)
    for name, part in parts.items():
        if isinstance(part, nn.Embedding):
            parts[name] = _Rows(partial(row_of, name))
    twin.__dict__.update({**vars(model), "_modules": parts})
    return type(model).forward(twin, *_TRIPLE)
