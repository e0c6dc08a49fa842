"""A knowledge-graph model in a file: what a score computes, and its tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from hetune.variants.errors import InputError, ProgramError
from hetune.variants.frontend.kge.batch import check_queries
from hetune.variants.passes.pairs import is_local
from hetune.variants.program.nodes import Program, Space, Type
from hetune.variants.program.text import parse, show
from hetune.variants.program.verify import verify
from hetune.variants.registry import atomic_files
from hetune.variants.runtime.program_candidates import ProgramCandidates

_PROGRAM = "program"
"""Of a file's metadata: the text of what the score computes."""
_READABLE = 0o644


class ScoreModel:
    """Scores triples of a knowledge graph by tables of its own.

    Args:
        program: What is computed: a number of each edge, from rows of its ends and its type.
        tables: A float tensor for each of the program's parameters: of entities [N, *row shape], of
            relations [R, *row shape], or shared [1, *row shape].

    Attributes:
        program: What is computed.
        tables: By name.
        num_entities: N.
        num_relations: R; None where the score reads no relations.

    Raises:
        InputError: The program gives something else, or a table is missing or does not fit.
    """

    def __init__(self, program: Program, tables: Mapping[str, Tensor]) -> None:
        if len(program.results) != 1 or program.type_of(program.result) != Type(Space.EDGE):
            raise InputError("a score is one number of each edge: its program returns one edge[]")
        if not is_local(program):
            raise InputError("a score reads its edge's ends and type alone: leave sums out")
        names = {param.name for param in program.params}
        if names != tables.keys():
            raise InputError(
                f"the tables are {', '.join(sorted(tables)) or 'none'}: the program has "
                f"{', '.join(sorted(names)) or 'none'}"
            )
        counts: dict[Space, int] = {Space.SHARED: 1}
        for param in program.params:
            table, space = tables[param.name], param.type.space
            if space not in (Space.NODE, Space.ETYPE, Space.SHARED):
                raise InputError(f"{param.name} has rows of {space}: give rows of nodes or types")
            count = counts.setdefault(space, len(table) if table.dim() else 0)
            if table.shape != (count, *param.type.shape) or not table.is_floating_point():
                raise InputError(
                    f"the table {param.name} is {table.dtype} {list(table.shape)}: give floats "
                    f"{[count, *param.type.shape]}"
                )
        if len({table.dtype for table in tables.values()}) > 1:
            raise InputError("the tables have several dtypes: give one")
        if Space.NODE not in counts:
            raise InputError("the score reads no entity: give it a table of nodes")
        self.program, self.tables = program, dict(tables)
        self._scores = ProgramCandidates(program)
        self.num_entities, self.num_relations = counts[Space.NODE], counts.get(Space.ETYPE)

    def all(self, nodes: Tensor, rels: Tensor, *, side: str = "tail") -> Tensor:
        """The scores of all entities as tails, or as heads.

        Args:
            nodes: Numbers of the entities at the other side, integers [B].
            rels: Numbers of relations, integers [B].
            side: "head" or "tail": what is any entity.

        Returns:
            Float [B, N].

        Raises:
            InputError: There is no such side, entity or relation.
        """
        check_queries(nodes, rels, side, self.num_entities, self.num_relations)
        return self._scores.of_all(self.tables, nodes.long(), rels.long(), side)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a `.safetensors` file with the tables, and the program in its metadata."""
        from safetensors.torch import save  # not everywhere where layers are compiled

        tables = {
            name: table.detach().clone(memory_format=torch.contiguous_format)
            for name, table in self.tables.items()
        }
        atomic_files.write_atomically(
            Path(path), save(tables, {_PROGRAM: show(self.program)}), _READABLE
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads what `save` wrote.

        Raises:
            InputError: It is no such file, or its parts do not fit.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "pt") as file:
                text = (file.metadata() or {}).get(_PROGRAM)
                tables = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path} cannot be read as a safetensors file: {error}") from error
        if text is None:
            raise InputError(f"{path} has no program in its metadata: write it by ScoreModel.save")
        try:
            program = parse(text)
            verify(program)
        except ProgramError as error:
            raise InputError(f"the program of {path} is none: {error}") from error
        return cls(program, tables)
