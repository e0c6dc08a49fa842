"""Whether a traced program computes what its layer does: both run on small random graphs.

A program that is not confirmed is never used: whatever the tracer gets wrong, answers are right.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.tracing.arguments import CallArguments, of_one_width
from hetune.variants.frontend.tracing.dropout import InDoubles
from hetune.variants.frontend.tracing.edge_module import original
from hetune.variants.frontend.tracing.expressions import evaluate
from hetune.variants.frontend.tracing.layer import Traced, trace
from hetune.variants.frontend.tracing.not_traceable import NotTraceable, reason_of
from hetune.variants.frontend.tracing.python_state import PythonState
from hetune.variants.frontend.tracing.recording import Recordings
from hetune.variants.frontend.tracing.simplify import follows_from_edges
from hetune.variants.program.by_identity import by_identity
from hetune.variants.program.interpret import interpret_results
from hetune.variants.program.limitation import limitation
from hetune.variants.program.nodes import Program, Space

_GRAPHS = 3
_TOLERANCE = 1e-9
"""Largest error relative to the largest element, in float64."""
_LEAST_GRADIENT = 1e-3
"""Of the largest result: of rows of one number, normalized, gradients are zero but for rounding."""


def validated(module: nn.Module, arguments: CallArguments) -> tuple[Traced, Recordings]:
    """The program of a layer, confirmed on random graphs with loops, double edges and lone nodes.

    With it what calls replay of it: recorded in float64, and again on another graph as calls are.

    Features of edges are read in every call, unless something follows from them alone, or no
    kernel reads them so: that, such as norms of weights, is computed once for the same tensor.

    Args:
        module: The layer, in its mode; it is not changed.
        arguments: Of a call, whose kinds and shapes count.

    Raises:
        NotTraceable: It has no program, or another one on other graphs, or computes something else.
    """
    with torch.inference_mode(False):  # what is made there counts no writes, which tapes look at
        if not arguments.edge_features:
            return _validated(module, arguments)
        fixed = replace(arguments, edge_features=())
        try:
            read = _validated(module, arguments)
            program = read[0].program
            if limitation(program) is None and not follows_from_edges(program):
                return read
        except NotTraceable:
            return _validated(module, fixed)
        try:
            return _validated(module, fixed)
        except NotTraceable:
            return read


def _validated(module: nn.Module, arguments: CallArguments) -> tuple[Traced, Recordings]:
    random = torch.Generator().manual_seed(0)
    twin = _perturbed(module, random)
    graphs = [arguments.drawn(random, number_of_nodes(module, i)) for i in range(_GRAPHS)]
    found = trace(twin, graphs[0])
    _compare(twin, found, graphs[0])
    recordings = Recordings(found.recording)
    as_called = _traced_alike(module, graphs[1].like(arguments), found)
    # Masks that were met are of one graph.
    is_replayed = recordings.add(as_called.recording) and not found.masks
    for drawn in graphs[1:]:
        counts = drawn.num_nodes, drawn.num_sources
        with InDoubles():
            rows = found.recording.run(*counts, drawn.values) if is_replayed else None
        traced = None if rows is None else found.on(*counts, rows)
        _compare(twin, traced or _traced_alike(twin, drawn, found), drawn)
    return found, recordings


def _traced_alike(module: nn.Module, arguments: CallArguments, found: Traced) -> Traced:
    traced = trace(module, arguments)
    if traced.key != found.key:
        raise NotTraceable("its program depends on the graph: branch on options alone")
    return traced


def _perturbed(module: nn.Module, random: torch.Generator) -> nn.Module:
    """A copy in float64, on the CPU, with other parameters: zeros would hide mistakes."""
    try:
        twin = copy.deepcopy(module).double().cpu()
    except Exception as error:
        raise NotTraceable(f"it cannot be copied: {error}") from None
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(torch.rand(parameter.shape, generator=random).to(parameter) * 0.2)
    return twin


def parameters_of(module: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers by name, without gradients."""
    return {name: tensor.detach() for name, tensor in live_parameters_of(module).items()}


