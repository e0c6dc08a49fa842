"""What generated graphs look like: published counts, and a few numbers fitted to real graphs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RelationSpec:
    """One relation whose numbers are known.

    Attributes:
        source: Name of the source node type.
        name: Name of the relation.
        target: Name of the destination node type.
        edges: Count of edges.
        sources: Distinct source nodes.
        targets: Distinct destination nodes.
    """

    source: str
    name: str
    target: str
    edges: int
    sources: int
    targets: int


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """Counts of a graph, and the shape of its relations and degrees.

    Relation k of the R drawn has a share of the edges in proportion to
    `(k + 1 + size_shift) ** -size_exponent` (Zipf and Mandelbrot).

    Attributes:
        ntypes: Names and node counts of the node types.
        edges: Edges, with inverses where `inverses` is set.
        etypes: Edge types, likewise.
        inverses: Whether half the relations are inverses of the others.
        size_exponent: How unequal relations are.
        size_shift: How much the largest are levelled.
        wide: Distinct nodes on a relation's wider side over its edges, mean weighted by edges.
        narrow: The same of the other side. With inverses, unique (src, etype) / E and
            unique (dst, etype) / E are both (wide + narrow) / 2.
        hub: Exponent of the degrees on one side of a relation.
        popularity: How much more often low-ranked nodes take part in relations; 1 is evenly.
        relations: The relations themselves, where they are known.
    """

    ntypes: tuple[tuple[str, int], ...]
    edges: int
    etypes: int
    inverses: bool = True
    size_exponent: float = 1.0
    size_shift: float = 0.0
    wide: float = 1.0
    narrow: float = 1.0
    hub: float = 1.4
    popularity: float = 2.0
    relations: tuple[RelationSpec, ...] = ()


def _ranked(prefix: str, nodes: int, types: int, exponent: float) -> tuple[tuple[str, int], ...]:
    """Node types whose sizes fall as a power of their rank, for graphs that publish the total."""
    weights = [(rank + 1) ** -exponent for rank in range(types)]
    sizes = [max(1, round(nodes * weight / sum(weights))) for weight in weights]
    sizes[0] += nodes - sum(sizes)
    return tuple((f"{prefix}{i}", size) for i, size in enumerate(sizes))


# Counts are the published ones; fb15k is the FB15k-237 of the literature on relational GNN systems.
# For aifb, mutag and fb15k the sizes of node types are the real ones, and the numbers are fitted to
# the real graphs: size_exponent and size_shift to the share of the largest relation and the Gini
# coefficient of relation sizes; wide and narrow are measured; hub and popularity were picked from a
# grid by the largest degree and the Gini coefficient of degrees. The others have no full real graph
# to fit to: bgs and am are RDF like aifb and mutag and take numbers between theirs (am: wide and
# narrow of its 12-predicate subset); wikikg2 is alike fb15k with more unequal relations; biokg's
# node types and mag's relations are the published ones, with estimated distinct nodes.
SPECS: dict[str, GraphSpec] = {
    "aifb": GraphSpec(
        ntypes=(
            ("research_topic", 146),
            ("research_group", 5),
            ("cooperation", 28),
            ("person", 237),
            ("project", 78),
            ("publication", 1318),
            ("literal", 5450),
        ),
        edges=48810,
        etypes=104,
        wide=0.680,
        narrow=0.315,
        size_exponent=7.1,
        size_shift=53.6,
        hub=1.6,
        popularity=3.0,
    ),
    "mutag": GraphSpec(
        ntypes=(
            ("schema", 3687),
            ("literal", 1104),
            ("bond", 9317),
            ("compound", 9529),
            ("structure", 3526),
        ),
        edges=148100,
        etypes=50,
        wide=0.874,
        narrow=0.155,
        size_exponent=10.0,
        size_shift=40.0,
        hub=1.8,
        popularity=1.0,
    ),
    "fb15k": GraphSpec(
        ntypes=(("entity", 14541),),
        edges=620232,
        etypes=474,
        wide=0.419,
        narrow=0.103,
        size_exponent=1.73,
        size_shift=14.3,
        hub=2.0,
        popularity=3.0,
    ),
    "bgs": GraphSpec(
        ntypes=_ranked("class", 94806, 27, 1.2),
        edges=672884,
        etypes=122,
        wide=0.78,
        narrow=0.23,
        size_exponent=4.8,
        size_shift=22.8,
        hub=1.7,
    ),
    "am": GraphSpec(
        ntypes=_ranked("class", 1885136, 7, 0.8),
        edges=5668682,
        etypes=108,
        wide=0.9,
        narrow=0.14,
        size_exponent=5.9,
        size_shift=20.8,
        hub=1.7,
    ),
    "biokg": GraphSpec(
        ntypes=(
            ("disease", 10687),
            ("drug", 10533),
            ("function", 45085),
            ("protein", 17499),
            ("sideeffect", 9969),
        ),
        edges=4762678,
        etypes=51,
        inverses=False,
        wide=0.1,
        narrow=0.06,
        size_exponent=1.65,
        size_shift=1.05,
        hub=1.4,
    ),
    "wikikg2": GraphSpec(
        ntypes=(("entity", 2500604),),
        edges=16109182,
        etypes=535,
        inverses=False,
        wide=0.5,
        narrow=0.1,
        size_exponent=1.92,
        size_shift=6.3,
        hub=2.0,
        popularity=3.0,
    ),
    "mag": GraphSpec(
        ntypes=(
            ("author", 1134649),
            ("field_of_study", 59965),
            ("institution", 8740),
            ("paper", 736389),
        ),
        edges=21111007,
        etypes=4,
        inverses=False,
        relations=(
            RelationSpec("author", "affiliated_with", "institution", 1043998, 740000, 8740),
            RelationSpec("author", "writes", "paper", 7145660, 1134649, 736389),
            RelationSpec("paper", "cites", "paper", 5416271, 600000, 620000),
            RelationSpec("paper", "has_topic", "field_of_study", 7505078, 736389, 59965),
        ),
    ),
}
