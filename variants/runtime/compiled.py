"""`hetune.compile`: a module that runs the variant that suits its input."""

from __future__ import annotations

import copy
import math
import pickle
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.backends.base import Backend
from hetune.variants.errors import InputError, MemoryLimitError, VariantError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import (
    Adapter,
    Unsupported,
    is_wrapper,
)
from hetune.variants.frontend.calls import Call, graph_of, read_call, result_of, rows_of
from hetune.variants.frontend.type_order import SAME, TypeOrder, order_of
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.streams import settle
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.graph.vocabulary import Vocabulary, VocabularyLike
from hetune.variants.plan.sides import depends_on_side, id_on
from hetune.variants.plan.variants import Device, Variant, variants_of, with_schedule
from hetune.variants.runtime import fallback, global_hooks
from hetune.variants.runtime.backends import backend_of
from hetune.variants.runtime.choice import Choice, Chosen, check_demands, choose, is_replayed
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.edges import GraphCache
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.modes import differentiates, full_precision, transform
from hetune.variants.runtime.pricing import Pricer, RooflinePricer
from hetune.variants.runtime.replay import CudaRecorder, Recorder, Replays
from hetune.variants.runtime.use import Policy, Uses
from hetune.variants.runtime.weights import WeightCache
from hetune.variants.runtime.wrapper import HOOKS, ModuleWrapper


def compile(
    module: nn.Module,
    *,
    backend: str | Backend | None = None,
    memory_limit: int | None = None,
    pricer: Pricer | None = None,
    default_pricer: Callable[[Device], Pricer] = lambda device: RooflinePricer(),
    expected_runs: float | None = None,
    explore: bool = False,
    cuda_graph: bool | None = None,
    vocabulary: VocabularyLike | None = None,
) -> CompiledLayer:
    """Compiles a relational layer.

    Args:
        module: A layer of `hetune.nn`, or PyG's `RGCNConv`, `FastRGCNConv`, `RGATConv` or
            `HGTConv`. Its parameters are shared, not copied: later changes are seen, but for
            those by way of ``.data``: on a CPU of single elements, on a GPU all of them. A
            compiled layer is compiled anew, with its own options where none are given.
        backend: ``"cpp"`` (compiled for this CPU), ``"triton"`` (compiled for the GPU that the
            features are on) or ``"torch"`` (the interpreter). None: ``"triton"`` if the module's
            parameters are on a GPU, else ``"cpp"``.
        memory_limit: Most bytes that a run's temporaries, scratch and result may take; restricts
            the choice. Copies of features, and what outlives it (indexes, constants of the graph,
            folded weights) are not counted; what a recording copies is. A call that would run in
            the original module is refused: its attribute `module` has no limit.
        pricer: Who predicts times.
        default_pricer: Makes it where None is given, for what the backend compiles for.
        expected_runs: How often a graph will be run on, for what is worth preparing; learned
            from the calls if None.
        explore: Whether the first calls on a graph try the variants between which predictions
            cannot tell, and keep the one that was fastest.
        cuda_graph: Whether a GPU's kernels are recorded as a CUDA graph on the third call in a row
            that runs the same variant on the same graph, and replayed from then on. Its memory is
            kept with the graph. If None, that is chosen along with the variant.
        vocabulary: Names of the edge types, and optionally of the node types, that the layer's
            weights are for, in their order: what `Vocabulary.of` takes, or a graph to follow. A
            `HeteroGraph` that has other names is refused then; one with the same names in another
            order is run with weights in its order. Edge tensors bring numbers, which are the
            layer's.

    Returns:
        A module with the same call signature, which also takes a `HeteroGraph` in place of the
        edge tensors. What is not supported runs in the original module, with a warning that
        says why.

    Raises:
        InputError: An argument is of no use.
    """
    check_demands(memory_limit, expected_runs)
    runs = _backend(module, backend)
    if isinstance(module, CompiledLayer):
        before = module._policy
        if runs.target == module._backend.target:
            pricer = pricer or before.pricer
            cuda_graph = before.cuda_graph if cuda_graph is None else cuda_graph
        memory_limit = before.memory_limit if memory_limit is None else memory_limit
        expected_runs = before.expected_runs if expected_runs is None else expected_runs
        vocabulary = module.vocabulary if vocabulary is None else vocabulary
        explore, module = explore or before.explore, module.module
    if cuda_graph is None and runs.target == "cpu":
        cuda_graph = False
    pricer = pricer or default_pricer(runs.target)
    policy = Policy(pricer, memory_limit, expected_runs, explore, cuda_graph)
    known = None if vocabulary is None else Vocabulary.of(vocabulary)
    return CompiledLayer(module, runs, policy, known)


