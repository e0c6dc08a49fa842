"""What is read of a request to run, and when."""

import json
from types import SimpleNamespace

import pytest
import torch

from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.formats.message import pack
from hetune.service.http.body import Media
from hetune.service.http.routes.requests import read_deadline, read_infer
from hetune.variants.errors import MalformedError

GRAPH = {"src": [0], "dst": [1], "etype": [0]}
BODY = {"graph": GRAPH, "x": [[1.0], [2.0]], "nodes": [1], "deadline_seconds": 3}


def test_deadlines_are_read_before_all_else():
    assert read_deadline(Media.JSON, json.dumps(BODY).encode()) == 3
    assert read_deadline(Media.JSON, b'{"features": 3}') is None
    header = '{"graph": {}, "deadline_seconds": 0.5}'
    assert read_deadline(Media.SAFETENSORS, pack(header, {"x": torch.ones(1, 1)})) == 0.5
    with pytest.raises(MalformedError, match="deadline_seconds: "):
        read_deadline(Media.JSON, b'{"deadline_seconds": "soon"}')
    with pytest.raises(MalformedError, match="Invalid JSON"):
        read_deadline(Media.JSON, b'{"deadline_seconds": 3, "features": [}')


def test_what_is_a_tensor_is_held_once():
    request = read_infer(Media.JSON, json.dumps(BODY).encode(), ServiceLimits())
    assert request.rows(SimpleNamespace(in_channels=1)).tolist() == [[1], [2]]
    assert request.nodes.tolist() == [1]
    assert request.graph.num_nodes == 2
    header = request.header
    assert (header.graph, header.x, header.features, header.nodes) == ("", None, None, None)
    assert header.deadline_seconds == 3
