"""Gradients of a program: stages, each chosen and run as a layer, on the graph or its reverse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from hetune.variants.backends.base import Backend
from hetune.variants.compiler.pipeline import Compiler
from hetune.variants.errors import MemoryLimitError, ProgramError
from hetune.variants.graph.float_memory import zeros_like_rows
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.reverse import reversed_graph
from hetune.variants.graph.row_sums import add_rows
from hetune.variants.graph.state import GraphSlot
from hetune.variants.passes.backward import backward, backward_by_edges
from hetune.variants.passes.edge_gradients import EdgeTerm, Gradient, names_of
from hetune.variants.passes.stages import Stage
from hetune.variants.plan.variants import Variant
from hetune.variants.program.interpret import interpret_results
from hetune.variants.program.limitation import limitation
from hetune.variants.program.nodes import End, Program, Space, Type, operands
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.choice import Choice
from hetune.variants.runtime.domain import split_relations
from hetune.variants.runtime.edge_rows import EdgeOrders, OrderedRows, in_graph_order
from hetune.variants.runtime.float32_range import Overflow, may_differ
from hetune.variants.runtime.layer_runner import LayerRunner
from hetune.variants.runtime.plan_inputs import weights_of
from hetune.variants.runtime.small_runs import TimedRuns
from hetune.variants.runtime.warm import Progress, compile_kernels

_Done = TypeVar("_Done")
_FITTING = GraphSlot[int, int]()
_ID_BYTES = 4
Rows = Mapping[str, Tensor | OrderedRows]
"""Tensors [rows, *row shape] by the names of a program; edges in whatever order."""


class StageRunner:
    """Runs one stage of a backward.

    Args:
        stage: What to run.
        backend: What compiles and runs it.

    Attributes:
        is_reversed: Whether it runs on the reverse of the call's graph.
        limitation: Why there are no kernels for it, or None.
    """

    def __init__(self, stage: Stage, backend: Backend) -> None:
        self._stage, self._runs, self.is_reversed = stage, LayerRunner(backend), stage.is_reversed
        self.limitation = None if stage.is_weights else limitation(stage.program)
        self._is_interpreted = stage.is_weights or self.limitation is not None
        types = stage.program.types
        self._edges = [n for n in stage.program.results if types[n].space is Space.EDGE]

    @cached_property
    def _variants(self) -> dict[str, Variant]:
        found = Compiler(self._runs.backend).schedule(self._stage.program)
        return {variant.id: variant for variant in found}

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Names of what it is given."""
        return tuple(param.name for param in self._stage.program.params)

    def result_bytes(self, graph: HeteroGraph) -> dict[str, int]:
        """What its results take."""
        graph, program = self._graph(graph), self._stage.program
        return {name: _bytes(program.type_of(name), graph) for name in program.results}

    def run(
        self, graph: HeteroGraph, policy: Policy, values: Rows
    ) -> Mapping[str, Tensor | OrderedRows]:
        """Its results by name.

        Args:
            graph: Of the layer's call.
            policy: How to choose.
            values: What it reads, and perhaps more.

        Raises:
            MemoryLimitError: No variant fits the limit.
            CompileError: A variant does not compile.
        """
        graph, program = self._graph(graph), self._stage.program
        if self._is_interpreted:
            return self._interpreted(graph, values, torch.float32)
        known = {name: values[name] for name in self.reads}
        given = {n: v.rows if isinstance(v, OrderedRows) else v for n, v in known.items()}
        ordered = {name: v.places for name, v in known.items() if isinstance(v, OrderedRows)}
        chosen, _ = self._runs.next(self._variants, graph, policy)
        weights = weights_of(chosen.variant.plan, given, graph, torch.float32)
        rows = {param.name: given[param.name] for param in program.params if param.role != "weight"}
        overflow = Overflow()
        run = graph, chosen, policy, rows, weights, None, overflow
        results = self._runs.run(*run, orders=EdgeOrders(ordered, kept=True))
        if overflow.happened and may_differ(results, given.values()):
            return self._interpreted(graph, values, torch.float64)
        named = dict(zip(program.results, results, strict=True))
        bound = self._runs.executable(chosen.variant, graph) if self._edges else None
        if bound is None or (places := bound.results.places) is None:
            return named
        return {**named, **{name: OrderedRows(named[name], places) for name in self._edges}}

    def _interpreted(
        self, graph: HeteroGraph, values: Rows, dtype: torch.dtype
    ) -> dict[str, Tensor]:
        given = {name: in_graph_order(values[name]) for name in self.reads}
        return _interpreted(self._stage.program, given, graph, dtype)

    def choice(self, graph: HeteroGraph, policy: Policy) -> Choice | None:
        """What suits a graph, and why; None of what is interpreted.

        Raises:
            MemoryLimitError: No variant fits the limit.
        """
        if self._is_interpreted:
            return None
        return self._runs.choice(self._variants, self._graph(graph), policy)

    def warm(self, graph: HeteroGraph, policy: Policy, progress: Progress | None) -> None:
        """Compiles and indexes what runs on a graph may need.

        Raises:
            MemoryLimitError: No variant fits the limit.
            CompileError: A kernel does not compile.
        """
        if self._is_interpreted:
            return
        graph = self._graph(graph)
        variants = self._runs.foreseen(self._variants, graph, policy)
        compile_kernels(variants, self._runs.backend, graph.device, progress)
        for variant in variants:
            self._runs.executable(variant, graph)

    def is_ready(self, graph: HeteroGraph, policy: Policy) -> bool:
        """Whether it is known what `small_runs` would run, or that this is nothing."""
        if self._is_interpreted:
            return True
        return self._runs.of_size(self._graph(graph), policy) is not None

    def small_runs(self, graph: HeteroGraph, policy: Policy) -> TimedRuns | None:
        """What runs it on new graphs like one; None where they take a graph object.

        Args:
            graph: Of a layer's call.
            policy: How it chooses.
        """
        if self._is_interpreted:
            return None
        graph = self._graph(graph)
        variant = self._variants.get(self._runs.of_size(graph, policy) or "")
        return TimedRuns.of(self._runs, variant, graph, {}) if variant else None

    def _graph(self, graph: HeteroGraph) -> HeteroGraph:
        return reversed_graph(graph) if self.is_reversed else graph