def live_parameters_of(module: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers by name."""
    return parameters_at(places_of(module))


Places = tuple[tuple[str, Mapping[str, Tensor | None], str], ...]
"""Of tensors: their names, and where parts of a module have them."""


def places_of(module: nn.Module) -> Places:
    """Where a module's parameters and buffers are, as long as it has the same parts."""
    return tuple(
        (f"{path}.{name}" if path else name, group, name)
        for path, part in module.named_modules(remove_duplicate=False)
        for group in (part._parameters, part._buffers)
        for name in group
    )


def parameters_at(places: Places) -> dict[str, Tensor]:
    """The parameters and buffers that are there, by name."""
    found = ((path, group.get(name)) for path, group, name in places)
    return {path: tensor for path, tensor in found if tensor is not None}


def weights_of(traced: Traced, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A tensor [types, *row shape] for each weight of the program, in the parameters' dtype."""
    known: dict[str, Any] = {}
    found = {n: evaluate(weight, parameters, known) for n, weight in traced.weights.items()}
    shared = _shared(traced.program)
    return {name: rows.unsqueeze(0) if name in shared else rows for name, rows in found.items()}


@by_identity
def _shared(program: Program) -> frozenset[str]:
    params = program.params
    return frozenset(param.name for param in params if param.type.space is Space.SHARED)


def number_of_nodes(module: nn.Module, i: int) -> int:
    """A number of nodes that is no width of the layer, so that none is taken for another."""
    widths = {extent for tensor in parameters_of(module).values() for extent in tensor.shape}
    free = (n for n in itertools.count(17) if not {n, 2 * n + 1} & widths)
    return next(itertools.islice(free, i, None))


def _run(module: nn.Module, drawn: CallArguments, updated: Collection[str]) -> Any:
    """What the layer itself gives, if it leaves all as it is but what its program updates, too."""

    def tensors() -> list[tuple[str, Tensor]]:
        given = ((name, v) for name, v in drawn.values.items() if isinstance(v, Tensor))
        return [*parameters_of(module).items(), *given]

    state, before = PythonState(original(module)), [(name, t.clone()) for name, t in tensors()]
    with InDoubles():
        try:
            result = module(**drawn.given(drawn.values))
        except Exception as error:
            raise NotTraceable(reason_of(error)) from None
    pairs = zip(tensors(), before, strict=True)
    written = [name for (name, now), (_, then) in pairs if not _are_equal(now, then)]
    for name in (state.change(), *written):
        if name is not None and name not in updated:
            raise NotTraceable(f"its forward writes to {name}: return what is read later")
    return result


def _are_equal(one: Tensor, other: Tensor) -> bool:
    """Also where both are not a number, as in memory that a module has never written to."""
    is_alike = one.shape == other.shape and one.dtype == other.dtype
    return is_alike and torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)


def interpreted(traced: Traced, module: nn.Module, arguments: CallArguments) -> Any:
    """What a program gives for the call that it was traced for, in float64.

    Args:
        traced: The program.
        module: Its layer, in float64.
        arguments: Of the call, floats in float64.
    """
    graph = traced.graph(arguments.num_nodes, arguments.num_sources)
    parameters = live_parameters_of(module)
    given = arguments.values
    order, types = traced.order, traced.program.types
    features = {
        name: torch.cat(of_one_width([given[n] for n in parts]))
        for name, parts in traced.rows.items()
    }
    for name, masks in traced.masks.items():
        rows = torch.cat([mask.fixed_rows() for mask in masks])
        features[name] = rows.reshape(-1, *types[name].shape)
    fixed = {name: rows.double() for name, rows in traced.constants.items()}
    fixed |= weights_of(traced, parameters)
    in_order = features if order is None else order.with_nodes_sorted(features, types)
    results = interpret_results(traced.program, {**fixed, **in_order}, graph)
    found = dict(zip(traced.program.results, results, strict=True))
    if order is not None:
        found = order.with_nodes_unsorted(found, types)
    values = {**features, **fixed, **found}
    met = itertools.chain(*traced.masks.values())
    with InDoubles(met):
        return traced.result(values, parameters, given, traced.of_graph, arguments.num_nodes)


def gradient_refusal(module: nn.Module, arguments: CallArguments) -> str | None:
    """Why gradients of a confirmed program are not its layer's, or None: where it detaches, say.

    Args:
        module: The layer, in its mode; it is not changed.
        arguments: Of a call.
    """
    with torch.inference_mode(False), torch.enable_grad():
        random = torch.Generator().manual_seed(0)
        twin = _perturbed(module, random).requires_grad_()
        drawn = arguments.drawn(random, number_of_nodes(module, 0))
        features = (*arguments.features, *arguments.sources, *arguments.edge_features)
        wanted = [*twin.parameters(), *(drawn.values[name].requires_grad_() for name in features)]
        try:
            traced = trace(twin, drawn)
            found = interpreted(traced, twin, drawn)
            expected = _run(twin, _with_long_ids(drawn), traced.updated)
            _compare_gradients(found, expected, wanted)
        except NotTraceable as error:
            return str(error)
    return None


def _with_long_ids(arguments: CallArguments) -> CallArguments:
    """The same call: torch's gradients of `scatter_add` are wrong by expanded indexes of int32."""
    values = {
        name: value.long() if isinstance(value, Tensor) and value.dtype is torch.int32 else value
        for name, value in arguments.values.items()
    }
    return replace(arguments, values=values)


def _compare_gradients(found: Any, expected: Any, wanted: list[Tensor]) -> None:
    """Compares gradients of all tensors of two results, by sums of random multiples."""

    def gradients(result: Any) -> list[Tensor]:
        random = torch.Generator().manual_seed(1)
        rows = [each for each in _tensors(result) if each.requires_grad]
        total = sum(
            ((each * torch.randn(each.shape, generator=random).to(each)).sum() for each in rows),
            torch.zeros((), dtype=torch.float64, requires_grad=True),
        )
        by = torch.autograd.grad(total, wanted, allow_unused=True)
        zeros = map(torch.zeros_like, wanted)
        return [zero if each is None else each for each, zero in zip(by, zeros, strict=True)]

    pairs = [*zip(gradients(found), gradients(expected), strict=True)]
    results = [_LEAST_GRADIENT * each.detach() for each in _tensors(expected)]
    sizes = [each.abs().max().item() for each in (*results, *(e for _, e in pairs)) if each.numel()]
    largest = max(sizes, default=0.0)
    for one, other in pairs:
        if one.numel() and not (one - other).abs().max().item() <= _TOLERANCE * largest:
            raise NotTraceable("its program has other gradients: something in it is detached")


def _tensors(result: Any) -> list[Tensor]:
    match result:
        case Tensor():
            return [result]
        case dict():
            return _tensors([*result.values()])
        case list() | tuple():
            return [tensor for part in result for tensor in _tensors(part)]
    return []


def _compare(twin: nn.Module, traced: Traced, drawn: CallArguments) -> None:
    own = copy.deepcopy(twin) if traced.updated else twin
    with torch.no_grad():
        expected = _run(own, drawn, traced.updated)
        _compare_results(interpreted(traced, twin, drawn), expected)
    now, then = parameters_of(twin), parameters_of(own)
    if any(not torch.allclose(now[n].double(), then[n].double()) for n in traced.updated):
        raise NotTraceable("its statistics become others when it runs on numbers")


def _compare_results(found: Any, expected: Any) -> None:
    """Compares tensors, in tuples, lists and dictionaries."""
    match expected:
        case Tensor():
            is_alike = isinstance(found, Tensor) and expected.shape == found.shape
            if not is_alike or expected.is_floating_point() != found.is_floating_point():
                raise NotTraceable("its result has another form when it runs on numbers")
            if not expected.numel():
                return
            found, expected = found.double(), expected.double()  # masks are not subtracted
            error = ((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)).item()
            if not error <= _TOLERANCE:
                raise NotTraceable(f"its program gives other numbers: they differ by {error:.0e}")
        case dict():
            _compare_results([*found.items()], [*expected.items()])
        case list() | tuple() if type(found) is type(expected) and len(found) == len(expected):
            for one, other in zip(found, expected, strict=True):
                _compare_results(one, other)
        case _:
            if found != expected:
                raise NotTraceable("its result has another form when it runs on numbers")
