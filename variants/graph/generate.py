"""Graphs drawn with the counts and the shape of published ones."""

import math
import zlib
from dataclasses import dataclass

import numpy as np
import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph.generate_specs import SPECS, GraphSpec
from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph

# Spread of a relation's distinct nodes over edges around the mean: standard deviation of the
# logarithm, as measured on aifb, mutag and FB15k-237.
_WIDE_SPREAD = 0.7
_NARROW_SPREAD = 1.5
# Pairs of nodes per edge that a relation has at least, where its node types allow it.
_ROOM = 4
# Exponent of the degrees on the wider side of a relation.
_EVEN = 0.3
# Rounds, at most, in which repeated edges exchange destinations with others.
_SWAPS = 4
# Share of relations with more destinations than sources: 0.3 to 0.4 there.
_WIDE_DESTINATIONS = 0.35


def generate(name: str, scale: float = 1.0, seed: int = 0) -> HeteroGraph:
    """Draw a graph with the published counts of a real one, and alike in what plans depend on.

    Alike are: sizes of relations, degrees (heavy-tailed), and for each relation the distinct
    sources and destinations, so that unique (src, etype) / E and unique (dst, etype) / E come
    close to the real ratios. aifb, am, bgs, fb15k and mutag hold an inverse of each edge, as the
    published counts do. Ids within a node type carry no order; edges are grouped by relation.

    Args:
        name: "aifb", "am", "bgs", "biokg", "fb15k", "mag", "mutag" or "wikikg2".
        scale: Factor on nodes and edges; types stay, with at least one node or edge each.
        seed: Same name, scale and seed, same graph.

    Returns:
        A canonical graph on the CPU. The real graphs have no repeated edge; this one has few.

    Raises:
        GraphError: The name is unknown, or the scale or seed is not positive.
    """
    if name not in SPECS:
        raise GraphError(f"no generator called {name!r}: one of {', '.join(sorted(SPECS))}")
    if not (math.isfinite(scale) and scale > 0):
        raise GraphError(f"scale is {scale}: give a positive number")
    if seed < 0:
        raise GraphError(f"seed is {seed}: give a number of 0 or more")
    spec = SPECS[name]
    if spec.edges * scale >= 2**31:
        raise GraphError(f"scale {scale} gives 2**31 edges or more: give a smaller one")
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    counts = np.array([max(1, round(count * scale)) for _, count in spec.ntypes])
    relations = (
        _known_relations(spec, counts, scale)
        if spec.relations
        else _draw_relations(spec, counts, scale, rng)
    )
    src, dst = _draw_edges(spec, counts, relations, rng)
    names = [ntype for ntype, _ in spec.ntypes]
    graph = HeteroGraph(
        torch.from_numpy(src),
        torch.from_numpy(dst),
        torch.from_numpy(
            np.repeat(np.arange(len(relations.edges), dtype=np.int32), relations.edges)
        ),
        torch.from_numpy(np.repeat(np.arange(len(counts), dtype=np.int32), counts)),
        ntype_names=names,
        etype_names=relations.names,
        canonical_etypes=relations.triples(names),
        validate=False,
    )
    return graph.add_inverse() if spec.inverses else graph


@dataclass(frozen=True, slots=True)
class _Relations:
    """Columns with a row per relation."""

    names: list[str]
    edges: np.ndarray
    ends: tuple[np.ndarray, np.ndarray]  # node type of the sources, of the destinations
    distinct: tuple[np.ndarray, np.ndarray]  # distinct sources, destinations

    def triples(self, ntypes: list[str]) -> list[CanonicalEtype]:
        ends = zip(self.names, *(end.tolist() for end in self.ends), strict=True)
        return [(ntypes[source], name, ntypes[target]) for name, source, target in ends]


