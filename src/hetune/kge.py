"""Score functions of knowledge-graph embeddings, compiled, and ranks by them."""

from hetune.costmodel.selection.kge import ScoreFunction, score, scores
from hetune.variants.runtime.ranking import Ranking, rank

__all__ = ["Ranking", "ScoreFunction", "rank", "score", "scores"]
