"""`hetune.compile`: a module that runs the variant that suits its input."""

from __future__ import annotations

import copy
import math
import pickle
import time
import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.backends.base import Backend
from hetune.variants.errors import InputError, MemoryLimitError, VariantError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import (
    Adapter,
    ParametersVersion,
    Unsupported,
    is_wrapper,
)
from hetune.variants.frontend.autocast import Autocast, cast
from hetune.variants.frontend.calls import Call, graph_of, read_call, result_of, rows_of
from hetune.variants.frontend.nn import RelationalLayer
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.streams import settle
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.plan.nodes import Plan
from hetune.variants.plan.sides import depends_on_side, id_on
from hetune.variants.plan.variants import Variant, variants_of, with_schedule
from hetune.variants.runtime.backends import backend_of
from hetune.variants.runtime.choice import Choice, Chosen, check_demands, choose, is_replayed
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.edges import GraphCache
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.first_sight import is_left_to_module
from hetune.variants.runtime.given import types_of, weights_of
from hetune.variants.runtime.graph_break import caller, outside_of_graphs
from hetune.variants.runtime.modes import differentiates, full_precision, transform
from hetune.variants.runtime.pricing import Pricer, RooflinePricer
from hetune.variants.runtime.range import OUTGROWN, Overflow, fits, may_differ
from hetune.variants.runtime.replay import CudaRecorder, Recorder, Replays
from hetune.variants.runtime.use import Policy, Uses


class FallbackWarning(UserWarning):
    """A call or a module runs uncompiled, for the reason that the message names."""


def compile(
    module: nn.Module,
    *,
    backend: str | Backend | None = None,
    memory_limit: int | None = None,
    pricer: Pricer | None = None,
    expected_runs: float | None = None,
    explore: bool = False,
    cuda_graph: bool | None = None,
) -> CompiledLayer:
    """Compiles a relational layer.

    Args:
        module: A layer of `hetune.nn`, or PyG's `RGCNConv`, `FastRGCNConv`, `RGATConv` or
            `HGTConv`. Its parameters are shared, not copied: later changes are seen, but for
            those by way of ``.data``: on a CPU of single elements, on a GPU all of them.
        backend: ``"cpp"`` (compiled for this CPU), ``"triton"`` (compiled for the GPU that the
            features are on) or ``"torch"`` (the interpreter). None: ``"triton"`` if the module's
            parameters are on a GPU, else ``"cpp"``.
        memory_limit: Most bytes that a run's temporaries, scratch and result may take; restricts
            the choice. Copies of features, and what outlives it (indexes, constants of the graph,
            folded weights) are not counted; what a recording copies is. A call that would run in
            the original module is refused: its attribute `module` has no limit.
        pricer: Who predicts times; the roofline model if None.
        expected_runs: How often a graph will be run on, for what is worth preparing; learned
            from the calls if None.
        explore: Whether the first calls on a graph try the variants between which predictions
            cannot tell, and keep the one that was fastest.
        cuda_graph: Whether a GPU's kernels are recorded as a CUDA graph on the third call in a row
            that runs the same variant on the same graph, and replayed from then on. Its memory is
            kept with the graph. If None, that is chosen along with the variant.

    Returns:
        A module with the same call signature, which also takes a `HeteroGraph` in place of the
        edge tensors. What is not supported runs in the original module, with a warning that
        says why.

    Raises:
        InputError: An argument is of no use.
    """
    check_demands(memory_limit, expected_runs)
    runs = backend_of(module, backend)
    if cuda_graph is None and runs.target == "cpu":
        cuda_graph = False
    policy = Policy(pricer or RooflinePricer(), memory_limit, expected_runs, explore, cuda_graph)
    return CompiledLayer(module, adapt(module), runs, policy)


@dataclass(frozen=True, slots=True)
class _Weights:
    version: ParametersVersion
    tensors: dict[str, Tensor]
    fit: bool