def _backend(module: nn.Module, backend: str | Backend | None) -> Backend:
    if backend is None and isinstance(module, CompiledLayer):
        devices = {parameter.device for parameter in module.parameters()}
        if not any(map(module._backend.refusal, devices)):
            return module._backend
    return backend_of(module, backend)


class CompiledLayer(ModuleWrapper):
    """A layer that chooses among its compiled variants for every graph. Made by `compile`.

    For inference: a call that needs gradients runs in the original module.

    Attributes:
        module: The original module. Its attributes and methods are this module's, too.
        variants: Ids of the promoted variants; empty as long as the module is not supported.
    """

    def __init__(
        self,
        module: nn.Module,
        backend: Backend,
        policy: Policy,
        vocabulary: Vocabulary | None = None,
        warned: Iterable[str] = (),
    ) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._backend = backend
        self._policy = policy
        self._recorder: Recorder = CudaRecorder()
        self._adapter: Adapter | None = None
        self._promoted: dict[str, Variant] = {}
        self._weights = WeightCache()
        self._graphs = GraphCache()
        self._warned = set(warned)
        self.training = module.training
        self.module = module
        if isinstance(found := self._adapted(), Unsupported):
            self._warn(found.reason)

    @property
    def variants(self) -> tuple[str, ...]:
        """Ids of the promoted variants."""
        return tuple(self._promoted)

    @property
    def vocabulary(self) -> Vocabulary | None:
        """Names of the types that the weights are for, in their order, if the layer was told."""
        return self._vocabulary

    def check_graph(self, graph: HeteroGraph) -> None:
        """Checks that a graph has the types that the layer's weights are for.

        Raises:
            InputError: It has others.
        """
        if isinstance(adapter := self._adapted(), Adapter):
            order_of(adapter, graph)

    def _adapted(self) -> Adapter | Unsupported:
        """The module's adapter, made as soon as its state allows it."""
        if self._adapter is not None:
            return self._adapter
        adapter = adapt(self.module, self._vocabulary)
        if isinstance(adapter, Unsupported):
            return adapter
        variants = variants_of(adapter.program, self._backend.target)
        if (schedule := self._backend.schedule) is not None:
            variants = tuple(with_schedule(variant, schedule) for variant in variants)
        self._promoted = {variant.id: variant for variant in variants}
        self._adapter = adapter
        return adapter

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
            InputError: A tensor's dtype, shape or device does not fit, the graph has other types
                than the layer, or the call runs in the
                original module, which keeps to no variant, limit or out.
            GraphError: The edges are no graph.
            VariantError: No variant has this id.
            MemoryLimitError: No variant fits the limit, or this one does not.
        """
        check_demands(memory_limit)
        if out is not None and (not isinstance(out, Tensor) or is_wrapper(out)):
            raise InputError(f"out is a {type(out).__name__}: give a tensor that has memory")
        prepared = self._prepare_run(args, kwargs)
        demands = {
            "variant=": variant,
            "memory_limit=": memory_limit,
            "out=": out,
            "memory_limit= of hetune.compile": self._policy.memory_limit,
        }
        if isinstance(prepared, Unsupported):
            return self._fall_back(self.module, prepared, args, kwargs, demands)
        if not global_hooks.are_registered():
            return self._run_call(*prepared, variant, memory_limit, out)

        def run(args: tuple[Any, ...]) -> Any:
            prepared = self._prepare_run(args, kwargs)
            if isinstance(prepared, Unsupported):
                return self._fall_back(self.module.forward, prepared, args, kwargs, demands)
            return self._run_call(*prepared, variant, memory_limit, out)

        return global_hooks.run_between(self.module, args, kwargs, run)

    def _run_call(
        self,
        adapter: Adapter,
        call: Call,
        graph: HeteroGraph,
        variant: str | None,
        memory_limit: int | None,
        out: Tensor | None,
    ) -> Any:
        rows = rows_of(adapter, call, graph)
        with full_precision(rows.device.type):
            chosen, tell = self._variant(graph, variant, memory_limit)
            try:
                plan = chosen.variant.plan
                weights = self._weights.weights(plan, adapter, graph, _order(adapter, call))
                start = _now(rows.device, tell is not None)
                result = self._run(graph, chosen, memory_limit, {"x": rows}, weights, out)
                if tell is not None:
                    tell(_now(rows.device, True) - start)
            except InputError:  # which is no variant's fault
                raise
            except Exception:
                if tell is not None:
                    tell(math.inf)
                raise
        return result_of(adapter, call, graph, result if result.dim() == 2 else result.flatten(1))

    def explain(self, *args: Any, memory_limit: int | None = None, **kwargs: Any) -> Choice:
        """What a call with these arguments would run, and why. Printed, it is a table.

        Raises:
            InputError: The memory limit is no integer.
            VariantError: The call is not supported and would run in the original module.
        """
        prepared = self._prepare(args, kwargs)
        if isinstance(prepared, Unsupported):
            raise VariantError(f"this call runs in the original module: {prepared.reason}")
        return self._choice(prepared[2], memory_limit)

    def _prepare_run(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Adapter, Call, HeteroGraph] | Unsupported:
        reason = transform()
        prepared = self._prepare(args, kwargs) if reason is None else Unsupported(reason)
        if not isinstance(prepared, Unsupported) and self._needs_gradients(prepared[1]):
            return Unsupported("gradients are needed: call it under torch.no_grad() for inference")
        return prepared

    def _prepare(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Adapter, Call, HeteroGraph] | Unsupported:
        adapter = self._adapted()
        if isinstance(adapter, Unsupported):
            return adapter
        if adapter.module is not self._modules.get("module"):
            return Unsupported("its module was replaced: compile it anew")
        if (reason := adapter.refusal()) is not None:
            return Unsupported(reason)
        call = read_call(adapter, args, kwargs)
        if isinstance(call, Unsupported):
            return call
        features = _features(call)
        for tensor in features:
            if reason := self._backend.refusal(tensor.device):
                return Unsupported(reason)
        return adapter, call, self._graph(adapter, call)

    def _needs_gradients(self, call: Call) -> bool:
        return differentiates(
            lambda: (*_features(call), *self.module.parameters(), *self.module.buffers())
        )

    def _graph(self, adapter: Adapter, call: Call) -> HeteroGraph:
        if isinstance(call.edges, HeteroGraph):
            return graph_of(adapter, call)
        extra: tuple[object, ...]
        if isinstance(call.x, Tensor):
            extra = (call.x.shape[0],)
        else:
            extra = tuple((name, rows.shape[0]) for name, rows in call.x.items())
        if isinstance(call.edges, Mapping):
            extra = (*extra, *call.edges)
        return self._graphs.graph(call.tensors, extra, lambda: graph_of(adapter, call))

    def _choice(self, graph: HeteroGraph, memory_limit: int | None) -> Choice:
        policy = self._policy_for(memory_limit)
        return choose(
            tuple(self._promoted.values()),
            graph,
            policy.pricer,
            memory_limit=policy.memory_limit,
            expected_runs=policy.expected_runs or math.inf,
            cuda_graph=policy.cuda_graph,
        )

    def _variant(
        self, graph: HeteroGraph, variant: str | None, memory_limit: int | None
    ) -> tuple[Chosen, Callable[[float], None] | None]:
        if variant is None:
            policy = self._policy_for(memory_limit)
            uses = graph.cached(("uses", kernel_threads()), Uses, owner=self)
            use = uses.under(policy.memory_limit)
            chosen, tell = use.next(tuple(self._promoted.values()), graph, policy, self._is_ready)
            if tell is not None and not settle(graph.device):
                tell = None  # somebody records the run, whose time says nothing
            return chosen, tell
        if variant not in self._promoted:
            raise VariantError(f"no variant {variant!r}: take one of {', '.join(self._promoted)}")
        runs = variant
        if depends_on_side(variant):
            runs = id_on(variant, self._domain(graph).side, self._promoted)
        found, limit = self._promoted[runs], self._policy_for(memory_limit).memory_limit
        if limit is not None:
            executable = self._executable(found, graph)
            peak = executable.layout.peak_bytes
            if self._policy.cuda_graph:
                peak += executable.copied_bytes
            if peak > limit:
                raise MemoryLimitError(
                    f"{variant} needs {peak} bytes, and the limit is {limit}: raise memory_limit, "
                    "or leave variant out"
                )
        return Chosen(found), None

    def _is_ready(self, variant: Variant) -> bool:
        return all(map(self._backend.is_ready, variant.plan.launches, variant.schedules))

    def _policy_for(self, memory_limit: int | None) -> Policy:
        if memory_limit is None:
            return self._policy
        return replace(self._policy, memory_limit=memory_limit)

    def _executable(self, variant: Variant, graph: HeteroGraph) -> Executable:
        return graph.cached(
            ("executable", variant.key, self._backend.name),
            lambda: Executable(variant.plan, self._domain(graph), self._backend, variant.schedules),
        )

    def _domain(self, graph: HeteroGraph) -> Domain:
        return Domain(graph, graph.device if self._backend.indexes_on_device else None)

    def _run(
        self,
        graph: HeteroGraph,
        chosen: Chosen,
        memory_limit: int | None,
        features: dict[str, Tensor],
        weights: dict[str, Tensor],
        out: Tensor | None,
    ) -> Tensor:
        executable, must = self._executable(chosen.variant, graph), self._policy.cuda_graph
        if chosen.is_settled:
            executable.tidy()
        if must is False:
            return executable.run(features, weights, out)
        recorder = self._recorder
        replays = graph.cached("replays", lambda: Replays(must or False, recorder), owner=self)
        return replays.run(
            executable,
            features,
            weights,
            out,
            lambda: self._is_replayed(chosen, graph, memory_limit),
        )

    def _is_replayed(self, chosen: Chosen, graph: HeteroGraph, memory_limit: int | None) -> bool:
        if chosen.cuda_graph is not None:
            return chosen.cuda_graph
        policy = self._policy_for(memory_limit)
        pricer, limit = policy.pricer, policy.memory_limit
        return graph.cached(
            ("is replayed", chosen.variant.key, limit),
            lambda: is_replayed(chosen.variant, graph, pricer, limit),
            owner=pricer,
        )

    def _fall_back(
        self,
        run: Callable[..., Any],
        why: Unsupported,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        demands: Mapping[str, object],
    ) -> Any:
        fallback.check_demands_met(demands, why.reason)
        self._warn(why.reason)
        args, kwargs = fallback.arguments_for(self.module, self._adapter, args, kwargs)
        return run(*args, **kwargs)

    def _warn(self, reason: str) -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            fallback.warn(f"{type(self.module).__name__} runs uncompiled: {reason}")

    def __reduce__(self) -> Any:
        raise pickle.PicklingError(
            "compiled code is not pickled: save the state dict, which has the module's names, or "
            "pickle the attribute `module`, and compile it again where it is loaded"
        )

    def __copy__(self) -> CompiledLayer:
        return self._with(copy.copy(self.module), copy.copy)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledLayer:
        module = copy.deepcopy(self.module, memo)
        return self._with(module, lambda value: copy.deepcopy(value, memo))

    def _with(self, module: nn.Module, copied: Callable[[Any], Any]) -> CompiledLayer:
        """An equal layer around another module, with copies of this one's hooks."""
        twin = CompiledLayer(module, self._backend, self._policy, self._vocabulary, self._warned)
        for name in HOOKS:
            twin.__dict__[name] = copied(self.__dict__[name])
        return twin

    def extra_repr(self) -> str:
        """How many variants there are, and of which backend."""
        return f"variants={len(self._promoted)}, backend={self._backend.name!r}"


def _now(device: torch.device, exact: bool) -> float:
    """Seconds; exact ones wait for what was started on a GPU."""
    if exact and device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _order(adapter: Adapter, call: Call) -> TypeOrder:
    """How the types that a call names are numbered in the layer; edge tensors bring numbers."""
    return order_of(adapter, call.edges) if isinstance(call.edges, HeteroGraph) else SAME


def _features(call: Call) -> list[Tensor]:
    return [call.x] if isinstance(call.x, Tensor) else list(call.x.values())
