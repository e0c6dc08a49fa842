"""What a module is to the rest of hetune: a program, its weights, and how it is called.

    adapter = Adapter(module, program, weights, num_relations, read=read)

    call = adapter.read(args, kwargs)       # a `Call`, or `Unsupported`: run the module itself
    graph = call.graph()                    # kept by the tensors that it is made of
    inputs = call.inputs(graph)             # {feature or constant: rows of nodes or edges}
    weights = adapter.weights()             # {weight: rows of types}
    results = ...                           # run the program
    return call.result(graph, results)

Inputs and results go by the program's names. Rows of edges are in the graph's own order, which is
that of ``graph.src``; kernels' order is nobody else's concern.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hetune.variants.frontend.call import Call
from hetune.variants.frontend.module_structure import ModuleStructure
from hetune.variants.frontend.parameters_version import ParametersVersion
from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph
from hetune.variants.graph.lazy_tensors import materialized
from hetune.variants.graph.vocabulary import Vocabulary
from hetune.variants.program.nodes import Program

Signature = Literal["flat", "hetero"]
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
"""Of a call, positional and by name."""
Reader = Callable[[tuple[Any, ...], Mapping[str, Any]], "Call | Unsupported"]
"""Reads a call's positional and named arguments; raises `InputError` where they are none."""
Metadata = tuple[Sequence[str], Sequence[CanonicalEtype]]
ByType = Mapping[Any, Tensor]
"""Tensors by node type or by edge type."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Why a module, or a call of it, has to run as it is.

    Attributes:
        reason: For a reader.
        is_layer: Whether the module is a layer of a class that hetune knows, so that another
            state of it may be supported.
        needs_call: Whether it may be supported as soon as it is called.
        kind: Equal for calls that another adapter of the module may be for, if one may.
    """

    reason: str
    is_layer: bool = True
    needs_call: bool = False
    kind: Hashable = None


