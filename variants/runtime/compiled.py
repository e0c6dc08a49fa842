"""`hetune.compile`: a module that runs the variant that suits its input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.backends.base import Backend
from hetune.variants.compiler.pipeline import Compiler
from hetune.variants.errors import InputError, VariantError
from hetune.variants.frontend.adapter import Adapter, Arguments, Unsupported
from hetune.variants.frontend.autocast import Autocast, cast, full_precision
from hetune.variants.frontend.dropout import draw_masks
from hetune.variants.frontend.pyg_lazy import initialize
from hetune.variants.frontend.tracing.cached_edges import unfilled
from hetune.variants.frontend.type_order import NAME_TYPES, order_of
from hetune.variants.frontend.wrapper import ModuleWrapper
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.streams import now_on
from hetune.variants.graph.vocabulary import Vocabulary
from hetune.variants.kernel.precision import Precision
from hetune.variants.plan.variants import Variant
from hetune.variants.registry.openmp import survive_forks
from hetune.variants.runtime import fallback, global_hooks
from hetune.variants.runtime.call_kinds import CallKinds
from hetune.variants.runtime.call_options import CallOptions
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.choice import Choice, check_demands
from hetune.variants.runtime.edges import GraphCache
from hetune.variants.runtime.float32_range import OUTGROWN, OutgrownError, Overflow, may_differ
from hetune.variants.runtime.graph_break import outside_of_graphs
from hetune.variants.runtime.graph_ops import GraphCalls, graph_calls
from hetune.variants.runtime.known_calls import KnownCalls
from hetune.variants.runtime.layer_runner import LayerRunner
from hetune.variants.runtime.layer_sharing import LayerSharing
from hetune.variants.runtime.layer_status import LastCall, LayerStatus
from hetune.variants.runtime.layer_use import LayerUse
from hetune.variants.runtime.modes import transform
from hetune.variants.runtime.supported_calls import SupportedCall, supported_call
from hetune.variants.runtime.training import Training, trains_weights
from hetune.variants.runtime.warm import Progress, compile_kernels, with_features
from hetune.variants.runtime.weights import WeightCache

_NONE = CallOptions()


class CompiledLayer(ModuleWrapper):
    """A layer that chooses among its compiled variants for every graph. Made by `compile`.

    Where gradients are needed, they are computed by compiled variants, too.

    Attributes:
        module: The original module. Its attributes and methods are this module's, too.
        variants: Ids of the promoted variants; empty as long as the module is not supported.
        vocabulary: Names of the types that the weights are for, in their order, where it was told.
    """

    def __init__(
        self,
        module: nn.Module,
        backend: Backend,
        policy: Policy,
        vocabulary: Vocabulary | None = None,
        sharing: LayerSharing | None = None,
        call: Arguments | None = None,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        survive_forks()
        self._runs, self._policy = LayerRunner(backend), policy
        self._adapter: Adapter | None = None
        self._promoted: dict[str, Variant] = {}
        self._weights, self._graphs = WeightCache(), GraphCache()
        self._autocast, self._training = Autocast(), Training(backend)
        self._sharing, self._last = sharing or LayerSharing(), LastCall()
        self._graph_calls: GraphCalls | None = None
        self._kinds = CallKinds[CompiledLayer]()
        self._known = KnownCalls(self._runs, policy, self._training, self._weights)
        self.training = module.training
        self.module = module
        found = self._adapted(call)
        if isinstance(found, Unsupported) and not found.needs_call:
            self._sharing.warn(module, found.reason)

    @property
    def variants(self) -> tuple[str, ...]:
        """Ids of the promoted variants."""
        self._adapted()
        return tuple(self._promoted)

    @property
    def precision(self) -> Precision:
        """What variants may store tables in."""
        return self._policy.precision

    def check_graph(self, graph: HeteroGraph, mend: str = NAME_TYPES) -> None:
        """Raises `InputError`, which ends with `mend`, unless a graph has the layer's types."""
        if isinstance(adapter := self._adapted(), Adapter):
            order_of(adapter, graph, mend)

    def _adapted(self, call: Arguments | None = None) -> Adapter | Unsupported:
        """The module's adapter, made as soon as its state, or a call's arguments, allow it."""
        if self._adapter is not None:
            return self._adapter
        adapter = self._traced(call)
        if isinstance(adapter, Unsupported):
            return adapter
        compiler = Compiler(self._runs.backend)
        variants = compiler.schedule(adapter.program, self._policy.precision)
        self._promoted = {variant.id: variant for variant in variants}
        self._adapter, self._graphs = adapter, self._sharing.graphs(adapter)
        self._graph_calls = graph_calls(adapter, self._run)
        return adapter

    def _traced(self, call: Arguments | None) -> Adapter | Unsupported:
        return Compiler(self._runs.backend).trace(self.module, self.vocabulary, call)

    def forward(
        self,
        *args: Any,
        variant: str | None = None,
        memory_limit: int | None = None,
        out: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Runs the layer, called as the original module is.

        Args:
            *args: As the original's; a `HeteroGraph` may stand for the edge tensors.
            variant: Id of the variant to run; the selector's choice if None.
            memory_limit: As of `compile`, for this call.
            out: Where to write the result, float32 [N, width], contiguous.
            **kwargs: As the original's.

        Raises:
            InputError: A tensor's dtype, shape or device does not fit, or the call runs in the
                original module, which keeps to no variant, limit or out. (If that is only for
                what outgrows float32, the result is copied to out.) Or a number outgrows float32
                in the variant that is named, on a CPU.
            GraphError: The edges are no graph.
            VariantError: No variant has this id.
            MemoryLimitError: No variant fits the limit, or this one does not.
        """
        options = CallOptions(variant, memory_limit, out)
        if torch.compiler.is_dynamo_compiling():
            if torch.compiler.is_exporting():
                return self.module(*args, **kwargs)
            calls = self._graph_calls if options.are_none else None
            if calls and (found := calls.call(args, kwargs)) is not None:
                return found
        return self._run(args, kwargs, options)

    @outside_of_graphs(
        "hetune's layers are operators in torch's graphs with tensors, without gradients or "
        "options, and some after a first call: this call stays outside"
    )
    def _run(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: CallOptions = _NONE
    ) -> Any:
        options.check()
        if not kwargs and (found := self._run_again(args, options)) is not None:
            return found
        run = partial(self._run_once, kwargs, options)
        if not global_hooks.are_registered():
            return run(self.module, args)
        without_hooks = partial(run, self.module.forward)
        return global_hooks.run_between(self.module, args, kwargs, without_hooks)

    def _run_again(self, args: tuple[Any, ...], options: CallOptions) -> Any:
        """The result of a call like earlier ones, and None of any other."""
        known = self._known.repeated(self.module, args)
        if known is None or not (options.out is None or known[1].takes_out):
            return self._known.result(self.module, args, self._last) if options.are_none else None
        _, call, graph = known
        try:
            return call.result(graph, self._results(known, options, call.inputs(graph)))
        except OutgrownError:
            self._known.forget()  # numbers like these may come again, each time to run twice
            return None

    def _run_once(
        self,
        kwargs: Mapping[str, Any],
        options: CallOptions,
        original: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> Any:
        prepared, (variant, _, out) = self._prepare(args, kwargs, is_run=True), options
        if isinstance(prepared, Unsupported):
            if (layer := self._of_kind(prepared, (args, kwargs))) is not None:
                return layer._run_once(kwargs, options, original, args)
            return self._fall_back(original, prepared, args, kwargs, options)
        try:
            found = self._compute(prepared, options)
        except OutgrownError:
            if variant is not None:
                raise
        else:
            if isinstance(found, Unsupported):
                return self._fall_back(original, found, args, kwargs, options)
            if not kwargs:
                has_options = not options.are_none
                self._known.learn(prepared, args, self._promoted, self._last, has_options)
            return found
        without_out = options._replace(out=None)
        rows = self._fall_back(original, Unsupported(OUTGROWN), args, kwargs, without_out)
        if out is None:
            return rows
        adapter, call, graph = prepared
        wanted = out.flatten().view(-1, adapter.result_width)
        return fallback.copied_to(call.result(graph, (wanted,)), rows)

    def _of_kind(self, why: Unsupported, call: Arguments) -> CompiledLayer | None:
        """The layer for a call that this one's program is not for."""
        layer = self._kinds.layer(why.kind, partial(self._around, self.module, call))
        if layer is not None:
            layer._last = self._last
        return layer

    def _compute(self, prepared: SupportedCall, options: CallOptions) -> Any:
        (adapter, call, graph), (_, memory_limit, out) = prepared, options
        if out is not None and not call.takes_out:
            raise InputError(fallback.NO_OUT)
        inputs = {name: rows.float() for name, rows in call.inputs(graph).items()}
        device, policy = graph.device, self._policy.limited(memory_limit)
        dtypes = self._autocast.dtypes(adapter, call, device) if out is None else torch.float32
        masks = draw_masks(adapter.inputs, adapter.dropout, graph)
        forward = partial(self._results, prepared, options)
        with full_precision(device.type):
            results = (
                self._training.results(forward, adapter, call, graph, inputs, masks, policy, out)
                if self._training.is_needed(adapter, call)
                else forward({**inputs, **masks.rows()})
            )
        if isinstance(results, Unsupported):
            return results
        self._last.has_gradients = any(rows.requires_grad for rows in results)
        return cast(call.result(graph, results), dtypes)

    def _results(
        self, prepared: SupportedCall, options: CallOptions, inputs: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        (adapter, call, graph), (variant, memory_limit, out) = prepared, options
        policy = self._policy.limited(memory_limit, trains_weights(adapter.program, inputs))
        device, overflow = graph.device, Overflow()
        chosen, tell = self._runs.next(self._promoted, graph, policy, variant)
        try:
            self._last.set(chosen.variant.id, None)
            start = now_on(device, tell is not None)
            weights = self._weights.weights(chosen.variant.plan, adapter, graph, call.edges, inputs)
            given = inputs, weights.tensors, out, overflow
            results = self._runs.run(graph, chosen, policy, *given, is_timed=tell is not None)
            if tell is not None:
                tell(now_on(device, True) - start)
        except Exception as error:
            if tell is not None and not isinstance(error, InputError):  # no variant's fault
                tell(math.inf)
            raise
        if not weights.fit or (
            overflow.happened and may_differ(results, (*inputs.values(), *weights.tensors.values()))
        ):
            raise OutgrownError(variant or chosen.variant.id)
        return results

    def status(self, name: str = "") -> LayerStatus:
        """Whether the layer is compiled, or why not, and what its last call ran.

        Args:
            name: Of the layer, in its model.
        """
        found, kind, last = self._adapted(), type(self.module).__name__, self._last
        reason = found.reason if isinstance(found, Unsupported) else found.refusal()
        ran = last.variant, last.reason, last.has_gradients
        return LayerStatus(name, kind, tuple(self._promoted), reason, *ran)

    def run_module(self, *args: Any) -> Any:
        """What the original module gives for a call that a variant cannot be trusted with.

        Args:
            *args: Of the call: rows, and a graph.
        """
        args, kwargs = fallback.arguments_for(self.module, self._adapter, args, {})
        return self.module(*args, **kwargs)

    def explain(
        self, *args: Any, memory_limit: int | None = None, gradients: bool = False, **kwargs: Any
    ) -> Choice:
        """What calls with these arguments settle on, and why. Printed, it is a table.

        With gradients, it says what their backward would run, too.

        Raises:
            InputError: The memory limit is no integer.
            VariantError: The call is not supported and would run in the original module.
        """
        with unfilled(self.module):
            layer, (adapter, call, graph) = self._prepare_choice(args, kwargs)
        runner = layer._training.backward_of(adapter, call, graph) if gradients else None
        policy = layer._policy.limited(memory_limit, bool(runner and runner.trains_weights))
        choice = layer._runs.choice(layer._promoted, graph, policy)
        return runner.explained(choice, graph, policy) if runner else choice

    def warm(
        self,
        *args: Any,
        memory_limit: int | None = None,
        progress: Progress | None = None,
        gradients: bool = False,
        **kwargs: Any,
    ) -> tuple[str, ...]:
        """Compiles and indexes all that calls on a graph may need, so that none waits for it.

        Args:
            *args: A `HeteroGraph`, or arguments of a call.
            memory_limit: As of the calls.
            progress: Called after each kernel with how many are done, how many there are, and the
                kernel's name.
            gradients: Whether calls are to be differentiated.
            **kwargs: As of a call.

        Returns:
            Ids of the variants that calls may run, as far as the number of calls decides.

        Raises:
            InputError: The memory limit is no integer.
            VariantError: The call is not supported and would run in the original module.
            MemoryLimitError: No variant fits the limit.
            CompileError: A kernel does not compile.
        """
        check_demands(memory_limit)
        args = args if kwargs else with_features(args)
        layer, (adapter, call, graph) = self._prepare_choice(args, kwargs)
        runner = layer._training.backward_of(adapter, call, graph) if gradients else None
        policy = layer._policy.limited(memory_limit, bool(runner and runner.trains_weights))
        variants = layer._runs.foreseen(layer._promoted, graph, policy)
        compile_kernels(variants, layer._runs.backend, graph.device, progress)
        for variant in variants:
            weights = layer._weights.weights(variant.plan, adapter, graph, call.edges)
            layer._runs.prepare(variant, graph, weights.tensors)
        if runner is not None:
            runner.warm(graph, policy, progress)
        return tuple(variant.id for variant in variants)

    def _prepare_choice(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[CompiledLayer, SupportedCall]:
        prepared = self._prepare(args, kwargs)
        if isinstance(prepared, Unsupported):
            if (layer := self._of_kind(prepared, (args, kwargs))) is not None:
                return layer._prepare_choice(args, kwargs)
            raise VariantError(f"this call runs in the original module: {prepared.reason}")
        return self, prepared

    def _prepare(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], is_run: bool = False
    ) -> SupportedCall | Unsupported:
        if is_run and (reason := transform()) is not None:
            return Unsupported(reason)
        if is_run and self._adapter is None:
            initialize(self.module, (*args, *kwargs.values()))
        adapter, backend = self._adapted((args, kwargs)), self._runs.backend
        return supported_call(self.module, adapter, backend, self._graphs, args, kwargs, is_run)

    def use_of(self, graph: HeteroGraph) -> LayerUse:
        """What is remembered of the layer's use of a graph."""
        return self._runs.use_of(graph)

    def _fall_back(
        self,
        run: Callable[..., Any],
        why: Unsupported,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: CallOptions,
    ) -> Any:
        fallback.check_none_asked(options, self._policy.memory_limit, why.reason)
        self._sharing.warn(self.module, why.reason)
        self._last.set(None, why.reason)
        args, kwargs = fallback.arguments_for(self.module, self._adapter, args, kwargs)
        return run(*args, **kwargs)

    def _around(self, module: nn.Module, call: Arguments | None = None) -> CompiledLayer:
        own = module, self._runs.backend, self._policy, self.vocabulary
        return type(self)(*own, LayerSharing(self._sharing.warned), call)

    def extra_repr(self) -> str:
        """How many variants there are, and of which backend."""
        return f"variants={len(self._promoted)}, backend={self._runs.backend.name!r}"
