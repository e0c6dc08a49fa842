"""Examples in the OpenAPI description: requests that a service with a model ``m`` answers.

``m`` takes in rows of 4 numbers, on graphs with 2 edge types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetune.variants.frontend.presets import LAYERS

_GRAPH: dict[str, Any] = {
    "src": [0, 1, 2, 2],
    "dst": [1, 2, 0, 3],
    "etype": [0, 1, 0, 1],
    "num_nodes": 4,
    "num_etypes": 2,
}
_ROWS: list[list[float]] = [[1, 0, 0, 0.5], [0, 1, 0, -0.5], [0, 0, 1, 0.25], [0, 0, 0, 1]]

_MEAN, _ATTENTIVE, *_ = LAYERS
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "GraphDocument": _GRAPH,
    "EditDocument": {"add": {"0": [[3], [0]]}, "remove": {"1": [[1], [2]]}},
    "FeaturesDocument": {"x": _ROWS},
    "ModelDescription": {
        "in_channels": 4,
        "num_relations": 2,
        "layers": [
            {"layer": _MEAN, "out_channels": 8, "normalization": "layer", "activation": "relu"},
            {"layer": _ATTENTIVE, "out_channels": 2, "heads": 2},
        ],
    },
    "InferDocument": {"graph": _GRAPH, "x": _ROWS, "nodes": [3], "explain": True},
    "SelectDocument": {"graph": _GRAPH, "explain": True},
    "JobRequest": {"campaign": "smoke", "retrain": True},
    "InferenceRequest": {
        "inputs": [
            {
                "name": "x",
                "shape": [4, 4],
                "datatype": "FP32",
                "data": [number for row in _ROWS for number in row],
            },
            {
                "name": "edge_index",
                "shape": [2, 4],
                "datatype": "INT64",
                "data": [*_GRAPH["src"], *_GRAPH["dst"]],
            },
            {
                "name": "edge_type",
                "shape": [4],
                "datatype": "INT64",
                "data": _GRAPH["etype"],
            },
        ]
    },
}
"""By the name of the schema."""
