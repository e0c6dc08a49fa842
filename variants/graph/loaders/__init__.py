"""Graphs from files, by their ending."""

from hetune.variants.graph.loaders.dispatch import formats, load
from hetune.variants.graph.loaders.options import SkippedLinesWarning

__all__ = ["SkippedLinesWarning", "formats", "load"]
