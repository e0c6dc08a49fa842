"""What a launch computes and moves: amounts, and the terms in counts of rows that they sum up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from hetune.variants.kernel.nodes import Rows

Count = Callable[[Rows], int]
"""Rows of a space and group. ``Rows(ETYPE, group)``: the group's edge types that have edges."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a launch does. Counts add up: ``a + b`` is the work of both, one after the other.

    Attributes:
        matrix_flops: Multiplications and additions of typed matrix products.
        vector_flops: Simple elementwise operations.
        special: Evaluations of functions in `work.SPECIAL`.
        read_bytes: Bytes of distinct rows read.
        write_bytes: Bytes of distinct rows written.
        index_bytes: Bytes of index lists followed.
        gathered_bytes: Bytes of rows read at sources, repeats included.
        gathers: Rows read at sources, repeats included.
        touched_bytes: Bytes of all rows read and written, repeats included.
        scratch_bytes: Those of them that are in scratch.
    """

    matrix_flops: int = 0
    vector_flops: int = 0
    special: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    index_bytes: int = 0
    gathered_bytes: int = 0
    gathers: int = 0
    touched_bytes: int = 0
    scratch_bytes: int = 0

    @property
    def flops(self) -> int:
        """All operations, a special function counted as one."""
        return self.matrix_flops + self.vector_flops + self.special

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Work)))


@dataclass(frozen=True, slots=True)
class Term:
    """``factor`` times the count of all ``rows`` together, but of no more than ``cap``."""

    factor: int
    rows: tuple[Rows, ...]
    cap: Rows | None = None

    def at(self, count: Count) -> int:
        """Its value for counts."""
        total = sum(count(rows) for rows in self.rows)
        return self.factor * (total if self.cap is None else min(total, count(self.cap)))


@dataclass(frozen=True, slots=True)
class Formula:
    """The work of a launch before counts are known.

    Attributes:
        terms: What to add up for each field of `Work`.
        gathers: For each read at sources: its bytes, and those of the rows to pick from.
    """

    terms: tuple[tuple[str, Term], ...]
    gathers: tuple[tuple[Term, Term], ...]

    def at(self, count: Count) -> Work:
        """The work on a graph.

        Args:
            count: How many rows there are; asked for the spaces and groups that the launch
                names, and for src_pair and dst_pair of the groups whose edges it walks.
        """
        total = dict.fromkeys((f.name for f in fields(Work)), 0)
        for name, term in self.terms:
            total[name] += term.at(count)
        for gathered, _ in self.gathers:
            total["gathered_bytes"] += gathered.at(count)
        return Work(**total)
