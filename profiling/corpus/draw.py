"""What chance decides, for all relations of a graph at once."""

from __future__ import annotations

import zlib

import numpy as np

LAWS = ("uniform", "power", "regular")
"""How edges are shared out among the nodes of one side of a relation."""


def generator(kind: str, seed: int) -> np.random.Generator:
    """The stream of random numbers of a kind of graph: equal in every process."""
    return np.random.Generator(np.random.PCG64([seed, zlib.crc32(kind.encode())]))


def zipf_sizes(total: int, parts: int, exponent: float) -> np.ndarray:
    """Sizes that fall as a power of the rank and sum to `total`, int64 [parts].

    Each is at least 1, as long as `total` allows it; exponent 0 makes them equal.
    """
    least = min(1, total // parts)
    weights = np.arange(1.0, parts + 1) ** -exponent
    sizes = least + np.floor((total - least * parts) * weights / weights.sum()).astype(np.int64)
    left = total - int(sizes.sum())
    sizes[: left % parts] += 1
    grown: np.ndarray = sizes + left // parts
    return grown


def within(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For parts laid end to end: each element's part, and its place in it, int64 [sum] both."""
    part = np.repeat(np.arange(len(sizes)), sizes)
    starts = np.cumsum(sizes) - sizes
    return part, np.arange(len(part)) - starts[part]


def distinct_counts(
    edges: np.ndarray, most: np.ndarray, ratio: float, spread: float, rng: np.random.Generator
) -> np.ndarray:
    """How many distinct nodes each relation has on one side, int64 [R], at least 1 where it can.

    Args:
        edges: Edges of each relation, int64 [R].
        most: Nodes that there are for it, int64 [R].
        ratio: The sum of the counts, as a share of all edges, as nearly as the limits allow.
        spread: Standard deviation of the logarithm of a relation's own share.
        rng: Where chance comes from.
    """
    wanted = edges * np.exp(spread * rng.standard_normal(len(edges)))
    high = np.minimum(edges, most)
    low = np.minimum(1, high)
    goal = ratio * edges.sum()
    least, largest = -40.0, 40.0
    for _ in range(80):
        middle = (least + largest) / 2
        reached = np.clip(wanted * np.exp(middle), low, high).sum()
        least, largest = (middle, largest) if reached < goal else (least, middle)
    counts: np.ndarray = np.clip(np.rint(wanted * np.exp(largest)), low, high).astype(np.int64)
    return counts


def distinct_ranks(
    counts: np.ndarray, most: np.ndarray, popularity: float, rng: np.random.Generator
) -> np.ndarray:
    """For each relation distinct ranks of nodes, ascending, laid end to end, int64 [sum].

    Args:
        counts: How many each relation has, at most `most`.
        most: The ranks of relation r are below `most[r]`.
        popularity: 1 spreads them evenly; more makes low ranks likelier.
        rng: Where chance comes from.
    """
    part, step = within(counts)
    room, size = most[part], counts[part]
    drawn = (step + rng.random(len(step))) / size
    ranks = (room * drawn**popularity).astype(np.int64)
    # Ascending and distinct: each at least one more than the one before, with room for the rest.
    # A relation starts above all those before it, so that one scan serves all.
    apart = part * (int(most.max(initial=0)) + 1)
    ranks = np.maximum.accumulate(ranks - step + apart) - apart + step
    limited: np.ndarray = np.minimum(ranks, room - size + step)
    return limited


def slots(
    edges: np.ndarray,
    counts: np.ndarray,
    law: str,
    exponent: float,
    hub: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """For each edge, which of its relation's distinct nodes it has, int64 [E]; each has one edge.

    Args:
        edges: Edges of each relation, int64 [R], laid end to end.
        counts: Distinct nodes of each relation, int64 [R], at most as many as edges.
        law: One of `LAWS`: by equal chances, by a power of the rank, or as evenly as possible.
        exponent: Of the power: the node of rank k has edges in proportion to (k + 1) ** -exponent.
        hub: Share of each relation's edges that the first node takes before all others.
        rng: Where chance comes from.
    """
    part, step = within(edges)
    distinct = counts[part]
    if law == "regular":
        slot: np.ndarray = step % distinct
    else:
        drawn = power_ranks(rng.random(len(step)), distinct, exponent if law == "power" else 0.0)
        slot = np.where(step < distinct, step, drawn)
    if hub > 0:
        slot[(rng.random(len(step)) < hub) & (step >= distinct)] = 0
    return slot


def power_ranks(u: np.ndarray, counts: np.ndarray, exponent: float) -> np.ndarray:
    """Ranks below `counts`, int64, rank k in proportion to (k + 1) ** -exponent.

    Args:
        u: Uniform numbers from 0 to 1, float64.
        counts: How many ranks each may be drawn from, at least 1; same shape.
        exponent: 0 for equal chances.
    """
    # The inverse of the distribution function of density (x + 1) ** -exponent on [0, count).
    if exponent == 1.0:
        drawn = (counts + 1.0) ** u
    else:
        power = 1.0 - exponent
        drawn = (1.0 + u * ((counts + 1.0) ** power - 1.0)) ** (1.0 / power)
    ranks: np.ndarray = np.minimum((drawn - 1.0).astype(np.int64), counts - 1)
    return ranks


def reach_all(
    active: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray],
    distinct: list[np.ndarray],
    ranks: list[np.ndarray],
    rng: np.random.Generator,
) -> None:
    """Puts nodes that no relation has in place of such that several have.

    How many distinct nodes a relation has stays. Where there are too few places, nodes are left.

    Args:
        active: Nodes of each type that are to have edges, int64 [T].
        ends: Node type of each relation's sources and of its destinations, int64 [R] both.
        distinct: How many distinct nodes each relation has on either side, int64 [R] both.
        ranks: Their ranks in their type, laid end to end; changed.
        rng: Where chance comes from.
    """
    types = np.concatenate([np.repeat(end, n) for end, n in zip(ends, distinct, strict=True)])
    offsets = np.cumsum(active) - active
    everything = np.concatenate(ranks)
    node = offsets[types] + everything
    holder = np.full(int(active.sum()), -1)
    holder[node[::-1]] = np.arange(len(node))[::-1]
    spare = np.ones(len(node), dtype=bool)
    spare[holder[holder >= 0]] = False
    missing = np.flatnonzero(holder < 0)
    missing_type = np.repeat(np.arange(len(active)), active)[missing]
    for ntype in np.unique(missing_type).tolist():
        places = rng.permutation(np.flatnonzero(spare & (types == ntype)))
        lonely = missing[missing_type == ntype] - offsets[ntype]
        filled = min(len(places), len(lonely))
        everything[places[:filled]] = rng.permutation(lonely)[:filled]
    ranks[0] = everything[: len(ranks[0])]
    ranks[1] = everything[len(ranks[0]) :]
