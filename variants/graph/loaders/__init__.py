"""Graphs from files, by their ending."""

from hetune.variants.graph.loaders.dispatch import formats, load
from hetune.variants.graph.loaders.options import ColumnsWarning, SkippedLinesWarning

__all__ = ["ColumnsWarning", "SkippedLinesWarning", "formats", "load"]
