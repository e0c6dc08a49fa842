"""Small things to try: drawn graphs, and models whose weights are drawn."""

from __future__ import annotations

import torch

from hetune import generate
from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.graphs.features import Features
from hetune.service.core.graphs.rows import rows_by_type
from hetune.service.core.models.models import Model, ModelStore
from hetune.service.core.models.stack import describe
from hetune.variants.frontend.presets import LAYERS as PRESETS
from hetune.variants.frontend.presets import preset_layer
from hetune.variants.graph.generate_specs import SPECS
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.nodes import Space

GRAPHS = tuple(sorted(SPECS))
"""Names of graphs that can be drawn."""
SIZES = {"1,000": 1_000, "10,000": 10_000, "100,000": 100_000}
"""About how many edges a drawn graph has, as a form names it."""
KINDS = tuple(PRESETS)
WIDTHS = ("16", "32", "64", "128")
HEADS = ("1", "2", "4", "8")
LAYERS = ("1", "2", "3", "4")
_SEED = 0
_MOST_WEIGHTS = 1 << 28


def draw_graph(name: str, size: str, limits: ServiceLimits) -> HeteroGraph:
    """A graph with the shape of a published one, and about so many edges; always the same.

    Raises:
        TooLargeError: It would be over a limit.
    """
    spec = SPECS[name]
    scale = SIZES[size] / spec.edges
    check_limit("edges", SIZES[size], limits.edges)
    check_limit("nodes", int(scale * sum(nodes for _, nodes in spec.ntypes)), limits.nodes)
    return generate(name, scale=scale, seed=_SEED)


def draw_model(
    models: ModelStore,
    graph: HeteroGraph,
    kind: str,
    width: int,
    layers: int,
    heads: int,
    limits: ServiceLimits,
) -> Model:
    """A model for a graph with drawn weights, ELU between its layers; always the same.

    Raises:
        TooLargeError: Its weights would be.
    """
    check_limit(
        "bytes of weights",
        4 * layers * (graph.num_etypes + 4) * width * width,
        min(_MOST_WEIGHTS, limits.run_bytes),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        modules: list[torch.nn.Module] = [preset_layer(kind, width, width, graph, heads)]
        for _ in range(layers - 1):
            modules += [torch.nn.ELU(), preset_layer(kind, width, width, graph, heads)]
    return models.make(f"drawn {kind}", 1, *describe(modules))


def draw_inputs(
    model: Model, graph: HeteroGraph, limits: ServiceLimits
) -> tuple[Features | None, dict[str, torch.Tensor]]:
    """Features for a model, None where it has rows of its own, and rows of its other inputs.

    Features are by node type where their widths differ.

    They are normally distributed, and always the same.

    Raises:
        TooLargeError: They would be.
    """
    drawn = dict[str, torch.Tensor]()
    for name, type_ in model.wiring.inputs.items():
        if name not in model.tables:
            rows = graph.num_nodes if type_.space is Space.NODE else graph.num_edges
            drawn[name] = _drawn(rows, type_.width, limits)
    x, widths = drawn.pop("x", None), model.description.widths_by_type
    if x is None or not widths:
        return x, drawn
    return rows_by_type(x, graph, widths), drawn


def _drawn(rows: int, width: int, limits: ServiceLimits) -> torch.Tensor:
    check_limit("bytes of features", 4 * rows * width, limits.run_bytes)
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(_SEED))
