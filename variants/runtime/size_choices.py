"""One choice for all graphs of a size, where every call brings a new graph."""

from __future__ import annotations

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.calls import Policy


class SizeChoices:
    """A layer's choices by the sizes of graphs, each between two powers of two.

    Samples of one size from one graph hardly differ (SENSEi, section 5.5), and to look at each of
    them takes as long as to run a small one.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[int, ...], str] = {}

    def id_of(self, variants: tuple[Variant, ...], graph: HeteroGraph, policy: Policy) -> str:
        """What runs on a graph: what was chosen for the first one of its size.

        Raises:
            MemoryLimitError: No variant fits the limit.
        """
        if policy.memory_limit is not None:  # which may be met by one graph of a size alone
            return policy.choice(variants, graph).id
        key = graph.num_nodes.bit_length(), graph.num_edges.bit_length(), kernel_threads()
        if key not in self._ids:
            self._ids[key] = policy.choice(variants, graph).id
        return self._ids[key]
