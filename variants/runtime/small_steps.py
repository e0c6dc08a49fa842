"""Calls of a layer on new small graphs of a size: for inference, and steps of training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.adapter import Adapter, Unsupported
from hetune.variants.frontend.autocast import full_precision
from hetune.variants.frontend.call import Call, LooseEdges
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.float32_range import fits
from hetune.variants.runtime.gradients import GradientRunner, in_stages
from hetune.variants.runtime.plan_inputs import weights_of
from hetune.variants.runtime.small_runs import TimedRuns
from hetune.variants.runtime.training import OperatorBackward, Training, differentiated
from hetune.variants.runtime.weights import Weights


class SmallCalls(ABC):
    """What runs calls on graphs of a size.

    Args:
        forward: Runs the layer.
    """

    def __init__(self, forward: TimedRuns) -> None:
        self.forward = forward

    @abstractmethod
    def is_for(self, adapter: Adapter) -> bool:
        """Whether weights are still those that it was made for."""

    @abstractmethod
    def result(self, adapter: Adapter, call: Call, edges: LooseEdges) -> Any:
        """What a call returns; None where it has to go the ordinary way."""


class SmallInference(SmallCalls):
    """Without gradients.

    Args:
        forward: Runs the layer.
        weights: What it keeps of these.
    """

    def __init__(self, forward: TimedRuns, weights: Weights) -> None:
        super().__init__(forward)
        self._weights = weights

    def is_for(self, adapter: Adapter) -> bool:
        """Whether no parameter was written to since."""
        return self._weights.version is adapter.parameters_version()

    def result(self, adapter: Adapter, call: Call, edges: LooseEdges) -> Any:
        """See `SmallCalls`."""
        found = self.forward.run(edges, edges.rows)
        return None if found is None else edges.result(*found.values())


class SmallGradients:
    """A backward on graphs of one type of nodes, of a size.

    Args:
        runner: Runs it on others.
        stages: Run it on these.
        policy: How the layer chooses.
        num_etypes: Of all graphs.
    """

    def __init__(
        self, runner: GradientRunner, stages: list[TimedRuns], policy: Policy, num_etypes: int
    ) -> None:
        self.runner, self._stages = runner, stages
        self._policy, self._num_etypes = policy, num_etypes
        self.types = self._graph([torch.empty(0, dtype=torch.int32)] * 3, 1)

    @classmethod
    def of(
        cls, runner: GradientRunner, graph: HeteroGraph, policy: Policy
    ) -> SmallGradients | None:
        """That of a layer's backward; None where graphs of a size take graph objects.

        Args:
            runner: Runs it.
            graph: One of the size.
            policy: How the layer chooses.
        """
        if graph.num_ntypes > 1 or not all(isinstance(each, str) for each in runner.results):
            return None
        made = [stage.small_runs(graph, in_stages(policy)) for stage in runner.stages]
        stages = [stage for stage in made if stage]
        is_whole = len(stages) == len(made)
        return cls(runner, stages, policy, graph.num_etypes) if is_whole else None

    def run(self, edges: LooseEdges, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Gradients by parameter.

        Args:
            edges: Of the call, as they were.
            values: What it reads, as of `GradientRunner.run`.
        """
        with full_precision("cpu"):
            if (found := self._by_stages(edges, values)) is not None:
                return found
            ((src, dst, etype, _),) = edges.parts
            etype = etype if isinstance(etype, Tensor) else torch.zeros_like(src)
            graph = self._graph([src, dst, etype], sum(edges.nodes))
            return self.runner.run(graph, self._policy, values)

    def _by_stages(
        self, edges: LooseEdges, values: Mapping[str, Tensor]
    ) -> dict[str, Tensor] | None:
        """As `run`; None where numbers outgrow float32."""
        runner, known, turned = self.runner, dict(values), edges.reversed()
        for stage, runs in zip(runner.stages, self._stages, strict=True):
            weights = weights_of(runs.variant.plan, known, self.types, torch.float32)
            found = runs.run(turned if stage.is_reversed else edges, known, weights)
            if found is None:
                return None
            known |= found
        return {
            name: known[str(each)] for name, each in zip(runner.wanted, runner.results, strict=True)
        }

    def _graph(self, columns: list[Tensor], nodes: int) -> HeteroGraph:
        return HeteroGraph(*columns, num_nodes=nodes, num_etypes=self._num_etypes)


class SmallTraining(SmallCalls):
    """A step of training.

    Args:
        forward: Runs the layer.
        gradients: Its backward.
        training: Of the layer.
    """

    def __init__(self, forward: TimedRuns, gradients: SmallGradients, training: Training) -> None:
        super().__init__(forward)
        self._gradients, self._training = gradients, training

    def is_for(self, adapter: Adapter) -> bool:
        """Weights are given with each call."""
        return True

    def result(self, adapter: Adapter, call: Call, edges: LooseEdges) -> Any:
        """See `SmallCalls`."""
        inputs = {name: rows.float() for name, rows in edges.rows.items()}
        found = self._training.parameters(adapter, call, inputs)
        if isinstance(found, Unsupported):
            return None
        parameters, runner = found
        if runner is not self._gradients.runner:
            return None
        results = self._results({**inputs, **parameters}, edges)
        if results is None:
            return None
        run = partial(self._gradients.run, edges.copied())
        constants = {name: rows for name, rows in inputs.items() if name not in parameters}
        backward = OperatorBackward(adapter.program, runner.reads, run, constants, (*parameters,))
        return edges.result(*differentiated(lambda _: results, backward, parameters))

    def _results(self, given: Mapping[str, Tensor], edges: LooseEdges) -> tuple[Tensor, ...] | None:
        plan = self.forward.variant.plan
        with torch.no_grad():
            weights = weights_of(plan, given, self._gradients.types, torch.float32)
            found = self.forward.run(edges, given, weights) if fits(weights, given) else None
            return None if found is None else (*found.values(),)
