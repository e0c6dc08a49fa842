"""Score functions of knowledge-graph embeddings, compiled, and ranks by them."""

from hetune.costmodel.selection.kge import ScoreFunction, score, scores
from hetune.variants.runtime.ranking import Ranking, rank
from hetune.variants.runtime.score_model import ScoreModel

__all__ = ["Ranking", "ScoreFunction", "ScoreModel", "rank", "score", "scores"]