class GradientRunner:
    """Computes gradients of a program by some of its parameters.

    Args:
        program: What is differentiated.
        wanted: By which of its parameters.
        backend: What compiles and runs it.
        by_edges: Whether edges come once, so that none are put in order.

    Attributes:
        wanted: As given.
        results: The gradient of each: the result of a stage, or a sum.
        stages: In order.
        reads: Features and weights of the program whose values it needs.
        trains_weights: Whether it gives gradients of weights.

    Raises:
        ProgramError: Something has no derivative.
    """

    def __init__(
        self, program: Program, wanted: tuple[str, ...], backend: Backend, by_edges: bool = False
    ) -> None:
        self._program, self.wanted = program, wanted
        self.results, stages = _gradients(program, wanted, by_edges)
        self.stages = tuple(StageRunner(stage, backend) for stage in stages)
        self._again = _computed_again(program, stages)
        read = {name for stage in self.stages for name in stage.reads}
        self.reads = tuple(
            param.name
            for param in program.params
            if param.name in read and param.role != "constant"
        )
        weights = {param.name for param in program.params if param.role == "weight"}
        self.trains_weights = not weights.isdisjoint(wanted)
        self._kept = {name for each in self.results for name in names_of(each)}
        self._last_read = {name: i for i, stage in enumerate(self.stages) for name in stage.reads}
        self._num_orders = _orders_between(stages)

    def run(self, graph: HeteroGraph, policy: Policy, values: Rows) -> dict[str, Tensor]:
        """Gradients by parameter, float32 [rows, *row shape].

        Args:
            graph: Of the call.
            policy: How the layer chooses.
            values: What it reads, constants, and the gradient of each result by `gradient_name`.

        Raises:
            MemoryLimitError: No variant fits the limit.
            CompileError: A variant does not compile.
        """
        known, policy = dict[str, Tensor | OrderedRows](values), in_stages(policy)
        for i, stage in enumerate(self.stages):
            known |= self._within(stage.run, i, graph, policy)(known)
            for name in stage.reads:
                if self._last_read[name] == i and name not in self._kept:
                    del known[name]
        return {
            name: in_graph_order(known[result])
            if isinstance(result, str)
            else _sum_of(result, known, graph)
            for name, result in zip(self.wanted, self.results, strict=True)
        }

    def check_memory(self, graph: HeteroGraph, policy: Policy) -> None:
        """Checks that all stages fit the limit, once for a graph.

        Raises:
            MemoryLimitError: One does not.
        """
        if policy.memory_limit is not None:
            limit, check = policy.memory_limit, lambda: len(self._choices(graph, policy))
            graph.state.of(_FITTING, limit, check, owner=self)

    def explained(self, choice: Choice, graph: HeteroGraph, policy: Policy) -> Choice:
        """The choice of a forward with what its backward would run, and why. See `run`."""
        params = (param for param in self._program.params if param.name in self.reads)
        held = {param.name: _bytes(param.type, graph) for param in params}
        backward = self._choices(graph, policy)
        return replace(choice, backward=backward, held=held, computed_again=self._again)

    def _choices(self, graph: HeteroGraph, policy: Policy) -> tuple[Choice, ...]:
        policy = in_stages(policy)
        found = (
            self._within(stage.choice, i, graph, policy)() for i, stage in enumerate(self.stages)
        )
        return tuple(choice for choice in found if choice is not None)

    def warm(self, graph: HeteroGraph, policy: Policy, progress: Progress | None = None) -> None:
        """Compiles and indexes what runs on a graph may need. See `run`."""
        policy = in_stages(policy)
        for i, stage in enumerate(self.stages):
            self._within(stage.warm, i, graph, policy)(progress)

    def _within(
        self, do: Callable[..., _Done], i: int, graph: HeteroGraph, policy: Policy
    ) -> Callable[..., _Done]:
        """What a stage does beside what others hold, within the policy's limit."""
        limit = policy.memory_limit
        if limit is None:
            return partial(do, graph, policy)
        held = self._held(i, graph)

        def within(*args: Any) -> _Done:
            try:
                return do(graph, policy.limited(limit - held), *args)
            except MemoryLimitError as error:
                needed = error.needed + held
                raise MemoryLimitError(
                    f"stage {i + 1} of {len(self.stages)} of the backward needs {needed} bytes, "
                    f"{held} of them for what stages hand on, and the limit is {limit}: raise "
                    "memory_limit to at least that",
                    needed,
                ) from None

        return within

    def _held(self, i: int, graph: HeteroGraph) -> int:
        """Bytes of what stages before one computed for it, for later ones, or for the caller.

        Orders of edges, which stay with the graph, count in all stages.
        """
        found = {name: n for s in self.stages[:i] for name, n in s.result_bytes(graph).items()}
        rows = sum(
            taken
            for name, taken in found.items()
            if self._last_read.get(name, -1) >= i or name in self._kept
        )
        return rows + _ID_BYTES * self._num_orders * graph.num_edges