class Adapter:
    """A supported module.

    Attributes:
        module: The module itself; its parameters are read, never kept.
        program: What it computes.
        signature: "flat" for ``(x, edge_index, edge_type)``, "hetero" for
            ``(x_dict, edge_index_dict)``.
        inputs: The program's features and constants.
        width: Of a row of its feature ``x``; 0 if it has none.
        widths: Of rows of each type of nodes, where these differ; zeros follow up to `width`.
        result_width: Of a row of its first result.
        num_relations: Rows of its per-edge-type weights.
        metadata: Node types and canonical edge types that it was made for, where it was.
        vocabulary: Names of the types that its weights are for, in their order, where it was told.
        is_reversed: Messages go from ``edge_index[1]`` to ``edge_index[0]``.
        read: Reads its calls; None: they are read as ``(x, edge_index, edge_type)`` or
            ``(x_dict, edge_index_dict)``, by the signature.
        result_shape: Of each node's row of what calls return, where `read` reads them and it is a
            tensor with such rows; else None.
        takes_ids: Whether another adapter is for calls with numbers of nodes for ``x``, or None.
        traces_others: Whether calls with other arguments are traced.
        takes_matrices: Whether its edges may be sparse matrices, [targets, sources].
        dropout: The share of elements that are dropped, by the features that are masks of them,
            which calls draw.
        mode: What the module's dropout is now, where another one is another program.
        is_own: Whether hetune made the module, and nobody else has it: only tensors may change.
    """

    def __init__(
        self,
        module: nn.Module,
        program: Program,
        weights: Callable[[], dict[str, Tensor]],
        num_relations: int,
        *,
        metadata: Metadata | None = None,
        widths: Mapping[str, int] | None = None,
        is_reversed: bool = False,
        graph_refusal: Callable[[Any, HeteroGraph], str | None] | None = None,
        order_refusal: Callable[[Any, ByType, ByType], str | None] | None = None,
        read: Reader | None = None,
        result_shape: tuple[int, ...] | None = None,
        takes_ids: bool = False,
        traces_others: bool = False,
        takes_matrices: bool = False,
        dropout: Mapping[str, float] | None = None,
        mode: Callable[[], Hashable] = lambda: None,
        is_own: bool = False,
    ) -> None:
        self.module = module
        self.program = program
        self.signature: Signature = "flat" if metadata is None else "hetero"
        self.num_relations = num_relations
        self.metadata, self.widths = metadata, widths or {}
        self.vocabulary: Vocabulary | None = None
        self.is_reversed = is_reversed
        self._graph_refusal = graph_refusal
        self._order_refusal = order_refusal
        self._weights = weights
        self._options = plain_options(module)
        self.read, self.result_shape, self.takes_ids = read, result_shape, takes_ids
        self.takes_matrices, self.traces_others = takes_matrices, traces_others
        self.is_own = is_own
        self.dropout, self.mode, self._made_in = dropout or {}, mode, mode()
        self.inputs = tuple(param for param in program.params if param.role != "weight")
        self.result_width = program.type_of(program.results[0]).width
        self.width = sum(param.type.width for param in self.inputs if param.name == "x")
        self._named_parts = dict(module.named_modules())
        self._parts = [*self._named_parts.values()]
        self._is_there = [
            (group, name, _path(part_name, name), tensor is not None)
            for part_name, part in self._named_parts.items()
            for group in (part._parameters, part._buffers)
            for name, tensor in group.items()
        ]
        self._version: ParametersVersion | None = None
        self._passed: ModuleStructure | None = None

    @property
    def result_types(self) -> tuple[str, ...]:
        """Node types that a call with dictionaries returns: those that edges lead to."""
        if self.metadata is None:
            return ()
        targets = {target for _, _, target in self.metadata[1]}
        return tuple(name for name in self.metadata[0] if name in targets)

    @property
    def dtype(self) -> torch.dtype:
        """That of all parameters: float32 or bfloat16."""
        for part in self._parts:  # in plain loops: every call asks
            for tensor in part._parameters.values():
                if tensor is not None:
                    dtype: torch.dtype = tensor.dtype
                    return dtype
        return torch.float32

    def weights(self) -> dict[str, Tensor]:
        """Contiguous tensors ``[types, *row shape]`` for the program's weights, without gradients.

        They share the parameters' memory where layouts agree.
        """
        with torch.no_grad():
            found = self._weights()
            return {name: materialized(weight.detach()) for name, weight in found.items()}

    def live_weights(self) -> dict[str, Tensor]:
        """The same in float32 as torch makes them: gradients reach the parameters."""
        return {name: weight.float() for name, weight in self._weights().items()}

    def parameters_version(self) -> ParametersVersion:
        """The same object as an earlier answer if no parameter was replaced or written since.

        For a module whose parts are those that were adapted, as `refusal` finds out.

        Writing through ``parameter.data`` moves no counter. On a CPU it is seen by some of each
        tensor's elements: initializers and averaged weights are, a single element may not be.
        """
        tensors = _tensors(self._parts)
        if self._version is None or not self._version.is_now(tensors):
            self._version = ParametersVersion(tensors)
        return self._version

    @property
    def takes_any_graph(self) -> bool:
        """Whether `graph_refusal` is None, whatever the graph."""
        return self._graph_refusal is None

    def graph_refusal(self, graph: HeteroGraph) -> str | None:
        """Why the module computes something else on a graph, or None."""
        refuses = self._graph_refusal
        return None if refuses is None else refuses(self.module, graph)

    def order_refusal(self, x_dict: ByType, edge_index_dict: ByType) -> str | None:
        """Why the module computes something else with dictionaries in such an order, or None."""
        refuses = self._order_refusal
        return None if refuses is None else refuses(self.module, x_dict, edge_index_dict)

    def refusal(self) -> str | None:
        """Why the module cannot be replaced right now, or None.

        What may change after it was adapted: options, parts, methods, dtype, hooks.
        """
        if self.is_own:
            return _tensors_refusal(self.module, self._parts)
        if self._passed is not None and self._passed.is_now(self._options):
            return _hooked_or_replaced(self.module, self._parts)
        reason = self._structure_refusal() or _tensors_refusal(self.module, self._parts)
        self._passed = None if reason else ModuleStructure(self.module, self._parts)
        return reason or _hooked_or_replaced(self.module, self._parts)

    def _structure_refusal(self) -> str | None:
        own = vars(self.module)
        for name, value in self._options.items():
            if own.get(name) != value:
                now = own.get(name)
                return f"{name} is {now!r}, and was {value!r} when it was compiled: compile it anew"
        if _parts(self.module) != self._parts:  # modules are equal to themselves alone
            now = dict(self.module.named_modules())
            names = [*self._named_parts, *now]
            name = next(n for n in names if now.get(n) is not self._named_parts.get(n))
            return f"{name} was replaced: compile it anew"
        for group, name, path, is_there in self._is_there:
            if (group.get(name) is not None) != is_there:
                change = "removed" if is_there else "added"
                return _plain_tensor(self.module) or f"{path} was {change}: compile it anew"
        return None

    def mode_refusal(self) -> Unsupported | None:
        """Why another adapter is for the module in its mode, or None."""
        mode = self.mode()
        if mode == self._made_in:
            return None
        return Unsupported("its dropout is another program", kind=("mode", mode))


def _tensors(parts: Iterable[nn.Module]) -> list[Tensor]:
    return [
        tensor
        for part in parts
        for group in (part._parameters, part._buffers)
        for tensor in group.values()
        if tensor is not None
    ]


def is_wrapper(tensor: Tensor) -> bool:
    """Whether a tensor has no memory that kernels could read, as a `FakeTensor` has none."""
    kind = type(tensor)
    return kind is not Tensor and kind.__torch_dispatch__ is not Tensor.__torch_dispatch__


def refusal(module: nn.Module) -> str | None:
    """Why a module of a supported class cannot be replaced in the state it is in, or None."""
    parts = _parts(module)
    return (
        _plain_tensor(module)
        or _tensors_refusal(module, parts)
        or _hooked_or_replaced(module, parts)
    )


