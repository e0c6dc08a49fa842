"""Score functions of knowledge-graph embeddings, compiled."""

from hetune.costmodel.selection.kge import ScoreFunction, score

__all__ = ["ScoreFunction", "score"]
