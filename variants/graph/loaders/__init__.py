"""Graphs from files, by their ending."""

from hetune.variants.graph.loaders.dispatch import formats, load

__all__ = ["formats", "load"]
