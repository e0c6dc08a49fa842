"""A corpus that spans what heterogeneous graphs are like, none of which is a real one.

Ranges of counts, ratios and shares are wider than those of some thirty published graphs: 1.1 to
180 edges a node, distinct (node, relation) pairs from 0.6% of the edges to all of them, one
relation to 2,000, nodes with a fifth of the edges, 40% of the nodes isolated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hetune.profiling.corpus.draw import generator
from hetune.profiling.corpus.options import Scalar
from hetune.profiling.corpus.recipes import recipe
from hetune.profiling.units import GraphRecipe
from hetune.variants.errors import CampaignError

Options = dict[str, Scalar]

_SUBSAMPLED = 0.1
"""Share of the graphs that are parts of larger ones."""
_LEAST_NODES = 16


@dataclass(frozen=True, slots=True)
class Spanning:
    """Which graphs of the corpus; equal values give equal recipes.

    Attributes:
        graphs: How many, of all families in turn.
        seed: Where chance starts.
        least_edges: The smallest graph's edges, about; inverses count.
        most_edges: The largest one's. In each family the logarithms of sizes are spread evenly, so
            that there are as many graphs from 1,000 to 10,000 edges as from 10,000 to 100,000.

    Raises:
        CampaignError: There are to be no graphs, or the limits leave no room.
    """

    graphs: int
    seed: int = 0
    least_edges: int = 100
    most_edges: int = 1_500_000

    def __post_init__(self) -> None:
        if (
            self.graphs < 1
            or self.seed < 0
            or not 20 <= self.least_edges < self.most_edges <= 2**30
        ):
            raise CampaignError(
                f"{self.graphs} graphs of {self.least_edges} to {self.most_edges} edges with seed "
                f"{self.seed}: take 1 or more graphs of 20 or more edges, room between the limits, "
                "and a seed of 0 or more"
            )

    def recipes(self) -> tuple[GraphRecipe, ...]:
        """The graphs' recipes."""
        drawn = _Draw(generator("spanning", self.seed))
        # In each family one graph of each size range.
        turns = math.ceil(self.graphs / len(FAMILIES))
        ranges = [drawn.rng.permutation(turns) for _ in FAMILIES]
        found = []
        for number in range(self.graphs):
            turn, family = divmod(number, len(FAMILIES))
            name, make = list(FAMILIES.items())[family]
            place = (int(ranges[family][turn]) + drawn.rng.random()) / turns
            edges = round(self.least_edges * (self.most_edges / self.least_edges) ** place)
            found.append(_recipe(f"{name}-{turn}", name, make, edges, drawn, number))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class _Draw:
    rng: np.random.Generator

    def even(self, low: float, high: float) -> float:
        return round(low + (high - low) * self.rng.random(), 3)

    def log(self, low: float, high: float) -> float:
        return float(low * (high / low) ** self.rng.random())

    def count(self, low: float, high: float) -> int:
        """A whole number; small ones are likelier."""
        return max(1, round(self.log(low, max(low, high))))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)


Family = Callable[[int, _Draw], tuple[str, Options]]
"""From a number of edges to a kind and its options but for the seed and inverses."""


def _recipe(
    name: str, family: str, make: Family, edges: int, drawn: _Draw, seed: int
) -> GraphRecipe:
    inverse = drawn.chance(0.5)
    kept = drawn.even(0.3, 0.8) if drawn.chance(_SUBSAMPLED) else 1.0
    kind, options = make(max(10, round(edges / kept / (1 + inverse))), drawn)
    options |= {"seed": seed, "inverse": inverse}
    if kept < 1:
        options = {f"of.{key}": value for key, value in options.items()}
        options |= {"of": kind, "edges": kept, "seed": seed}
        kind = "subsample"
    return recipe(name, kind, family, options)


