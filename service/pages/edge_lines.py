"""A graph from lines of text, as somebody types them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.variants.errors import MalformedError
from hetune.variants.graph.hetero import HeteroGraph

_DEFAULT_NODE_TYPE = "node"
_DEFAULT_RELATION = "edge"
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class NamedGraph:
    """A graph, and what its nodes are called, in its order."""

    graph: HeteroGraph
    nodes: tuple[str, ...]


def graph_of_lines(text: str, limits: ServiceLimits) -> NamedGraph:
    """The graph of lines `source relation target`, or `source target` for a single relation.

    A node is a word, or a type and a word: `author:ann`. Types and relations are numbered as they
    come, empty lines and those that begin with # are left out.

    Raises:
        MalformedError: There is no edge, or a line is none.
        TooLargeError: The graph is over a limit.
    """
    edges = [_edge(number, line) for number, line in _lines(text)]
    if not edges:
        raise MalformedError("there are no edges: write a line 'source relation target' for each")
    check_limit("edges", len(edges), limits.edges)
    ends = dict.fromkeys(node for source, _, target in edges for node in (source, target))
    types = {name: t for t, name in enumerate(dict.fromkeys(type for type, _ in ends))}
    relations = {name: r for r, name in enumerate(dict.fromkeys(r for _, r, _ in edges))}
    check_limit("nodes", len(ends), limits.nodes)
    check_limit("types", max(len(types), len(relations)), limits.types)
    ordered = sorted(ends, key=lambda node: types[node[0]])  # stable: as they come in each type
    ids = {node: i for i, node in enumerate(ordered)}
    graph = HeteroGraph(
        torch.tensor([ids[source] for source, _, _ in edges]),
        torch.tensor([ids[target] for _, _, target in edges]),
        torch.tensor([relations[relation] for _, relation, _ in edges]),
        torch.tensor([types[type] for type, _ in ordered]),
        ntype_names=list(types),
        etype_names=list(relations),
    )
    names = [name if len(types) == 1 else f"{type}:{name}" for type, name in ordered]
    return NamedGraph(graph.canonicalize(), tuple(names))


def _lines(text: str) -> list[tuple[int, str]]:
    found = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, line) for number, line in found if line and not line.startswith("#")]


def _edge(number: int, line: str) -> tuple[tuple[str, str], str, tuple[str, str]]:
    words = line.split()
    if len(words) not in (2, 3):
        raise MalformedError(
            f"line {number} has {len(words)} words, {line[:_SHOWN]!r}: write 'source relation "
            "target', or 'source target'"
        )
    relation = words[1] if len(words) == 3 else _DEFAULT_RELATION
    return _node(words[0]), relation, _node(words[-1])


def _node(word: str) -> tuple[str, str]:
    type, colon, name = word.partition(":")
    return (type, name) if colon and type and name else (_DEFAULT_NODE_TYPE, word)