class CompiledLayer(nn.Module):
    """A layer that chooses among its compiled variants for every graph. Made by `compile`.

    For inference: a call that needs gradients runs in the original module.

    Attributes:
        module: The original module.
        variants: Ids of the promoted variants; empty if the module is not supported.
    """

    def __init__(
        self,
        module: nn.Module,
        adapter: Adapter | Unsupported,
        backend: Backend,
        policy: Policy,
    ) -> None:
        super().__init__()
        self.module = module
        self.train(module.training)
        self._backend = backend
        self._policy = policy
        self._recorder: Recorder = CudaRecorder()
        self._adapter: Adapter | None = None
        self._promoted: dict[str, Variant] = {}
        self._weights: dict[Hashable, _Weights] = {}
        self._graphs = GraphCache()
        self._autocast = Autocast()
        self._warned: set[str] = set()
        self._ready: set[str] = set()
        self._last: Variant | None = None
        if isinstance(adapter, Unsupported):
            self._warn(adapter.reason)
        else:
            self._adapter = adapter
            variants = variants_of(adapter.program, backend.target)
            if backend.schedule is not None:
                variants = tuple(with_schedule(variant, backend.schedule) for variant in variants)
            self._promoted = {variant.id: variant for variant in variants}

    @property
    def variants(self) -> tuple[str, ...]:
        """Ids of the promoted variants."""
        return tuple(self._promoted)

    @outside_of_graphs("hetune's layers are compiled already: they stay outside of torch's graphs")
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
                original module, which keeps to no variant, limit or out.
            GraphError: The edges are no graph.
            VariantError: No variant has this id.
            MemoryLimitError: No variant fits the limit, or this one does not.
        """
        check_demands(memory_limit)
        if out is not None and (not isinstance(out, Tensor) or is_wrapper(out)):
            raise InputError(f"out is a {type(out).__name__}: give a tensor that has memory")
        reason = transform()
        prepared = self._prepare(args, kwargs) if reason is None else Unsupported(reason)
        if not isinstance(prepared, Unsupported) and self._needs_gradients(prepared[1]):
            prepared = Unsupported(
                "gradients are needed: call it under torch.no_grad() for inference"
            )
        found: Tensor | dict[str, Tensor] | Unsupported
        if isinstance(prepared, Unsupported):
            found = prepared
        else:
            is_free = variant is None and memory_limit is None and out is None
            graph = self._graph(*prepared, is_free)
            if graph is None:
                try:
                    return self.module(*args, **kwargs)
                except Exception:  # what is wrong is said in our own words
                    graph = self._graph(*prepared)
                    assert graph is not None
            found = self._compute(*prepared, graph, variant, memory_limit, out)
        if isinstance(found, Unsupported):
            demands = {
                "variant=": variant,
                "memory_limit=": memory_limit,
                "out=": out,
                "memory_limit= of hetune.compile": self._policy.memory_limit,
            }
            return self._fall_back(found, args, kwargs, demands)
        return found

    def _compute(
        self,
        adapter: Adapter,
        call: Call,
        graph: HeteroGraph,
        variant: str | None,
        memory_limit: int | None,
        out: Tensor | None,
    ) -> Tensor | dict[str, Tensor] | Unsupported:
        if (reason := adapter.graph_refusal(graph)) is not None:
            return Unsupported(reason)
        rows, overflow = rows_of(adapter, call, graph).float(), Overflow()
        dtypes = self._autocast.dtypes(adapter, call, rows.device) if out is None else torch.float32
        with full_precision(rows.device.type):
            chosen, tell = self._variant(graph, variant, memory_limit)
            try:
                weights = self._weights_of(chosen.variant.plan, adapter, graph)
                start = _now(rows.device, tell is not None)
                result = self._run(
                    graph, chosen, memory_limit, rows, weights.tensors, out, overflow
                )
                if tell is not None:
                    tell(_now(rows.device, True) - start)
            except InputError:  # which is no variant's fault
                raise
            except Exception:
                if tell is not None:
                    tell(math.inf)
                raise
            if variant is None and (
                not weights.fit
                or (overflow.happened and may_differ(result, (rows, *weights.tensors.values())))
            ):
                return Unsupported(OUTGROWN)
        result = result if result.dim() == 2 else result.flatten(1)
        return cast(result_of(adapter, call, graph, result), dtypes)

    def explain(self, *args: Any, memory_limit: int | None = None, **kwargs: Any) -> Choice:
        """What a call with these arguments would run, and why. Printed, it is a table.

        Raises:
            InputError: The memory limit is no integer.
            VariantError: The call is not supported and would run in the original module.
        """
        prepared = self._prepare(args, kwargs)
        if isinstance(prepared, Unsupported):
            raise VariantError(f"this call runs in the original module: {prepared.reason}")
        graph = self._graph(*prepared)
        assert graph is not None
        if (reason := prepared[0].graph_refusal(graph)) is not None:
            raise VariantError(f"this call runs in the original module: {reason}")
        return self._choice(graph, memory_limit)

    def _prepare(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Adapter, Call] | Unsupported:
        adapter = self._adapter
        if adapter is None:
            return Unsupported("the module is not supported")
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
        return adapter, call

    def _needs_gradients(self, call: Call) -> bool:
        return differentiates(
            lambda: (*_features(call), *self.module.parameters(), *self.module.buffers())
        )

    def _graph(self, adapter: Adapter, call: Call, is_free: bool = False) -> HeteroGraph | None:
        """The call's graph; None where it is new, and the module is done with it sooner.

        Args:
            adapter: The layer's.
            call: What it was called with.
            is_free: Whether the call asks for nothing that the module does not keep to.
        """
        if isinstance(call.edges, HeteroGraph):
            return graph_of(adapter, call)
        extra: tuple[object, ...]
        if isinstance(call.x, Tensor):
            extra = (call.x.shape[0],)
        else:
            extra = tuple((name, rows.shape[0]) for name, rows in call.x.items())
        if isinstance(call.edges, Mapping):
            extra = (*extra, *call.edges)
        is_free = is_free and self._policy.is_free and self._backend.name == "cpp"
        return self._graphs.graph(
            call.tensors,
            extra,
            lambda: graph_of(adapter, call),
            lambda: is_free and is_left_to_module(adapter, call),
        )

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
            chosen, tell = use.next(tuple(self._promoted.values()), graph, policy, self._at_hand)
            self._last = chosen.variant
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

    def _at_hand(self, variant: Variant) -> Variant | None:
        """The variant, or the one that ran last, on whatever graph, if it was never compiled."""
        if variant is not self._last and variant.key not in self._ready:
            if not all(map(self._backend.is_ready, variant.plan.launches, variant.schedules)):
                return self._last
            self._ready.add(variant.key)
        return variant

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
        rows: Tensor,
        weights: dict[str, Tensor],
        out: Tensor | None,
        overflow: Overflow,
    ) -> Tensor:
        executable, must = self._executable(chosen.variant, graph), self._policy.cuda_graph
        features = {"x": rows}
        if chosen.is_settled:
            executable.tidy()
        if must is False:
            return executable.run(features, weights, out, overflow=overflow)
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

    def _weights_of(self, plan: Plan, adapter: Adapter, graph: HeteroGraph) -> _Weights:
        version = adapter.parameters_version()
        if version.devices != (graph.device,):
            raise InputError(
                f"the module is on {' and '.join(map(str, version.devices))} but x and the graph "
                f"are on {graph.device}: move them to one device, and compile the module there"
            )
        key = id(plan), types_of(plan, graph)
        known = self._weights.get(key)
        if known is not None and known.version is version:
            return known
        values = adapter.weights()
        tensors = weights_of(plan, values, graph)
        made = _Weights(version, tensors, fits(tensors, values))
        if settle(graph.device):
            now = {k: kept for k, kept in self._weights.items() if kept.version is version}
            self._weights = {**now, key: made}  # others may be reading
        return made

    def _fall_back(
        self,
        why: Unsupported,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        demands: Mapping[str, object],
    ) -> Any:
        for name, value in demands.items():
            if value is not None:
                raise InputError(
                    f"{name} cannot be honored, for the call runs in the original module: "
                    f"{why.reason}"
                )
        if self._adapter is not None:
            self._warn(why.reason)
        takes_graphs = isinstance(self.module, RelationalLayer)
        given = (*args, *kwargs.values())
        if not takes_graphs and any(isinstance(value, HeteroGraph) for value in given):
            args, kwargs = _with_tensors(self._adapter, args, kwargs)
        return self.module(*args, **kwargs)

    def _warn(self, reason: str) -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            name = type(self.module).__name__
            warnings.warn(f"{name} runs uncompiled: {reason}", FallbackWarning, caller())

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The original module's, under its own names: a compiled model loads what it saved before.

        `load_state_dict` takes the same names; `torch.func.functional_call` takes those of
        `named_parameters`, which begin with "module.".
        """
        return self.module.state_dict(*args, **kwargs)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        own = [prefix + name for name in self.module.state_dict(keep_vars=True)]
        found = {key: state.pop(key) for key in own if key in state}
        state.update((f"{prefix}module.{key.removeprefix(prefix)}", found[key]) for key in found)
        super()._load_from_state_dict(state, prefix, *rest)

    def __reduce__(self) -> Any:
        raise pickle.PicklingError(
            "compiled code is not pickled: pickle the attribute `module`, and compile it again "
            "where it is loaded"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledLayer:
        module = copy.deepcopy(self.module, memo)
        return CompiledLayer(module, adapt(module), self._backend, self._policy)

    def extra_repr(self) -> str:
        """How many variants there are, and of which backend."""
        return f"variants={len(self._promoted)}, backend={self._backend.name!r}"


def _now(device: torch.device, exact: bool) -> float:
    """Seconds; exact ones wait for what was started on a GPU."""
    if exact and device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _features(call: Call) -> list[Tensor]:
    return [call.x] if isinstance(call.x, Tensor) else list(call.x.values())


def _with_tensors(
    adapter: Adapter | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with a graph's edge tensors in place of the graph."""
    if adapter is None or adapter.kind == "hgt" or kwargs or len(args) != 2:
        raise InputError(
            "the original module takes no HeteroGraph: give it the edge tensors, or meet the "
            "reason that the warning names"
        )
    graph = args[1]
    return (args[0], torch.stack((graph.src, graph.dst)).long(), graph.etype.long()), {}
