"""One choice for all graphs of a size, where every call brings a new graph."""

from __future__ import annotations

from dataclasses import replace

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.layer_use import LayerUse

NEW_GRAPHS = 8
"""So many in a row tell that every call brings one."""


class SizeChoices:
    """A layer's choices by the sizes of graphs, each between two powers of two.

    Samples of one size from one graph hardly differ (SENSEi, section 5.5), and to look at each of
    them takes as long as to run a small one.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[int, ...], str] = {}
        self._uses: dict[tuple[int, ...], LayerUse] = {}
        self._new = 0

    def policy(self, policy: Policy, use: LayerUse, *, is_call: bool = False) -> Policy:
        """How to choose on a graph: by its size where the graphs before it were new, too.

        Args:
            policy: How the layer chooses.
            use: What is remembered of the layer's use of the graph.
            is_call: Whether the graph is run on, and not only asked about.
        """
        was_met, is_new = use.is_met, not use.is_met and self.are_new(policy)
        if is_call:
            use.is_met, self._new = True, 0 if was_met else self._new + 1
        return replace(policy, dynamic=True) if is_new and not policy.dynamic else policy

    def are_new(self, policy: Policy) -> bool:
        """Whether the next call is expected to bring a new graph."""
        told = policy.expected_runs is not None or policy.explore
        return policy.dynamic or not (told or self._new < NEW_GRAPHS)

    def id_of(self, variants: tuple[Variant, ...], graph: HeteroGraph, policy: Policy) -> str:
        """What runs on a graph: what was chosen for the first one of its size and about its limit.

        It need not fit the limit, where there is one.

        Raises:
            MemoryLimitError: No variant fits the limit.
        """
        key = _key(graph, policy)
        if key not in self._ids:
            self._ids[key] = policy.choice(variants, graph).id
        return self._ids[key]

    def known(self, graph: HeteroGraph, policy: Policy) -> str | None:
        """What `id_of` gives for graphs of this size, if it was asked before."""
        return self._ids.get(_key(graph, policy))

    def use_of(self, graph: HeteroGraph) -> LayerUse:
        """What graphs of this size share of it."""
        size = size_of(graph)
        return self._uses.get(size) or self._uses.setdefault(size, LayerUse())


def _key(graph: HeteroGraph, policy: Policy) -> tuple[int, ...]:
    return *size_of(graph), (policy.memory_limit or 0).bit_length(), policy.weights_change


def size_of(graph: HeteroGraph) -> tuple[int, ...]:
    """Equal for graphs of about one size, while there are as many threads."""
    return size_of_counts(graph.num_nodes, graph.num_targets, graph.num_edges)


def size_of_counts(nodes: int, targets: int, edges: int) -> tuple[int, ...]:
    """That of a graph with so many."""
    return nodes.bit_length(), targets.bit_length(), edges.bit_length(), kernel_threads()
