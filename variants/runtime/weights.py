"""What plans compute from a module's weights, kept until the module's parameters change."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.parameters_version import ParametersVersion
from hetune.variants.frontend.type_order import SAME, TypeOrder, order_of
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.streams import synchronize
from hetune.variants.plan.nodes import Plan
from hetune.variants.runtime.float32_range import fits
from hetune.variants.runtime.plan_facts import facts_of
from hetune.variants.runtime.plan_inputs import TypesRead, weights_of

_NONE: Mapping[str, Tensor] = MappingProxyType({})
_OTHER_ORDERS = 16
"""Most weights that are kept for graphs with types in another order than the layer's."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What a plan reads of a module's parameters.

    Attributes:
        version: Of the parameters that they were made of.
        tensors: As `weights_of` gives them.
        fit: Whether they lie within float32's range, if the parameters do.
    """

    version: ParametersVersion
    tensors: dict[str, Tensor]
    fit: bool


class WeightCache:
    """A layer's weights as its plans read them. Safe with several threads."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Hashable, TypeOrder, bool], Weights] = {}
        self._reads: dict[int, tuple[TypesRead, frozenset[str]]] = {}

    def _reads_of(self, plan: Plan) -> tuple[TypesRead, frozenset[str]]:
        names = frozenset(param.name for param in facts_of(plan).weights)
        found = self._reads[id(plan)] = TypesRead.by(plan), names
        return found

    def weights(
        self,
        plan: Plan,
        adapter: Adapter,
        graph: HeteroGraph,
        edges: object = None,
        given: Mapping[str, Tensor] = _NONE,
    ) -> Weights:
        """What a plan reads on a graph.

        Args:
            plan: What reads them.
            adapter: Of the module.
            graph: What is run on.
            edges: What the call gave: a graph whose types are to be found in the module's.
            given: The program's weights, perhaps: a step of training has them, and writes to the
                parameters afterwards. Their products are float32's then, as those of the backward.
                A GPU is not waited for, which telling whether they fit, and keeping them for other
                streams, would do.

        Raises:
            InputError: The module is not on the graph's device.
        """
        version = adapter.parameters_version()
        if version.devices not in ((), (graph.device,)):
            raise InputError(
                f"the module is on {' and '.join(map(str, version.devices))} but x and the graph "
                f"are on {graph.device}: move them to one device, and compile the module there"
            )
        order = order_of(adapter, edges)
        reads, names = self._reads.get(id(plan)) or self._reads_of(plan)
        is_given = bool(names) and given.keys() >= names
        key = id(plan), reads.of(graph), order, is_given
        known = self._kept.get(key)
        if known is not None and known.version is version:
            return known
        if is_given:
            values = {name: given[name] for name in names}
        else:
            values = order.weights(adapter.program, adapter.weights())
        tensors = weights_of(plan, values, graph, torch.float32 if is_given else torch.float64)
        if is_given and graph.device.type != "cpu":
            return Weights(version, tensors, True)
        made = Weights(version, tensors, fits(tensors, values))
        if synchronize(graph.device):
            now = {k: kept for k, kept in self._kept.items() if kept.version is version}
            others = [k for k in now if k[2] not in (SAME, order)]
            for known_key in others if len(others) >= _OTHER_ORDERS else ():
                del now[known_key]  # graphs may come in any order of their types
            self._kept = {**now, key: made}  # others may be reading
        return made