def _plain_tensor(module: nn.Module) -> str | None:
    """Why a module with tensors that it does not list cannot be replaced, or None."""
    for part_name, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, Tensor) and not name.startswith("_"):
                return (
                    f"{_path(part_name, name)} is a plain tensor, not a parameter: assign a "
                    "torch.nn.Parameter, or register it as a buffer"
                )
    return None


def _path(part: str, name: str) -> str:
    return f"{part}.{name}" if part else name


def _tensors_refusal(module: nn.Module, parts: Sequence[nn.Module]) -> str | None:
    """Why a module with such tensors cannot be replaced, or None."""
    dtype = None
    for tensor in _tensors(parts):
        if tensor.dtype is not dtype and tensor.is_floating_point():
            if dtype is not None or tensor.dtype not in DTYPES:
                return _wrong_dtype(module)
            dtype = tensor.dtype
        if is_wrapper(tensor):
            return f"a parameter is a {type(tensor).__name__}, which has no memory"
    return None


def _hooked_or_replaced(module: nn.Module, parts: Sequence[nn.Module]) -> str | None:
    """Why a module whose methods or hooks do something else cannot be replaced, or None."""
    is_hooked = False
    for part in parts:  # in plain loops: every call of a layer asks
        own = vars(part)
        for attribute in _HOOKS if part is module else _HOOKS_OF_PARTS:
            if own.get(attribute) and not _is_lazy_s_own(part, attribute):
                is_hooked = True
    if getattr(module, "_explain", None):
        return "explain mode is on"
    return _hooked(module) if is_hooked else _replaced_method(module)


def _is_lazy_s_own(part: nn.Module, attribute: str) -> bool:
    """Whether nothing is registered but what initializes one of PyG's lazy parts.

    It stays on what got its parameters otherwise, and does nothing there.
    """
    own = getattr(type(part), "initialize_parameters", None)
    if attribute != "_forward_pre_hooks" or own is None:
        return False
    return all(getattr(hook, "__func__", None) is own for hook in part._forward_pre_hooks.values())


def _replaced_method(module: nn.Module) -> str | None:
    own = vars(module)
    for name in _METHODS:
        if name in own:
            method = getattr(type(module), name, None)
            # PyG itself puts the class's own there when explain mode ends.
            if method is None or own[name] != method.__get__(module):
                return f"its method {name!r} was replaced"
    return None


_METHODS = ("message", "aggregate", "update", "propagate")


def plain_options(module: nn.Module) -> dict[str, object]:
    """Public plain attributes but those that `refusal` judges as they are."""
    return {
        name: value
        for name, value in vars(module).items()
        if (value is None or isinstance(value, bool | int | float | str))
        and not name.startswith("_")
        and name not in ("training", "dropout", "fuse")  # PyG's forward sets "fuse"
    }


def _parts(module: nn.Module) -> list[nn.Module]:
    return list(module.modules()) if module._modules else [module]


DTYPES = (torch.float32, torch.bfloat16)
"""What all parameters of a module may be."""


def _wrong_dtype(module: nn.Module) -> str:
    named = [*module.named_parameters(), *module.named_buffers()]
    floats = [(name, tensor.dtype) for name, tensor in named if tensor.is_floating_point()]
    name, dtype = next((name, dtype) for name, dtype in floats if dtype != torch.float32)
    as_others = " as others are" if dtype in DTYPES else ""
    return f"{name} is {str(dtype).removeprefix('torch.')}, not float32{as_others}"


def _hooked(module: nn.Module) -> str:
    named = [(name, kind) for name, part in module.named_modules() for kind in _HOOKS]
    parts = dict(module.named_modules())
    name, kind = next(
        (n, k) for n, k in named if vars(parts[n]).get(k) and not _is_lazy_s_own(parts[n], k)
    )
    if kind == "forward":
        return f"the forward() of {name or 'it'} was replaced"
    return f"hooks are registered on {name or 'it'} ({kind})"


_HOOKS_OF_PARTS = (
    "forward",  # of an instance, in place of its class's
    "_forward_hooks",
    "_forward_pre_hooks",
)
_HOOKS = (
    *_HOOKS_OF_PARTS,
    "_propagate_forward_hooks",
    "_propagate_forward_pre_hooks",
    "_message_forward_hooks",
    "_message_forward_pre_hooks",
    "_aggregate_forward_hooks",
    "_aggregate_forward_pre_hooks",
    "_message_and_aggregate_forward_hooks",
    "_message_and_aggregate_forward_pre_hooks",
)


def as_rows(program: Program, found: dict[str, Tensor]) -> dict[str, Tensor]:
    """What was found for a program's weights, each as ``[types, *row shape]``; others are left."""
    weights: dict[str, Tensor] = {}
    for param in program.params:
        if param.role == "weight":
            tensor, type_ = found[param.name], param.type
            weights[param.name] = tensor.reshape(tensor.numel() // type_.width, *type_.shape)
    return weights
