"""Graphs to measure on: recipes, the makers that they name, and a corpus of many of them."""

from hetune.profiling.corpus.recipes import KINDS, build, canonical, recipe, size_of
from hetune.profiling.corpus.spanning import FAMILIES, spanning

__all__ = ["FAMILIES", "KINDS", "build", "canonical", "recipe", "size_of", "spanning"]
