"""Score functions of knowledge-graph embeddings, compiled."""

from hetune.costmodel.selection.kge import ScoreFunction, score, scores

__all__ = ["ScoreFunction", "score", "scores"]
