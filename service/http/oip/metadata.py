"""What the protocol says of a model's tensors."""

from __future__ import annotations

from hetune.service.core.models.description import ModelDescription
from hetune.service.http.oip.documents import (
    ConfigTensor,
    ModelConfig,
    ModelMetadata,
    TensorMetadata,
)
from hetune.service.http.oip.names import OUT, name_of
from hetune.service.http.oip.tensors import FEATURES, IDS

PLATFORM = "hetune"
_ANY = -1


def metadata_of(
    name: str, versions: tuple[int, ...], description: ModelDescription
) -> ModelMetadata:
    """A model's tensors: by type if the model has metadata, otherwise flat."""
    return ModelMetadata(
        name=name,
        versions=tuple(str(version) for version in versions),
        platform=PLATFORM,
        inputs=_inputs(description),
        outputs=_outputs(description),
    )


def config_of(name: str, description: ModelDescription) -> ModelConfig:
    """A model's configuration. All inputs but features may be left out, if there is a graph_id."""
    return ModelConfig(
        name=name,
        platform=PLATFORM,
        backend=PLATFORM,
        max_batch_size=0,
        input=tuple(
            ConfigTensor(
                name=tensor.name,
                data_type=f"TYPE_{tensor.datatype}",
                dims=tensor.shape,
                optional=tensor.datatype != FEATURES,
            )
            for tensor in _inputs(description)
        ),
        output=tuple(
            ConfigTensor(name=tensor.name, data_type=f"TYPE_{tensor.datatype}", dims=tensor.shape)
            for tensor in _outputs(description)
        ),
    )


def _inputs(description: ModelDescription) -> tuple[TensorMetadata, ...]:
    width = description.in_channels
    if description.metadata is None:
        x = () if "x" in description.tables else (_tensor("x", FEATURES, _ANY, width),)
        return (
            *x,
            _tensor("edge_index", IDS, 2, _ANY),
            _tensor("edge_type", IDS, _ANY),
            _tensor("nodes", IDS, _ANY),
        )
    ntypes, etypes = description.metadata.ntypes, description.metadata.etypes
    widths = description.node_widths or (width,) * len(ntypes)
    return (
        *(
            _tensor(name_of("x", ntype), FEATURES, _ANY, own)
            for ntype, own in zip(ntypes, widths, strict=True)
        ),
        *(_tensor(name_of("edge_index", *etype), IDS, 2, _ANY) for etype in etypes),
        *(_tensor(name_of("nodes", ntype), IDS, _ANY) for ntype in ntypes),
    )


def _outputs(description: ModelDescription) -> tuple[TensorMetadata, ...]:
    width = description.out_channels
    if description.metadata is None:
        return (_tensor(OUT, FEATURES, _ANY, width),)
    return tuple(
        _tensor(name_of(OUT, ntype), FEATURES, _ANY, width) for ntype in description.metadata.ntypes
    )


def _tensor(name: str, datatype: str, *shape: int) -> TensorMetadata:
    return TensorMetadata(name=name, datatype=datatype, shape=shape)
