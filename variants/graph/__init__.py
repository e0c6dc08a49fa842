"""Typed graphs: the graph itself, its conversions, loaders and generators."""

from hetune.variants.graph.hetero import HeteroGraph

__all__ = ["HeteroGraph"]
