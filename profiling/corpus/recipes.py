"""Recipes and the graphs they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hetune.profiling.corpus.options import Maker, Scalar, read
from hetune.profiling.corpus.shapes import Clique, Community, Road
from hetune.profiling.corpus.sources import FileGraph, Part, Published, Whole
from hetune.profiling.corpus.typed import Typed
from hetune.profiling.units import GraphRecipe
from hetune.variants.errors import CampaignError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.reverse import reversed_graph
from hetune.variants.graph.subsample import subsample

KINDS: dict[str, type[Maker]] = {
    "typed": Typed,
    "road": Road,
    "clique": Clique,
    "community": Community,
    "file": FileGraph,
    "published": Published,
}
"""The makers by name. The kind "subsample" draws a part of what one of them makes, and the kind
"reversed" reverses its edges."""

_REVERSED = "reversed"
_OF_OTHERS: dict[str, type[Part | Whole]] = {"subsample": Part, _REVERSED: Whole}
_PREFIX = "of."


@dataclass(frozen=True, slots=True)
class _Subsample:
    part: Part
    whole: Maker

    def size(self) -> tuple[int, int]:
        nodes, edges = self.whole.size()
        # Both ends of an edge have to stay.
        kept = edges * self.part.nodes**2 * self.part.edges
        return round(nodes * self.part.nodes), round(kept)

    def make(self) -> HeteroGraph:
        part = self.part
        return subsample(self.whole.make(), nodes=part.nodes, edges=part.edges, seed=part.seed)


@dataclass(frozen=True, slots=True)
class _Reversed:
    whole: Maker

    def size(self) -> tuple[int, int]:
        return self.whole.size()

    def make(self) -> HeteroGraph:
        return reversed_graph(self.whole.make())


def recipe(
    name: str, kind: str, family: str | None = None, options: Mapping[str, Scalar] | None = None
) -> GraphRecipe:
    """A checked recipe.

    Args:
        name: Short and unique in a campaign.
        kind: One of `KINDS`, or "subsample" or "reversed": its option "of" is the kind of the
            whole graph, whose own options are called "of.nodes" and so on.
        family: By default the kind; for a file its name and for a published shape the shape's,
            for these resemble nothing else; for a subsample that of the whole.
        options: The maker's arguments.

    Raises:
        CampaignError: There is no such kind, or an option does not fit.
    """
    options = dict(options or {})
    _maker(kind, options, name)
    return GraphRecipe(name, family or _family(kind, options), kind, tuple(sorted(options.items())))


def build(recipe: GraphRecipe) -> HeteroGraph:
    """The graph that a recipe makes, equal to the last bit in every process.

    Raises:
        CampaignError: There is no such kind, or an option does not fit.
        SourceError: A file is not there, or has changed.
        GraphError: A file cannot be read as a graph.
    """
    maker = _maker(recipe.kind, dict(recipe.options), recipe.name)
    try:
        return maker.make()
    except CampaignError as error:
        raise type(error)(f"graph {recipe.name!r}: {error}") from error


def size_of(recipe: GraphRecipe) -> tuple[int, int]:
    """About how many nodes and edges a recipe's graph has; only files are read for it.

    Raises:
        CampaignError: As for `build`.
        GraphError: A file cannot be read as a graph.
    """
    return _maker(recipe.kind, dict(recipe.options), recipe.name).size()


def whole(recipe: GraphRecipe) -> GraphRecipe:
    """The recipe of the graph that another one is made of; one that is made of none itself."""
    kind, prefix = innermost(recipe.kind, dict(recipe.options))
    own = [(n.removeprefix(prefix), v) for n, v in recipe.options if n.startswith(prefix)]
    return replace(recipe, kind=kind, options=tuple(sorted(own)))


def canonical(recipe: GraphRecipe) -> GraphRecipe:
    """The recipe of the same graph as HGT needs it: each edge type joins one pair of node types.

    Only files may hold others.
    """
    options = dict(recipe.options)
    kind, prefix = innermost(recipe.kind, options)
    if kind != "file":
        return recipe
    options[f"{prefix}canonical"] = True
    return replace(recipe, options=tuple(sorted(options.items())))


def with_edges_reversed(recipe: GraphRecipe) -> GraphRecipe:
    """The recipe of the same graph with its edges reversed."""
    options = {f"{_PREFIX}{name}": option for name, option in recipe.options}
    options["of"] = recipe.kind
    return replace(recipe, kind=_REVERSED, options=tuple(sorted(options.items())))


def innermost(kind: str, options: Mapping[str, object]) -> tuple[str, str]:
    """The kind of graph that one made of another starts from; its options' prefix.

    Another kind is itself, and its options have no prefix.
    """
    prefix = ""
    while kind in _OF_OTHERS:
        kind = str(options.get(f"{prefix}of"))
        prefix += _PREFIX
    return kind, prefix


def _maker(kind: str, options: Mapping[str, Scalar], name: str) -> Maker:
    where = f"graph {name!r} of kind {kind!r}"
    if kind in _OF_OTHERS:
        inner = {key: value for key, value in options.items() if key.startswith(_PREFIX)}
        own = {key: value for key, value in options.items() if key not in inner}
        part = read(_OF_OTHERS[kind], own, where)
        rest = {key.removeprefix(_PREFIX): value for key, value in inner.items()}
        other = _maker(part.of, rest, f"{name}.of")
        return _Subsample(part, other) if isinstance(part, Part) else _Reversed(other)
    if kind not in KINDS:
        known = ", ".join(sorted([*KINDS, *_OF_OTHERS]))
        raise CampaignError(f"graph {name!r}: no kind {kind!r}; take one of {known}")
    return read(KINDS[kind], options, where)


def _family(kind: str, options: Mapping[str, Scalar]) -> str:
    kind, prefix = innermost(kind, options)
    if kind == "file":
        path = str(options[f"{prefix}path"]).rstrip("/")
        return path.rpartition("/")[2].partition(".")[0] or path
    return str(options[f"{prefix}graph"]) if kind == "published" else kind
