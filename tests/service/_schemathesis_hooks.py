"""What schemathesis cannot know of bodies; its own process imports this."""

import pyarrow as pa
import schemathesis
import torch

from hetune.service.core.formats import arrow_stream
from hetune.service.core.formats.message import MEDIA_TYPE, pack

GRAPH = {"src": torch.tensor([0, 1]), "dst": torch.tensor([1, 2]), "etype": torch.tensor([0, 1])}
IDS = torch.tensor([0, 1])
RUN = {f"graph/{name}": tensor for name, tensor in GRAPH.items()} | {"x": torch.ones(3, 4)}
LAYER = '{"in_channels": 4, "num_relations": 2, "layers": [{"layer": "rgcn", "out_channels": 3}]}'
WEIGHTS = {"0.weight": torch.ones(2, 4, 3), "0.bias": torch.ones(3), "0.root": torch.ones(4, 3)}
CONTAINERS = {
    "/v1/graphs": pack("{}", GRAPH),
    "/v1/graphs/{id}": pack("{}", {"add/0": torch.tensor([[0], [1]])}),
    "/v1/graphs/{id}/features/{name}": pack("{}", {"x": torch.ones(3, 4)}),
    "/v1/models/{name}/infer": pack('{"graph": {}}', RUN),
    "/v1/models/{name}/select": pack('{"graph": {}}', RUN),
    "/v1/models/{name}/score": pack("{}", dict.fromkeys(("heads", "rels", "tails"), IDS)),
    "/v1/models/{name}/top-k": pack("{}", dict.fromkeys(("nodes", "rels"), IDS)),
    "/v1/models/{name}/versions/{version}": pack(LAYER, WEIGHTS),
}
"""OpenAPI calls a container a string of bytes, and has no words for which strings are some."""


def _streamed(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


_DEADLINE = "deadline_seconds"
"""The service may take longer than a part of a second, as that is described."""
STREAM = _streamed(pa.table({name: tensor.numpy() for name, tensor in GRAPH.items()}))


@schemathesis.serializer(MEDIA_TYPE, "application/octet-stream", arrow_stream.MEDIA_TYPE)
def bytes_of(context, value):
    """What is right by the description is made right by what it has no words for."""
    case = context.case
    if case.meta.generation.mode.is_positive:
        if case.media_type == MEDIA_TYPE:
            return CONTAINERS[case.operation.path]
        if case.media_type == arrow_stream.MEDIA_TYPE:
            return STREAM
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@schemathesis.hook
def before_call(context, case, kwargs):
    if isinstance(case.body, list | dict):
        case.body = _whole(case.body)
    if isinstance(case.body, dict) and type(seconds := case.body.get(_DEADLINE)) in (int, float):
        case.body[_DEADLINE] = max(seconds, 60) if seconds > 0 else seconds


def _whole(value):
    """JSON Schema takes 1.0 for an integer; the service does not."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return value
