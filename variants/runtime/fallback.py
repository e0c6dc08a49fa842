"""Calls that run in the original module: what they are told, and what it is given."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.type_order import order_of
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.graph_break import caller


class FallbackWarning(UserWarning):
    """A call or a module runs uncompiled, for the reason that the message names."""


def warn(message: str) -> None:
    """Warns whoever calls hetune, whichever way the call came through torch."""
    warnings.warn(message, FallbackWarning, caller())


def check_demands_met(demands: Mapping[str, object], reason: str) -> None:
    """Checks that nothing is asked for which the original module cannot give.

    Raises:
        InputError: Something is.
    """
    for name, value in demands.items():
        if value is not None:
            raise InputError(
                f"{name} cannot be honored, for the call runs in the original module: {reason}"
            )


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
    if adapter is None or adapter.kind == "hgt" or kwargs or len(args) != 2:
        raise InputError(
            "the original module takes no HeteroGraph: give it the edge tensors, or meet the "
            "reason that the warning names"
        )
    graph = args[1]
    edge_type = order_of(adapter, graph).edge_types(graph)
    return (args[0], torch.stack((graph.src, graph.dst)).long(), edge_type), {}


def _is_pyg_s(module: torch.nn.Module) -> bool:
    return any(kind.__module__.startswith("torch_geometric.") for kind in type(module).__mro__)
