"""Score functions of knowledge-graph embeddings, compiled, and ranks by them."""

from hetune.costmodel.selection.kge import ScoreFunction, score, scores
from hetune.variants.runtime.ranking import Ranking, TopEntities, rank, top_k
from hetune.variants.runtime.score_model import ScoreModel

__all__ = [
    "Ranking",
    "ScoreFunction",
    "ScoreModel",
    "TopEntities",
    "rank",
    "score",
    "scores",
    "top_k",
]