def _gradients(
    program: Program, wanted: tuple[str, ...], by_edges: bool
) -> tuple[tuple[Gradient, ...], tuple[Stage, ...]]:
    found = backward_by_edges(program, wanted) if by_edges else None
    if found is None:
        whole = backward(program, wanted)
        return whole.results, whole.stages
    return found


def _sum_of(terms: tuple[EdgeTerm, ...], rows: Rows, graph: HeteroGraph) -> Tensor:
    first = rows[terms[0].rows]
    first = first.rows if isinstance(first, OrderedRows) else first
    count = graph.num_etypes if terms[0].end is End.NONE else graph.num_nodes
    ids = {End.SRC: graph.src, End.DST: graph.dst, End.NONE: graph.etype}
    found = zeros_like_rows(count, first)
    for term in terms:
        add_rows(found, ids[term.end], in_graph_order(rows[term.rows]).view_as(first), term.factor)
    return found


def gradient_runner(
    program: Program, wanted: tuple[str, ...], backend: Backend, by_edges: bool = False
) -> GradientRunner | str:
    """What computes gradients by some parameters, or why nothing does: see `GradientRunner`."""
    try:
        runner = GradientRunner(program, wanted, backend, by_edges)
    except ProgramError as error:
        return str(error)
    reasons = (stage.limitation for stage in runner.stages)
    reason = next((reason for reason in reasons if reason), None)
    if reason is not None and backend.name != "torch":
        return reason
    return runner


def _computed_again(program: Program, stages: tuple[Stage, ...]) -> tuple[str, ...]:
    """The values of a program that stages compute, which need no gradients."""
    known = {param.name for param in program.params}
    for let in (let for stage in stages for let in stage.program.lets):
        if known.issuperset(operands(let.op)):
            known.add(let.name)
    return tuple(let.name for let in program.lets if let.name in known)


def _orders_between(stages: tuple[Stage, ...]) -> int:
    """How many stages read rows of edges that others left in the order of the other side."""
    left: dict[str, bool] = {}
    found = 0
    for stage in stages:
        read = (left.get(param.name) for param in stage.program.params)
        found += any(side is not None and side != stage.is_reversed for side in read)
        types = stage.program.types
        edges = (name for name in stage.program.results if types[name].space is Space.EDGE)
        left |= dict.fromkeys(edges, stage.is_reversed)
    return found


def _bytes(kind: Type, graph: HeteroGraph) -> int:
    """Of rows of nodes, of edges or of types, in float32."""
    counts = {
        Space.NODE: graph.num_targets,
        Space.SOURCE: graph.num_sources,
        Space.EDGE: graph.num_edges,
        Space.NTYPE: graph.num_ntypes,
        Space.ETYPE: graph.num_etypes,
    }
    return 4 * counts.get(kind.space, 1) * kind.width


def in_stages(policy: Policy) -> Policy:
    """How the stages of a layer's backward are chosen. Each run computes their weights."""
    return replace(
        policy, explore=False, cuda_graph=False, precision="float32", weights_change=True
    )


def _interpreted(
    program: Program, given: Mapping[str, Tensor], graph: HeteroGraph, dtype: torch.dtype
) -> dict[str, Tensor]:
    values = {
        param.name: given[param.name].reshape(-1, *param.type.shape).to(dtype)
        for param in program.params
    }
    found = interpret_results(
        program, values, graph, split_relations(graph).groups if program.groups else {}
    )
    return {name: rows.float() for name, rows in zip(program.results, found, strict=True)}
