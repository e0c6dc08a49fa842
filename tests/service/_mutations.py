"""Bodies for every route that takes one, and ways to damage them."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import torch

from hetune.service.core.formats import arrow_stream
from hetune.service.core.formats.message import MEDIA_TYPE, pack

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
GRAPH = {"src": [0, 1], "dst": [1, 2], "etype": [0, 1], "num_nodes": 3}
ROWS = [[0.0, 1.0, 2.0, 3.0]] * 3
_TENSORS = {f"graph/{name}": torch.tensor(GRAPH[name]) for name in ("src", "dst", "etype")}
_X, _IDS = torch.ones(3, 4), torch.tensor([0, 1])
_LAYER = {"layer": "rgcn", "out_channels": 2, "self_loop": False, "bias": False}
_MODEL = {"in_channels": 4, "num_relations": 2, "layers": [_LAYER]}
_INPUTS = [
    {"name": "x", "shape": [3, 4], "datatype": "FP32", "data": [0.5] * 12},
    {"name": "edge_index", "shape": [2, 2], "datatype": "INT64", "data": [[0, 1], [1, 2]]},
    {"name": "edge_type", "shape": [2], "datatype": "INT64", "data": [0, 1]},
]
_OUTPUTS = [{"name": "out", "parameters": {"binary_data": True}}]
_CAMPAIGN = {
    "name": "mine",
    "layers": ["rgcn"],
    "widths": [[4, 4]],
    "graphs": [{"name": "g", "kind": "typed", "nodes": 20, "edges": 40}],
}


@dataclass(frozen=True)
class Body:
    """What a route is sent."""

    method: str
    path: str
    kind: str
    content: bytes


def bodies(graph: str) -> list[Body]:
    """Some for each route that takes a body.

    Args:
        graph: The id of one that is kept.
    """
    at = f"/v1/graphs/{graph}"
    documents: list[tuple[str, str, Any]] = [
        ("POST", "/v1/graphs", GRAPH | {"etype_names": ["a", "b"], "ntype": [0, 0, 0]}),
        ("PATCH", at, {"add": {"writes": [[0], [1]]}, "add_nodes": {"paper": 1}}),
        ("PUT", f"{at}/features/f", {"x": {"author": ROWS, "paper": ROWS + ROWS[:1]}}),
        ("PUT", "/v1/models/m/aliases/a", {"version": 1}),
        ("POST", "/v1/models/m/infer", {"graph": GRAPH, "x": ROWS, "nodes": [1], "outputs": [0]}),
        ("POST", "/v1/models/m/infer", {"graph": graph, "features": "base", "explain": True}),
        ("POST", "/v1/models/m/select", {"graph": GRAPH, "memory_limit": 10**9}),
        ("POST", "/v1/models/kge/score", {"heads": [0, 1], "rels": [1, 0], "tails": [2, 2]}),
        ("POST", "/v1/models/kge/top-k", {"nodes": [0, 1], "rels": [1, 0], "k": 2, "known": GRAPH}),
        ("POST", "/v2/models/m/infer", {"inputs": _INPUTS, "parameters": {"timeout": 10**7}}),
        ("POST", "/v2/models/m/versions/1/infer", {"inputs": _INPUTS, "outputs": _OUTPUTS}),
        ("POST", "/v2/repository/index", {"ready": True}),
        ("POST", "/v2/repository/models/m/load", {"parameters": {}}),
        ("POST", "/v2/repository/models/m/unload", {}),
        ("POST", "/v1/runs", {"model": "m", "graph": graph, "features": "base"}),
        ("POST", "/v1/profiling/jobs", {"campaign": _CAMPAIGN, "retrain": False}),
        ("POST", "/v1/cost-models/none/promote", {}),
        ("POST", "/v1/cost-models/rollback", {}),
    ]  # fmt: skip
    containers = [
        ("POST", "/v1/graphs", {}, {n.removeprefix("graph/"): t for n, t in _TENSORS.items()}),
        ("PATCH", at, {}, {"add/reads": torch.tensor([[0], [1]])}),
        ("PUT", f"{at}/features/f", {}, {"x": torch.ones(7, 4)}),
        ("PUT", "/v1/models/n/versions/1", _MODEL, {"0.weight": torch.ones(2, 4, 2)}),
        ("POST", "/v1/models/m/infer", {"graph": {"num_nodes": 3}}, {"x": _X, **_TENSORS}),
        ("POST", "/v1/models/m/select", {"graph": {"num_etypes": 2}}, _TENSORS),
        ("POST", "/v1/models/kge/score", {}, dict.fromkeys(("heads", "rels", "tails"), _IDS)),
        ("POST", "/v1/models/kge/top-k", {"side": "head"}, {"nodes": _IDS, "rels": _IDS}),
    ]
    forms = [
        (
            "/ui/playground",
            b"source=typed&edges=a+b+c%0Ab+c+a&model=rgcn&width=16&layers=1&heads=1",
        ),
        ("/ui/models/m/measure", b"version=1&graph=" + graph.encode()),
        ("/ui/models/m/load", b"version=1"),
        ("/ui/models/m/unload", b""),
        ("/ui/jobs", b"preset=none&machine=a"),
        ("/ui/cost-models/none/promote", b"machine=a"),
        ("/ui/cost-models/rollback", b""),
        ("/ui/login", b"key=a"),
        ("/ui/logout", b""),
        ("/ui/theme", b"theme=dark"),
    ]
    stream = pa.BufferOutputStream()
    table = pa.table({"src": [0, 1], "dst": [1, 2], "etype": [0, 1]})
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    arrow = stream.getvalue().to_pybytes()
    return [
        *(Body(m, path, JSON, json.dumps(document).encode()) for m, path, document in documents),
        *(Body(m, p, MEDIA_TYPE, pack(json.dumps(d), tensors)) for m, p, d, tensors in containers),
        *(Body("POST", path, FORM, content) for path, content in forms),
        Body("POST", "/v1/graphs", arrow_stream.MEDIA_TYPE, arrow),
    ]


_HOSTILE: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e39, 1e300),
    *(float("nan"), float("inf"), "", "a", "\ud800", "\x00", "../..", "a" * 300, "9" * 50),
    *([], {}, [[]], [{}], [None], [[[]]], {"": 0}, {"a": {"a": {}}}),
]  # fmt: skip
_LONG = 3_000


def mutated(body: Body, chance: random.Random) -> Body:
    """A body with something changed."""
    content = body.content
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        way = chance.choice(_OF_VALUES if body.kind == JSON else _OF_BYTES)
        content = way(content, chance)
    kind = body.kind if chance.random() < 0.97 else chance.choice((JSON, MEDIA_TYPE, FORM, ""))
    return Body(body.method, body.path, kind, content)


def _flip(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] = chance.choice((0, 34, 44, 91, 123, 125, 255))
    return bytes(changed)


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randint(0, len(content))]


def _drop(content: bytes, chance: random.Random) -> bytes:
    first = chance.randint(0, len(content))
    return content[:first] + content[first + chance.randint(1, 20) :]


def _repeat(content: bytes, chance: random.Random) -> bytes:
    first = chance.randint(0, len(content))
    piece = content[first : first + chance.randint(1, 30)]
    return content[:first] + piece * chance.choice((2, 50, 500)) + content[first:]


def _number(content: bytes, chance: random.Random) -> bytes:
    """Another length of a header, or size in it."""
    if len(content) < 8:
        return content
    size = chance.choice((0, 1, len(content), 2**24, 2**32, 2**63))
    first = 0 if chance.random() < 0.5 else chance.randrange(len(content) - 7)
    return content[:first] + size.to_bytes(8, "little") + content[first + 8 :]


def _value(content: bytes, chance: random.Random) -> bytes:
    """JSON with another value somewhere."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return _flip(content, chance)
    places = list(_places(value))
    if not places:
        return json.dumps(chance.choice(_HOSTILE)).encode()
    holder, key = chance.choice(places)
    match chance.randrange(4):
        case 0:
            holder[key] = chance.choice(_HOSTILE)
        case 1:
            holder[key] = [holder[key]] * chance.choice((1, 2, _LONG))
        case 2 if isinstance(holder, list):
            holder.extend([chance.choice(_HOSTILE)] * chance.choice((1, _LONG)))
        case 2:
            holder |= {f"{key}{n}": holder[key] for n in range(chance.choice((1, _LONG)))}
        case 3:
            del holder[key]
    return json.dumps(value).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


_OF_BYTES: list[Callable[[bytes, random.Random], bytes]] = [_flip, _cut, _drop, _repeat, _number]
_OF_VALUES: list[Callable[[bytes, random.Random], bytes]] = [*[_value] * 6, _flip, _cut, _repeat]
