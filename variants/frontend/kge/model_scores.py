"""Models of triples: an instance of a library's class, whose scores are compiled."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from hetune.variants.frontend.kge.batch import check_ids
from hetune.variants.frontend.kge.layer import RowPlace, ScoreArgument, ScoreLayer, ScoreOfRows
from hetune.variants.frontend.kge.tables import ScoreTables
from hetune.variants.frontend.tracing.python_state import PythonState

Again = Callable[[nn.Module], Any]


@dataclass(frozen=True, slots=True)
class ScoreCompiler:
    """Compiles scores.

    Attributes:
        layer: Compiles one for batches of triples.
        candidates: Compiles a function, for tables like these, for all entities at once.
    """

    layer: Callable[[ScoreLayer], Any]
    candidates: Callable[[ScoreOfRows, ScoreTables], Any]


@dataclass(frozen=True, slots=True, eq=False)
class ModelScore:
    """What a model computes of a triple.

    Attributes:
        function: Of a row [1, *row shape] for each use of a table, by `use_name`.
        uses: The tables that rows are of, by name, and what of the triple chooses the row.
        model: Of which.
        tables: Paths of the embeddings whose weights the tables are, by name.
        shapes: Of rows, where they are not the embeddings' own.
        read: The module whose attributes the function reads.
    """

    function: ScoreOfRows
    uses: Sequence[tuple[str, RowPlace]]
    model: nn.Module
    tables: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    read: nn.Module


def use_name(table: str, place: RowPlace) -> str:
    """The parameter of a function for a row of a table."""
    return f"{place}_{table}"


class CompiledScores:
    """Scores a model's triples by compiled variants.

    Args:
        made: Reads the model's score, as its attributes are now.
        compiler: Compiles it.

    Attributes:
        compiled: The compiled score.

    Raises:
        NotTraceable: The model's score is not compiled.
    """

    def __init__(self, made: Callable[[], ModelScore], compiler: ScoreCompiler) -> None:
        self._made, self._compiler = made, compiler
        self._renew()

    def _renew(self) -> None:
        self._score = score = self._made()
        self._state, self._is_left = PythonState(score.read), False
        self._candidates: Any = None
        arguments = tuple(
            ScoreArgument(use_name(table, place), place, table) for table, place in score.uses
        )
        self._layer = ScoreLayer(score.function, arguments, {}, {})
        self.compiled = self._compiler.layer(self._layer)

    def __call__(self, heads: Tensor, rels: Tensor, tails: Tensor) -> Tensor | None:
        """Scores [B] of triples, integers [B] each; None where they are left to the model."""
        embeddings = self._embeddings()
        is_float32 = all(part.weight.dtype is torch.float32 for part in embeddings.values())
        if self._is_left or not is_float32 or heads.dim() != 1 or not len(heads):
            return None
        read: Tensor | None = None
        entities = [embeddings[name] for name in self._layer.entities]
        if tails.dim() == 1 and any(map(_is_sparse, entities)):
            read, rows = _distinct(torch.cat((heads, tails)))
            count = len(entities[0].weight)
            if not 0 <= int(read[0]) <= int(read[-1]) < count:
                check_ids((heads, rels, tails), count, None)
            heads, tails = rows[: len(heads)], rows[len(heads) :]
        given = self._tables(embeddings, rels, read)
        self._layer.set_weights(given.weights)
        found: Tensor = self.compiled(heads, rels, tails, *given.entities.values())
        self._is_left = not self.compiled.variants  # it has warned, and said why
        return found

    def all(
        self, nodes: Tensor, rels: Tensor, side: str, only_programs: bool = False
    ) -> Tensor | None:
        """Scores [B, N] of all entities at a side, "head" or "tail", for integers [B] each.

        None of a score that is no program, if only programs are wanted.
        """
        given = self._tables(self._embeddings())
        if self._candidates is None:
            self._candidates = self._compiler.candidates(self._score.function, given)
        if only_programs and not self._candidates.is_program:
            return None
        found: Tensor = self._candidates.all(given, nodes, rels, side)
        return found

    def _embeddings(self) -> dict[str, Any]:
        """The embeddings of now, by the names of tables; the score is read again if it changed."""
        if self._state.change() is not None:
            self._renew()
        score = self._score
        return {name: score.model.get_submodule(path) for name, path in score.tables.items()}

    def _tables(
        self,
        embeddings: Mapping[str, Any],
        rels: Tensor | None = None,
        read: Tensor | None = None,
    ) -> ScoreTables:
        """The tables; of entities only rows that are read, where some are sparse.

        Args:
            embeddings: What `_embeddings` gives.
            rels: Relations whose rows are read; gradients of sparse tables have no others.
            read: Entities whose rows are read; None for all.
        """
        tables = dict[str, Tensor]()
        for name, embedding in embeddings.items():
            table: Tensor = embedding.weight
            is_sparse = _is_sparse(embedding)
            shape = self._score.shapes.get(name, table.shape[1:])
            if read is not None and name in self._layer.entities:
                table = functional.embedding(read, table, sparse=is_sparse)
            elif rels is not None and is_sparse:
                given = table, _distinct(rels)[0]
                table = _SparseGradient.apply(*given)  # type: ignore[no-untyped-call]
            tables[name] = table if shape == table.shape[1:] else table.view(-1, *shape)
        entities = {name: tables.pop(name) for name in self._layer.entities}
        return ScoreTables(self._layer.arguments, entities, tables, {})


def _distinct(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers in ids, ascending, and where each of the ids is among them."""
    found: tuple[Tensor, Tensor] = ids.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    return found