def _known_relations(spec: GraphSpec, counts: np.ndarray, scale: float) -> _Relations:
    ids = {name: i for i, (name, _) in enumerate(spec.ntypes)}
    edges = np.array([max(1, round(r.edges * scale)) for r in spec.relations])
    ends = (
        np.array([ids[r.source] for r in spec.relations]),
        np.array([ids[r.target] for r in spec.relations]),
    )
    stated = ([r.sources for r in spec.relations], [r.targets for r in spec.relations])
    distinct = tuple(
        np.clip(np.rint(np.array(side) * scale).astype(np.int64), 1, np.minimum(counts[end], edges))
        for side, end in zip(stated, ends, strict=True)
    )
    return _Relations([r.name for r in spec.relations], edges, ends, (distinct[0], distinct[1]))


def _draw_relations(
    spec: GraphSpec, counts: np.ndarray, scale: float, rng: np.random.Generator
) -> _Relations:
    share = 2 if spec.inverses else 1
    relations = spec.etypes // share
    total = max(relations, round(spec.edges // share * scale))
    edges = _relation_sizes(spec, total, relations, most=int(counts.max()) ** 2 // 2)
    wide_end, narrow_end = _draw_ends(spec, edges, counts, rng)
    wide_room = np.minimum(edges, counts[wide_end])
    narrow_room = np.minimum(edges, counts[narrow_end])
    noise = rng.standard_normal((2, relations))
    # More pairs of nodes than edges, where the types allow it, keeps repeats few.
    fewest = np.maximum(
        _ROOM * edges // narrow_room, np.rint(np.sqrt(_ROOM * edges)).astype(np.int64)
    )
    fewest = np.minimum(fewest, wide_room)
    if len(counts) > 1:
        for _, relation in _own_relations(spec, edges, counts):
            fewest[relation] = wide_room[relation]  # it reaches every node of its type
    wide = _fit(edges, fewest, wide_room, _WIDE_SPREAD * noise[0], spec.wide)
    most = np.minimum(narrow_room, wide)
    fewest = np.clip(_ROOM * edges // wide, 1, most)
    narrow = _fit(edges, fewest, most, _NARROW_SPREAD * noise[1], spec.narrow)

    swap = rng.random(relations) < _WIDE_DESTINATIONS
    return _Relations(
        [f"relation{r}" for r in range(relations)],
        edges,
        (np.where(swap, narrow_end, wide_end), np.where(swap, wide_end, narrow_end)),
        (np.where(swap, narrow, wide), np.where(swap, wide, narrow)),
    )


def _relation_sizes(spec: GraphSpec, total: int, relations: int, most: int) -> np.ndarray:
    """Sizes that fall by rank, from 1 to `most` (at least 1), and sum to `total` where they can."""
    weights = (1 + np.arange(relations) / (1 + spec.size_shift)) ** -spec.size_exponent
    most = max(1, most)
    low, high = 0.0, float(total) * 1e6
    for _ in range(200):
        middle = (low + high) / 2
        fits = np.clip(np.floor(middle * weights), 1, most).sum() <= total
        low, high = (middle, high) if fits else (low, middle)
    sizes: np.ndarray = np.clip(np.floor(low * weights), 1, most).astype(np.int64)
    left = int(total - sizes.sum())
    for r in range(relations):  # what rounding left over
        more = min(max(left, 0), most - int(sizes[r]))
        sizes[r] += more
        left -= more
    return sizes


def _draw_ends(
    spec: GraphSpec, edges: np.ndarray, counts: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Node type on the wider and on the narrower side of each relation, large types likelier.

    The wider side has room for its distinct nodes, both together for edges that do not repeat. Each
    type is on the wider side once, the largest in the largest relation.
    """
    wide = np.array([_draw_type(counts, spec.wide * size, rng) for size in edges.tolist()])
    for ntype, relation in _own_relations(spec, edges, counts):
        wide[relation] = ntype
    room = np.maximum(1, counts[wide])
    narrow = np.array([_draw_type(counts, least, rng) for least in (_ROOM * edges / room).tolist()])
    return wide, narrow


def _own_relations(spec: GraphSpec, edges: np.ndarray, counts: np.ndarray) -> list[tuple[int, int]]:
    """For each node type a relation of its own, whose wider side is about as large."""
    free = np.log(np.maximum(1.0, spec.wide * edges))
    own = []
    for ntype in np.argsort(-counts, kind="stable").tolist()[: len(edges)]:
        relation = int(np.argmin(np.abs(free - math.log(counts[ntype]))))
        free[relation] = np.inf
        own.append((ntype, relation))
    return own


def _draw_type(counts: np.ndarray, least: float, rng: np.random.Generator) -> int:
    """A node type of at least so many nodes, or the largest."""
    weights = np.where(counts >= min(least, counts.max()), counts**0.7, 0.0)
    return int(rng.choice(len(counts), p=weights / weights.sum()))


def _fit(
    edges: np.ndarray, low: np.ndarray, high: np.ndarray, noise: np.ndarray, ratio: float
) -> np.ndarray:
    """Distinct nodes per relation between `low` and `high`, `ratio` of all edges in total."""
    least, most = -30.0, 30.0
    for _ in range(100):
        middle = (least + most) / 2
        distinct = np.clip(edges * np.exp(middle + noise), low, high)
        least, most = (middle, most) if distinct.sum() < ratio * edges.sum() else (least, middle)
    fitted: np.ndarray = np.clip(np.rint(edges * np.exp(least + noise)), low, high)
    return fitted.astype(np.int64)


def _draw_edges(
    spec: GraphSpec, counts: np.ndarray, relations: _Relations, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Global ids of the edges' ends, int32 [E] each, grouped by relation."""
    pairs = [
        _draw_nodes(spec, counts, relations.ends[side], relations.distinct[side], rng)
        for side in (0, 1)
    ]
    _reach_every_node(counts, relations, pairs, rng)
    total = int(relations.edges.sum())
    columns = (np.empty(total, dtype=np.int32), np.empty(total, dtype=np.int32))
    starts = np.cumsum(relations.edges) - relations.edges
    firsts = [np.cumsum(distinct) - distinct for distinct in relations.distinct]
    for r, (start, edges) in enumerate(zip(starts.tolist(), relations.edges.tolist(), strict=True)):
        for side in (0, 1):
            first, distinct = int(firsts[side][r]), int(relations.distinct[side][r])
            other = int(relations.distinct[1 - side][r])
            # Hubs on both sides would meet again and again.
            exponent = spec.hub if distinct <= other else _EVEN
            most = int(other * min(0.8, max(0.2, other / edges)))
            degrees = _degrees(exponent, distinct, edges, most, rng)
            nodes = pairs[side][first : first + distinct]
            columns[side][start : start + edges] = np.repeat(nodes, degrees)
        end = start + edges
        _pair_up(columns[0][start:end], columns[1][start:end], rng)
    return columns


def _pair_up(src: np.ndarray, dst: np.ndarray, rng: np.random.Generator) -> None:
    """Shuffle the destinations, in place, so that few edges repeat; order edges by (src, dst).

    Args:
        src: Sources of a relation's edges, int32 [E_r], equal ones side by side.
        dst: Destinations, int32 [E_r]; they only change places, so that degrees stay.
        rng: Where chance comes from.
    """
    group = np.cumsum(np.concatenate([[0], src[1:] != src[:-1]])) << 32
    rng.shuffle(dst)
    for attempt in range(_SWAPS + 1):
        key = group | dst
        key.sort()
        np.bitwise_and(key, 2**32 - 1, out=dst, casting="unsafe")
        repeats = np.flatnonzero(key[1:] == key[:-1])
        if 100 * len(repeats) <= len(dst) or attempt == _SWAPS:
            return
        places = np.union1d(repeats, rng.integers(len(dst), size=2 * len(repeats)))
        dst[places] = rng.permutation(dst[places])


def _draw_nodes(
    spec: GraphSpec,
    counts: np.ndarray,
    ends: np.ndarray,
    distinct: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """The distinct nodes of each relation on one side, popular ones first, int32 [pairs]."""
    offsets = np.cumsum(counts) - counts
    shuffled = [rng.permutation(count).astype(np.int32) for count in counts.tolist()]
    parts = []
    for end, size in zip(ends.tolist(), distinct.tolist(), strict=True):
        count = int(counts[end])
        # A relation draws from a neighbourhood of its type: people, films, places.
        domain = min(count, math.ceil(size * (count / size) ** rng.random()))
        start = int((count - domain) * rng.random() ** 2)
        ranks = _popular_ranks(spec.popularity, size, domain, rng)
        parts.append(shuffled[end][start + ranks] + np.int32(offsets[end]))
    return np.concatenate(parts)


def _popular_ranks(
    popularity: float, size: int, count: int, rng: np.random.Generator
) -> np.ndarray:
    """`size` distinct numbers below `count`, ascending, the low ones likelier."""
    steps = np.arange(size)
    ranks = (count * ((steps + rng.random(size)) / size) ** popularity).astype(np.int64)
    # Ascending and distinct: each at least one more than the one before, with room for the rest.
    ranks = np.maximum.accumulate(ranks - steps) + steps
    distinct: np.ndarray = np.minimum(ranks, count - size + steps)
    return distinct


def _degrees(
    exponent: float, distinct: int, edges: int, most: int, rng: np.random.Generator
) -> np.ndarray:
    """Edges of each of a relation's nodes on one side: at least 1, falling as a power of the rank.

    Args:
        exponent: Of the power; not 1.
        distinct: How many nodes.
        edges: The sum.
        most: No node gets more than this, unless all have to.
        rng: Where chance comes from.
    """
    drawn = rng.random(edges - distinct)
    # Inverse of the distribution function of density (x + 1) ** -exponent on [0, distinct).
    power = 1.0 - exponent
    drawn *= (distinct + 1.0) ** power - 1.0
    drawn += 1.0
    np.power(drawn, 1.0 / power, out=drawn)
    drawn -= 1.0
    extra = np.minimum(drawn.astype(np.int32), distinct - 1)
    degrees: np.ndarray = 1 + np.bincount(extra, minlength=distinct)
    most = max(most, -(-edges // distinct))
    while (surplus := int(np.maximum(degrees - most, 0).sum())) > 0:
        np.minimum(degrees, most, out=degrees)
        open_to = np.flatnonzero(degrees < most)
        degrees += np.bincount(rng.choice(open_to, surplus), minlength=distinct)
    return degrees


def _reach_every_node(
    counts: np.ndarray, relations: _Relations, pairs: list[np.ndarray], rng: np.random.Generator
) -> None:
    """Put nodes that no relation has in place of such that several have, in place.

    The real graphs have no isolated nodes. The count of distinct nodes of each relation stays.
    """
    everything = np.concatenate(pairs)
    types = np.concatenate(
        [np.repeat(end, n) for end, n in zip(relations.ends, relations.distinct, strict=True)]
    )
    first = np.full(int(counts.sum()), -1, dtype=np.int64)
    first[everything[::-1]] = np.arange(len(everything))[::-1]
    spare = np.ones(len(everything), dtype=bool)
    spare[first[first >= 0]] = False
    missing = np.flatnonzero(first < 0)
    missing_types = np.repeat(np.arange(len(counts)), counts)[missing]
    for ntype in np.unique(missing_types).tolist():
        places = np.flatnonzero(spare & (types == ntype))
        lonely = missing[missing_types == ntype]
        n = min(len(places), len(lonely))
        everything[rng.choice(places, n, replace=False)] = rng.permutation(lonely)[:n]
    pairs[0][:] = everything[: len(pairs[0])]
    pairs[1][:] = everything[len(pairs[0]) :]
