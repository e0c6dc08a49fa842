"""What the launches of a set of variants amount to on a graph, as one array of numbers.

Cost models and the roofline model see nothing else of a launch. What depends on the variants
alone is prepared once (`CandidateTable.of`), so that a new graph costs a few array operations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from hetune.variants.graph.edge_batch import EdgeBatch
from hetune.variants.graph.row_groups import block_counts
from hetune.variants.graph.type_chunks import most_chunks, num_chunks
from hetune.variants.kernel.blocks import is_node_blocked
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.gpu_schedule import AnySchedule
from hetune.variants.kernel.nodes import (
    Gemm,
    Kernel,
    Launch,
    Outer,
    Rows,
    Schedule,
    Traversal,
)
from hetune.variants.kernel.passes.phases import phased
from hetune.variants.kernel.passes.softmax_forms import expanded, if_moderate
from hetune.variants.kernel.passes.terms import Term
from hetune.variants.kernel.passes.work import formula
from hetune.variants.kernel.walk import domains
from hetune.variants.plan.choices import Side
from hetune.variants.plan.sides import default_variant, run_on
from hetune.variants.plan.variants import Variant, device_of
from hetune.variants.program.nodes import ALL_EDGES, Space
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.gpu_columns import GpuColumns
from hetune.variants.runtime.launch_columns import (
    COLUMNS,
    extra_terms,
    loops_of,
    structure_of,
)
from hetune.variants.runtime.plan_facts import facts_of
from hetune.variants.runtime.roofline import MachineModel

PREPARATION = ("nodes", "edges", "regrouped_edges", "source_pairs", "destination_pairs", "launches")
"""What the time before a variant's first run depends on.

The graph's nodes and edges; `regrouped_edges`: its edges once for every group of relations that
gets an index of its own; the pairs that the variant has rows for; and how many launches it runs.
"""

_FAMILIES: Mapping[type[Kernel], str] = MappingProxyType(
    {Gemm: "product", Outer: "outer", Traversal: "traversal"}
)
"""Of launches of one kind of kernel."""
_ELEMENT = 4
_COLUMN = {name: position for position, name in enumerate(COLUMNS)}


@dataclass(frozen=True, slots=True)
class _Terms:
    """Many terms: a factor times an amount, each added to a target.

    Amounts are ``min(incidence @ counts, counts[cap])``; many terms are of the same.
    """

    target: np.ndarray
    factor: np.ndarray
    amount: np.ndarray
    incidence: np.ndarray
    cap: np.ndarray

    def values(self, counts: np.ndarray) -> np.ndarray:
        """The terms; the last count is infinite, the cap of amounts that have none."""
        amounts = np.minimum(self.incidence @ counts[:-1], counts[self.cap])
        found: np.ndarray = self.factor * amounts[self.amount]
        return found


@dataclass(frozen=True, slots=True)
class _TypeSum:
    """A sum of outer products of rows into those of types, and which row of a table it is."""

    row: int
    rows: Rows
    types: Space
    size: int


@dataclass(frozen=True, slots=True)
class _Weights:
    """Edge-typed products of rows: where their types' runs are counted."""

    row: np.ndarray
    run: np.ndarray
    size: np.ndarray