def _is_sparse(embedding: Any) -> bool:
    """Whether its gradient is to have the rows alone that were read."""
    wanted: bool = embedding.sparse and embedding.weight.requires_grad
    return wanted and torch.is_grad_enabled()


class _SparseGradient(torch.autograd.Function):
    """A table of relations, whose gradient has only the rows that were read."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        return table.view_as(table)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (ids,) = ctx.saved_tensors
        return torch.sparse_coo_tensor(
            ids[None], gradient[ids], gradient.shape, is_coalesced=True, check_invariants=False
        ), None


class CompiledKGEModel(nn.Module):
    """A model whose scores are compiled: its class has this one before the model's own.

    It has the model's attributes, parameters and parts, and what is assigned to one of them is
    assigned to the other.

    Attributes:
        module: The model itself, which is left as it is.
    """

    module: ClassVar[Any]
    _scores: ClassVar[CompiledScores]
    _again: ClassVar[Again]

    @classmethod
    def of(cls, model: nn.Module, scores: CompiledScores, again: Again) -> Self:
        """A model with compiled scores.

        Args:
            model: The model.
            scores: Its scores.
            again: Compiles another one likewise.
        """
        kind: Any = type(model)
        own = {"module": model, "_scores": scores, "_again": staticmethod(again)}
        told = {"__doc__": kind.__doc__, "__module__": kind.__module__}
        found: Self = object.__new__(type(kind)(kind.__name__, (cls, kind), {**own, **told}))
        object.__setattr__(found, "__dict__", vars(model))
        return found

    def all(self, nodes: Tensor, rels: Tensor, *, side: str = "tail") -> Tensor:
        """Scores [B, N] of all entities as tails, or as heads.

        Args:
            nodes: Numbers of the entities at the other side, integers [B].
            rels: Numbers of relations, integers [B].
            side: What is any entity, "tail" or "head".

        Raises:
            InputError: There is no such side, entity or relation.
        """
        found = self._scores.all(nodes, rels, side)
        assert found is not None
        return found

    def status(self) -> Any:
        """Whether the score is compiled, or why not, and what its last call ran."""
        return self._scores.compiled.status()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return type(self)._again(copy.deepcopy(self.module, memo))

    def __reduce__(self) -> Any:  # kernels are not pickled: it is compiled again where it is loaded
        return _same, (self.module,)


def _same(model: nn.Module) -> nn.Module:
    return model
