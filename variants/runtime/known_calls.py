"""Calls like earlier ones of a layer, which are not read, or not prepared, again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.batch_calls import BatchCalls
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.layer_runner import LayerRunner
from hetune.variants.runtime.layer_status import LastCall
from hetune.variants.runtime.new_graphs import NewGraphs
from hetune.variants.runtime.repeated_calls import RepeatedCall
from hetune.variants.runtime.supported_calls import SupportedCall
from hetune.variants.runtime.training import Training
from hetune.variants.runtime.weights import WeightCache


class KnownCalls:
    """What a layer has learned of its calls. Safe with several threads.

    Args:
        runs: Who chooses and runs.
        policy: How.
        training: Of the layer; so are weights.
        weights: As they are kept.

    Attributes:
        batches: What runs on batches of edges.
    """

    def __init__(
        self, runs: LayerRunner, policy: Policy, training: Training, weights: WeightCache
    ) -> None:
        self.batches = BatchCalls(runs, policy, weights)
        self._new_graphs = NewGraphs(runs, policy, training, weights)
        self._repeated: RepeatedCall | None = None

    def repeated(self, module: nn.Module, args: tuple[Any, ...]) -> SupportedCall | None:
        """As `supported_call`, of a call on the graph of the one before; None of any other.

        Args:
            module: The layer's.
            args: All that the call gives.
        """
        last = self._repeated  # other threads may forget it
        return None if last is None else last.supported(module, args)

    def forget(self) -> None:
        """Calls like the repeated one are to go the ordinary way."""
        self._repeated = None

    def result(self, module: nn.Module, args: tuple[Any, ...], last: LastCall) -> Any:
        """What a call gives that brings edges of its own, as others did; None of any other.

        Args:
            module: The layer's.
            args: All that the call gives.
            last: Told what it ran.
        """
        found = self.batches.result(module, args, last)
        return self._new_graphs.result(module, args, last) if found is None else found

    def learn(
        self,
        prepared: SupportedCall,
        args: tuple[Any, ...],
        variants: Mapping[str, Variant],
        last: LastCall,
        has_options: bool,
    ) -> None:
        """Makes ready for calls like one that ran the ordinary way.

        Args:
            prepared: What it read as.
            args: All that it gave.
            variants: Of the layer, by id.
            last: What it ran.
            has_options: Whether it had options.
        """
        if last.repeats(prepared[2]) or self._new_graphs.has_seen(args):
            if not last.has_gradients:
                self._repeated = RepeatedCall.of(*prepared, args)
        elif not has_options:
            self._new_graphs.learn(prepared, args, variants, last)
        if not (has_options or last.has_gradients):
            self.batches.learn(prepared, args)
