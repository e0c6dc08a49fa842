"""Graphs to measure on: recipes, the makers that they name, and a corpus of many of them."""

from hetune.profiling.corpus.recipes import (
    KINDS,
    build,
    canonical,
    recipe,
    size_of,
    whole,
    with_edges_reversed,
)
from hetune.profiling.corpus.spanning import FAMILIES, Spanning

__all__ = [
    "FAMILIES",
    "KINDS",
    "Spanning",
    "build",
    "canonical",
    "recipe",
    "size_of",
    "whole",
    "with_edges_reversed",
]