class CandidateTable:
    """The distinct launches, with schedules, of what a set of variants runs. Made by `of`.

    Attributes:
        variants: What they run, each once; all for one device.
        device: That device.
        launches: The launch of each row, with softmaxes in the loops that the device has where no
            score is large, and its schedule.
        families: The kernel family of each row: "product" (products alone), "outer" (a sum of
            outer products), "traversal" or "fused" (products and traversals).
        rows_of: By variant, the rows of its launches, in order.
        place_of: By the id of what is asked for, the position of what it runs.
        default: The position of the default variant.
    """

    def __init__(self, promoted: tuple[Variant, ...], side: Side) -> None:
        runs = run_on(promoted, side)
        variants = tuple(dict.fromkeys(runs))
        rows: dict[tuple[int, AnySchedule], int] = {}
        numbers, launches = dict[int, int](), dict[Launch, int]()  # to hash a launch takes long
        on_cpu = device_of(variants) == "cpu"
        for launch in (launch for variant in variants for launch in variant.plan.launches):
            if id(launch) not in numbers:
                form = expanded(launch, if_moderate) if on_cpu else phased(launch)
                numbers[id(launch)] = launches.setdefault(form, len(launches))
        self.variants = variants
        self.device: Device = device_of(variants)
        places = {variant: place for place, variant in enumerate(variants)}
        self.place_of = {asked.id: places[run] for asked, run in zip(promoted, runs, strict=True)}
        self.rows_of = tuple(
            tuple(
                rows.setdefault((numbers[id(launch)], schedule), len(rows))
                for launch, schedule in zip(variant.plan.launches, variant.schedules, strict=True)
            )
            for variant in variants
        )
        self.default = self.place_of[default_variant(promoted, side).id]
        forms = tuple(launches)
        self.launches = tuple((forms[number], schedule) for number, schedule in rows)
        self.families = tuple(_family(launch) for launch, _ in self.launches)
        self._counted: dict[Rows, int] = {}
        self._runs: dict[tuple[Space, str, int | None], int] = {}
        self._prepare()
        self._gpu = GpuColumns(self.launches) if self.device == "cuda" else None

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of(variants: tuple[Variant, ...], side: Side = "") -> CandidateTable:
        """The table of what these variants run on graphs of a side, remembered."""
        return CandidateTable(variants, side)

    def totals(self, seconds: np.ndarray) -> np.ndarray:
        """Sums over the launches of each variant, float64 [variants], of a value by row."""
        return np.bincount(self._owner, seconds[self._owned], minlength=len(self.variants))

    def offered(self, columns: np.ndarray, machine: MachineModel) -> np.ndarray:
        """Which variants may be chosen on a graph whose columns these are; bool [variants]."""
        return machine.offers(self._scores_edges, self.totals(columns[:, _COLUMN["table_bytes"]]))

    def runs(self, domain: Domain) -> np.ndarray:
        """Whether the launch of each row has anything to do on a graph, bool [rows]."""
        found: np.ndarray = self._walks.values(self._counts(domain)) > 0
        return found

    def rows_on(self, domain: Domain) -> tuple[tuple[int, ...], ...]:
        """As `rows_of`, without launches that have nothing to do on a graph."""
        runs = self.runs(domain)
        return tuple(tuple(row for row in rows if runs[row]) for rows in self.rows_of)

    def columns(self, domain: Domain) -> np.ndarray:
        """The numbers of every row on a graph, float64 [rows, `column_names(self.device)`]."""
        counts, found = self._counts(domain), self._fixed.copy()
        rows = len(found)
        work = np.bincount(
            self._work.target, self._work.values(counts), minlength=rows * len(COLUMNS)
        )
        found += work.reshape(rows, len(COLUMNS))
        self._add_gathers(found, counts)
        nodes = max(domain.graph.num_targets, 1)
        cuts = block_counts(nodes, self._sizes)
        found[:, _COLUMN["blocks"]] = blocks = cuts[:rows]
        found[:, _COLUMN["block_nodes"]] = np.ceil(nodes / blocks)
        self._add_weights(found, domain, cuts[rows:])
        self._add_sums(found, domain)
        if self._gpu is not None:
            found = np.concatenate((found, self._gpu.of(domain)), axis=1)
        return found

    def preparation(self, domain: Domain) -> np.ndarray:
        """What indexing and binding each variant takes, float64 [variants, `PREPARATION`]."""
        graph = domain.graph
        needed = np.array([*map(domain.count, self._needed)], np.float64)
        found = np.empty((len(self.variants), len(PREPARATION)))
        found[:, 0], found[:, 1] = graph.num_nodes, graph.num_edges
        found[:, 2] = graph.num_edges * self._groups
        found[:, 3], found[:, 4] = self._sources @ needed, self._destinations @ needed
        found[:, 5] = self.totals(self.runs(domain).astype(np.float64))
        if isinstance(graph, EdgeBatch):  # no edge is moved, and only what has pairs is bound anew
            is_free = np.array(
                [facts_of(variant.plan).takes_any_order for variant in self.variants]
            )
            found[is_free, :2] = 0
            found[is_free & (found[:, 3:5].sum(axis=1) == 0), 5] = 0
        return found

    def _counts(self, domain: Domain) -> np.ndarray:
        return domain.counts(self._symbols)

    def _add_gathers(self, found: np.ndarray, counts: np.ndarray) -> None:
        amount, table = self._gathered.values(counts), self._tables.values(counts)
        target, rows = self._gathered.target, len(found)
        total = np.bincount(target, amount, minlength=rows)
        weighted = np.bincount(target, amount * table, minlength=rows)
        found[:, _COLUMN["gathered_bytes"]] = total
        found[:, _COLUMN["table_bytes"]] = weighted / np.maximum(total, 1)

    def _add_weights(self, found: np.ndarray, domain: Domain, blocks: np.ndarray) -> None:
        """With the blocks that each run of rows is counted in."""
        stats = domain.index(ALL_EDGES).relation_stats
        groups, used = np.zeros(len(self._runs)), np.zeros(len(self._runs))
        for (space, group), positions in self._blocked.items():
            rows = stats.dst_pairs if space is Space.DST_PAIR else stats.edges
            rows = rows[domain.relations[group]] if group else rows
            used[positions] = np.count_nonzero(rows)
            groups[positions] = np.minimum(rows, blocks[positions, None]).sum(axis=1)
        row, run, size = self._typed.row, self._typed.run, self._typed.size
        count = len(found)
        found[:, _COLUMN["weight_groups"]] = np.bincount(row, groups[run], minlength=count)
        found[:, _COLUMN["weight_loads"]] = np.bincount(row, groups[run] * size, minlength=count)
        found[:, _COLUMN["weight_bytes"]] = np.bincount(row, used[run] * size, minlength=count)

    def _add_sums(self, found: np.ndarray, domain: Domain) -> None:
        """The chunks that rows of one type are summed in, and what their sums take."""
        for each in self._sums:
            counts = domain.rows_by_type(each.rows, each.types)
            chunks, used = num_chunks(counts, most_chunks(each.size)), np.count_nonzero(counts)
            found[each.row, _COLUMN["weight_groups"]] = chunks
            found[each.row, _COLUMN["weight_loads"]] = chunks * each.size * _ELEMENT
            found[each.row, _COLUMN["weight_bytes"]] = used * each.size * _ELEMENT

    # Preparation.

    def _prepare(self) -> None:
        self._scores_edges = np.array([v.choices.plan.scores_edges for v in self.variants])
        self._owner = np.array([v for v, rows in enumerate(self.rows_of) for _ in rows], np.intp)
        plans = {id(variant.plan): variant.plan for variant in self.variants}
        loops = {
            key: {rows for launch in plan.launches for rows in loops_of(launch)}
            for key, plan in plans.items()
        }
        needed = [loops[id(variant.plan)] for variant in self.variants]
        self._needed = tuple(dict.fromkeys(rows for each in needed for rows in each))
        uses = np.array([[r in each for r in self._needed] for each in needed], np.float64)
        self._sources = uses * [r.space is Space.SRC_PAIR for r in self._needed]
        self._destinations = uses * [r.space is Space.DST_PAIR for r in self._needed]
        self._groups = np.array([len({r.group for r in each if r.group}) for each in needed])
        self._owned = np.array([row for rows in self.rows_of for row in rows], np.intp)
        self._fixed = np.zeros((len(self.launches), len(COLUMNS)))
        work: list[tuple[int, Term]] = []
        gathers: list[tuple[int, Term]] = []
        tables: list[tuple[int, Term]] = []
        typed: list[tuple[int, int, int]] = []
        sums: list[_TypeSum] = []
        walks = [(row, Term(1, domains(launch))) for row, (launch, _) in enumerate(self.launches)]
        forms = {id(launch): launch for launch, _ in self.launches}
        formulas = {key: formula(launch) for key, launch in forms.items()}
        for row, (launch, schedule) in enumerate(self.launches):
            for name, position in structure_of(launch, schedule):
                self._fixed[row, _COLUMN[name]] = position
            base = row * len(COLUMNS)
            known = formulas[id(launch)]
            work += [(base + _COLUMN[name], term) for name, term in known.terms]
            work += [(base + _COLUMN[name], term) for name, term in extra_terms(launch)]
            work += [
                (base + _COLUMN["pair_gathers"], Term(1, gathered.rows))
                for gathered, table in known.gathers
                if table.cap is not None and table.cap.space is Space.SRC_PAIR
            ]
            gathers += [(row, gathered) for gathered, _ in known.gathers]
            tables += [(row, table) for _, table in known.gathers]
            typed += [
                (row, run, kernel.heads * kernel.k * kernel.n * _ELEMENT)
                for kernel in launch.kernels
                if (run := self._run(kernel, launch, schedule)) is not None
                and isinstance(kernel, Gemm)
            ]
            if isinstance(schedule, Schedule):  # a GPU adds up as it comes
                sums += (
                    _TypeSum(row, kernel.rows, into.space, into.width)
                    for kernel in launch.kernels
                    if isinstance(kernel, Outer) and (into := launch.type_of(kernel.out))
                )
        self._sums = tuple(sums)
        for _, term in (*work, *gathers, *tables, *walks):
            for rows in (*term.rows, *((term.cap,) if term.cap else ())):
                self._counted.setdefault(rows, len(self._counted))
        self._symbols = tuple(self._counted)
        self._work, self._gathered = self._terms(work), self._terms(gathers)
        self._tables, self._walks = self._terms(tables), self._terms(walks)
        columns = np.array(typed, np.intp).reshape(-1, 3).T
        self._typed = _Weights(columns[0], columns[1], columns[2].astype(np.float64))
        walked: dict[tuple[Space, str], list[int]] = {}
        for (space, group, _), position in self._runs.items():
            walked.setdefault((space, group), []).append(position)
        self._blocked = {key: np.array(runs, np.intp) for key, runs in walked.items()}
        # Of each row, then of each run; without blocks, all nodes are in one.
        sizes = *self._fixed[:, _COLUMN["block_nodes"]], *(nodes or 0 for *_, nodes in self._runs)
        self._sizes = np.array([size or math.inf for size in sizes], np.float64)

    def _run(self, kernel: Kernel, launch: Launch, schedule: AnySchedule) -> int | None:
        """Which count of runs tells how often a product's weights are loaded."""
        if not isinstance(kernel, Gemm) or launch.type_of(kernel.w).space is not Space.ETYPE:
            return None
        blocks = None
        if isinstance(schedule, Schedule) and is_node_blocked(launch):
            blocks = schedule.block_nodes
        space = Space.DST_PAIR if kernel.rows.space is Space.DST_PAIR else Space.EDGE
        return self._runs.setdefault((space, kernel.rows.group, blocks), len(self._runs))

    def _terms(self, terms: Iterable[tuple[int, Term]]) -> _Terms:
        found = list(terms)
        amounts: dict[tuple[tuple[Rows, ...], Rows | None], int] = {}
        which = [amounts.setdefault((term.rows, term.cap), len(amounts)) for _, term in found]
        infinite = len(self._counted)
        incidence = np.zeros((len(amounts), infinite))
        for (summed, _), position in amounts.items():
            for rows in summed:
                incidence[position, self._counted[rows]] += 1
        return _Terms(
            np.array([target for target, _ in found], np.intp),
            np.array([term.factor for _, term in found], np.float64),
            np.array(which, np.intp),
            incidence,
            np.array([self._counted[cap] if cap else infinite for _, cap in amounts], np.intp),
        )


def _family(launch: Launch) -> str:
    kinds = {type(kernel) for kernel in launch.kernels}
    if len(kinds) > 1:
        return "fused"
    return _FAMILIES[kinds.pop()]