def _typed(
    edges: int, drawn: _Draw, *, per_node: tuple[float, float], etypes: tuple[int, int]
) -> Options:
    """Sizes that all graphs of typed edges have."""
    relations = drawn.count(etypes[0], min(etypes[1], max(etypes[0], edges / 5)))
    return {
        "edges": edges,
        "nodes": max(_LEAST_NODES, round(edges / drawn.log(*per_node))),
        "etypes": min(relations, edges),
    }


def _both_directions(edges: int) -> Options:
    return {"undirected": True, "edges": max(5, edges // 2)}


def _power(drawn: _Draw, low: float, high: float) -> Options:
    return {
        "src_law": "power",
        "dst_law": "power",
        "src_exponent": drawn.even(low, high),
        "dst_exponent": drawn.even(low, high),
    }


def _node_types(options: Options, drawn: _Draw, low: int, high: int) -> Options:
    room = min(high, int(options["nodes"]) // 4, 2 * int(options["etypes"]))
    ntypes = min(drawn.count(low, high), max(1, room))
    return {"ntypes": ntypes, "ntype_skew": drawn.even(0.0, 2.0)}


def _uniform(edges: int, drawn: _Draw) -> tuple[str, Options]:
    options = _typed(edges, drawn, per_node=(1.2, 40), etypes=(1, 300))
    if drawn.chance(0.5):
        options |= {"src_ratio": drawn.even(0.05, 1), "dst_ratio": drawn.even(0.05, 1)}
    return "typed", options | {"skew": drawn.even(0, 1.2)}


def _regular(edges: int, drawn: _Draw) -> tuple[str, Options]:
    options = _typed(edges, drawn, per_node=(1.5, 30), etypes=(1, 40))
    return "typed", options | {
        "src_law": "regular",
        "dst_law": "regular",
        "locality": drawn.even(0.0, 1.0),
        "ordered": drawn.chance(0.5),
    }


def _powerlaw(edges: int, drawn: _Draw) -> tuple[str, Options]:
    etypes = (1, 1) if drawn.chance(0.6) else (2, 6)
    options = _typed(edges, drawn, per_node=(3, 60), etypes=etypes)
    if drawn.chance(0.7):
        options |= _both_directions(edges)
    return "typed", options | _power(drawn, 0.4, 1.1)


def _dense(edges: int, drawn: _Draw) -> tuple[str, Options]:
    etypes = (1, 1) if drawn.chance(0.6) else (2, 4)
    options = _typed(edges, drawn, per_node=(50, 200), etypes=etypes)
    if drawn.chance(0.7):
        options |= _both_directions(edges)
    return "typed", options | _power(drawn, 0.2, 0.9)


def _hub(edges: int, drawn: _Draw) -> tuple[str, Options]:
    options = _typed(edges, drawn, per_node=(1.05, 5), etypes=(2, 60))
    options |= _power(drawn, 0.2, 1.0) | _node_types(options, drawn, 1, 6)
    side = "dst" if drawn.chance(0.8) else "src"
    return "typed", options | {
        "src_ratio": drawn.even(0.5, 1.0),
        "dst_ratio": drawn.even(0.05, 0.5),
        "skew": drawn.even(0.5, 1.8),
        f"{side}_hub": drawn.even(0.05, 0.8),
    }


def _bipartite(edges: int, drawn: _Draw) -> tuple[str, Options]:
    options = _typed(edges, drawn, per_node=(1.1, 12), etypes=(2, 8))
    options |= _power(drawn, 0.0, 1.0) | _node_types(options, drawn, 2, 5)
    return "typed", options | {
        "src_ratio": drawn.even(0.1, 0.7),
        "dst_ratio": drawn.even(0.1, 0.7),
        "isolated": drawn.even(0.0, 0.4) if drawn.chance(0.5) else 0.0,
    }


def _rdf(edges: int, drawn: _Draw) -> tuple[str, Options]:
    options = _typed(edges, drawn, per_node=(1.5, 5), etypes=(15, 150))
    options |= _power(drawn, 0.5, 1.1) | _node_types(options, drawn, 3, 20)
    return "typed", options | {
        "src_ratio": drawn.even(0.35, 0.7),
        "dst_ratio": drawn.even(0.15, 0.6),
        "spread": drawn.even(0.5, 1.5),
        "skew": drawn.even(0.8, 1.6),
        "popularity": drawn.even(1.0, 2.5),
    }


def _kg(edges: int, drawn: _Draw) -> tuple[str, Options]:
    options = _typed(edges, drawn, per_node=(8, 45), etypes=(100, 2000))
    return "typed", options | _power(drawn, 0.4, 1.1) | {
        "src_ratio": drawn.even(0.15, 0.45),
        "dst_ratio": round(drawn.log(0.03, 0.35), 3),
        "spread": drawn.even(0.4, 1.4),
        "skew": drawn.even(0.6, 1.6),
        "popularity": drawn.even(1.0, 3.0),
    }


def _lexicon(edges: int, drawn: _Draw) -> tuple[str, Options]:
    options = _typed(edges, drawn, per_node=(1.5, 4), etypes=(4, 24))
    return "typed", options | _power(drawn, 0.2, 0.9) | {
        "src_ratio": drawn.even(0.5, 0.9),
        "dst_ratio": drawn.even(0.35, 0.8),
        "spread": drawn.even(0.0, 0.8),
        "skew": drawn.even(0.4, 1.6),
        "locality": drawn.even(0.0, 0.9),
        "ordered": drawn.chance(0.5),
    }


def _citation(edges: int, drawn: _Draw) -> tuple[str, Options]:
    etypes = (1, 1) if drawn.chance(0.7) else (2, 3)
    options = _typed(edges, drawn, per_node=(1.3, 12), etypes=etypes)
    return "typed", options | {
        "src_law": "regular",
        "dst_law": "power",
        "dst_exponent": drawn.even(0.4, 1.2),
        "dst_ratio": drawn.even(0.05, 0.5),
        "locality": drawn.even(0.0, 0.8),
        "ordered": drawn.chance(0.5),
    }


def _road(edges: int, drawn: _Draw) -> tuple[str, Options]:
    degree = drawn.even(1.8, 3.6)
    return "road", {
        "nodes": max(_LEAST_NODES, round(edges / degree)),
        "degree": degree,
        "etypes": 1 if drawn.chance(0.5) else drawn.count(2, 8),
        "shuffled": drawn.chance(0.4),
    }


def _clique(edges: int, drawn: _Draw) -> tuple[str, Options]:
    density = drawn.even(0.3, 1.0)
    # Cliques of many nodes are none that anybody has.
    nodes = round(math.sqrt(min(edges, 150_000) / density))
    return "clique", {
        "nodes": max(8, nodes),
        "density": density,
        "etypes": drawn.count(4, 80),
        "skew": drawn.even(0.0, 1.2),
        "groups": drawn.count(2, 24),
        "order": drawn.even(0.0, 0.95),
    }


def _community(edges: int, drawn: _Draw) -> tuple[str, Options]:
    options = _typed(edges, drawn, per_node=(4, 60), etypes=(1, 40))
    if drawn.chance(0.5):
        options |= _both_directions(edges)
    return "community", options | {
        "communities": drawn.count(2, max(2, int(options["nodes"]) / 8)),
        "inside": drawn.even(0.5, 0.98),
        "own": drawn.even(0.0, 1.0),
        "exponent": drawn.even(0.0, 1.0),
        "shuffled": drawn.chance(0.5),
    }


FAMILIES: dict[str, Family] = {
    "uniform": _uniform,
    "kg": _kg,
    "road": _road,
    "hub": _hub,
    "clique": _clique,
    "rdf": _rdf,
    "powerlaw": _powerlaw,
    "bipartite": _bipartite,
    "community": _community,
    "lexicon": _lexicon,
    "dense": _dense,
    "citation": _citation,
    "regular": _regular,
}
"""The families of the corpus."""
