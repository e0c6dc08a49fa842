"""Calls that run in the original module: what they are told, and what it is given."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.type_order import order_of
from hetune.variants.graph.convert.edge_index_dict import to_edge_index_dict
from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph
from hetune.variants.runtime.call_options import CallOptions
from hetune.variants.runtime.graph_break import caller

NO_OUT = "out= is for rows that a program returns, and torch makes others of them: leave it out"
"""What a call with ``out=`` is told whose program is not all of it."""
_Result = Any
"""A tensor, or one for each node type."""


class FallbackWarning(UserWarning):
    """A call or a module runs uncompiled, for the reason that the message names."""


def warn(message: str) -> None:
    """Warns whoever calls hetune, whichever way the call came through torch."""
    warnings.warn(message, FallbackWarning, caller())


def check_none_asked(options: CallOptions, memory_limit: int | None, reason: str) -> None:
    """Checks that nothing is asked for which the original module cannot give.

    Args:
        options: Of the call.
        memory_limit: Of all calls.
        reason: Why it runs there.

    Raises:
        InputError: Something is.
    """
    asked = {f"{name}=": value for name, value in options._asdict().items()}
    for name, value in {**asked, "memory_limit= of hetune.compile": memory_limit}.items():
        if value is not None:
            raise InputError(
                f"{name} cannot be honored, for the call runs in the original module: {reason}"
            )


def copied_to(wanted: _Result, found: _Result) -> _Result:
    """What a call wants, with what the original module gave copied to it.

    Args:
        wanted: Rows of the call's `out`.
        found: As many of the module.
    """
    if isinstance(wanted, torch.Tensor):
        return wanted.copy_(found)
    for name, rows in wanted.items():
        rows.copy_(found[name])
    return wanted


def arguments_for(
    module: torch.nn.Module,
    adapter: Adapter | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """A call's arguments, with edge tensors in place of a graph for PyG's layers, which take none.

    Raises:
        InputError: There are none that would fit.
    """
    given = (*args, *kwargs.values())
    is_named = adapter is not None and adapter.vocabulary is not None and adapter.metadata is None
    needs_tensors = _is_pyg_s(module) or is_named  # the module itself goes by numbers
    if not needs_tensors or not any(isinstance(value, HeteroGraph) for value in given):
        return args, kwargs
    if adapter is not None and not kwargs:
        match args:
            case Mapping() as x_dict, HeteroGraph() as graph if adapter.signature == "hetero":
                return (x_dict, _edge_index_dict(adapter, graph)), {}
            case *rows, HeteroGraph() as graph if adapter.signature == "flat":
                edge_type = order_of(adapter, graph).edge_types(graph)
                return (*rows, torch.stack((graph.src, graph.dst)).long(), edge_type), {}
    raise InputError(
        "the original module takes no HeteroGraph: give it the edge tensors, or meet the "
        "reason that the warning names"
    )


def _edge_index_dict(adapter: Adapter, graph: HeteroGraph) -> dict[CanonicalEtype, torch.Tensor]:
    """The graph's edges by the layer's edge types, in the layer's order, by which PyG goes."""
    assert adapter.metadata is not None
    numbers = order_of(adapter, graph).etypes or range(graph.num_etypes)
    found = dict(zip(numbers, to_edge_index_dict(graph).values(), strict=True))
    return {(key[0], key[1], key[2]): found[i] for i, key in enumerate(adapter.metadata[1])}


def _is_pyg_s(module: torch.nn.Module) -> bool:
    return any(kind.__module__.startswith("torch_geometric.") for kind in type(module).__mro__)
