"""What the protocol's JSON holds. Fields and parameters that are not known are ignored."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema

from hetune.service.core.formats.container import MOST_OTHERS, MOST_TENSORS
from hetune.service.core.formats.documents import Document
from hetune.service.core.formats.number_fields import MOST_SHORT, Numbers, ShortIntegers

Size = Annotated[int, Field(ge=0, lt=2**63)]
Parameters = dict[str, Any]


MOST_DIMENSIONS = 8
MOST_INPUTS, MOST_OUTPUTS = MOST_TENSORS, MOST_SHORT
MOST_PARAMETERS = 256
"""Of a request, or of one of its tensors."""
_FIELDS_EACH = 8
_Parameters = Annotated[
    Parameters | None, Field(json_schema_extra={"maxProperties": MOST_PARAMETERS})
]
_SHAPE: dict[str, Any] = {
    "type": "array",
    "maxItems": MOST_DIMENSIONS,
    "items": {"type": "integer", "minimum": 0, "exclusiveMaximum": 2**63},
}


def _checked_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) > MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise ValueError("Input should be at most 8 sizes, 0 or more")
    return shape


class _Given(Document):
    model_config = ConfigDict(extra="ignore")


class RequestInput(_Given):
    """A tensor: its numbers are in `data`, or follow the JSON if there is a `binary_data_size`."""

    name: str
    shape: Annotated[ShortIntegers, AfterValidator(_checked_shape), WithJsonSchema(_SHAPE)]
    datatype: str
    parameters: _Parameters = None
    data: Numbers | None = None


class RequestOutput(_Given):
    """A tensor that is asked for; behind the JSON if the parameter `binary_data` is true."""

    name: str
    parameters: _Parameters = None


class InferenceRequest(_Given):
    """A run. Parameters: `graph_id`, `features`, `subset`, `timeout` (microseconds),
    `binary_data_output`.
    """

    has_arrays: ClassVar[bool] = True
    most_objects: ClassVar[int] = 2 * (MOST_INPUTS + MOST_OUTPUTS) + MOST_OTHERS
    most_fields: ClassVar[int | None] = _FIELDS_EACH * (MOST_INPUTS + MOST_OUTPUTS)
    id: str | None = None
    parameters: _Parameters = None
    inputs: Annotated[list[RequestInput], Field(json_schema_extra={"maxItems": MOST_INPUTS})]
    outputs: Annotated[
        list[RequestOutput] | None, Field(json_schema_extra={"maxItems": MOST_OUTPUTS})
    ] = None


class ResponseOutput(Document):
    """A tensor: its numbers are in `data`, row by row, or follow the JSON."""

    name: str
    datatype: str
    shape: list[Size]
    parameters: Parameters | None = None
    data: list[float] | None = None


class InferenceResponse(Document):
    """What a run gave. Parameters: `variants`, layer by layer; `subset`, for rows of some nodes."""

    model_name: str
    model_version: str
    parameters: dict[str, str]
    outputs: list[ResponseOutput]
    id: str | None = None


class LoadRequest(_Given):
    """What `load` and `unload` may be given."""

    parameters: Parameters | None = None


class IndexRequest(_Given):
    """What the index may be asked: all models, or those that are ready, which all are."""

    ready: bool | None = None


class ProtocolError(Document):
    """What went wrong."""

    error: str


class ServerLive(Document):
    """Whether the process answers."""

    live: bool


class ServerReady(Document):
    """Whether requests can be served."""

    ready: bool


class ServerMetadata(Document):
    """The server, and the extensions of the protocol that it has."""

    name: str
    version: str
    extensions: tuple[str, ...]


class ModelReady(Document):
    """Whether a model can be run."""

    name: str
    ready: bool


class TensorMetadata(Document):
    """A tensor of a model; sizes that vary are -1."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class ModelMetadata(Document):
    """A model's tensors."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


class ConfigTensor(Document):
    """A tensor of a model, as configurations name its parts."""

    name: str
    data_type: str
    dims: tuple[int, ...]
    optional: bool = False


class ModelConfig(Document):
    """A model's configuration. It takes one graph at a time: there is no batch dimension."""

    name: str
    platform: str
    backend: str
    max_batch_size: int
    input: tuple[ConfigTensor, ...]
    output: tuple[ConfigTensor, ...]


class IndexEntry(Document):
    """A version of a model in the repository."""

    name: str
    version: str
    state: str
    reason: str


class Duration(Document):
    """How often, and how long in total."""

    count: int
    ns: int


class InferenceDurations(Document):
    """Requests that went well and that failed, and the parts of those that went well."""

    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    cache_hit: Duration
    cache_miss: Duration


class BatchDurations(Document):
    """Runs of a batch size; there is but one, 1."""

    batch_size: int
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


class ModelStatistics(Document):
    """A version's requests since the service was started; `last_inference` in Unix milliseconds."""

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: InferenceDurations
    batch_stats: tuple[BatchDurations, ...]


class StatisticsList(Document):
    """Statistics of versions of models."""

    model_stats: tuple[ModelStatistics, ...]
