"""What a model is, without its weights: relational layers, normalizations and activations."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, field_validator, model_validator

from hetune.service.core.formats.documents import Document, Positive
from hetune.variants.errors import GraphError, ProgramError
from hetune.variants.frontend.presets import HgtName, RgatName, RgcnName
from hetune.variants.graph.convert.edge_index_dict import relation_names
from hetune.variants.graph.loops import Loops
from hetune.variants.graph.vocabulary import Vocabulary
from hetune.variants.kernel.precision import Precision
from hetune.variants.program.labeled import LabeledProgram

_MOST_LAYERS = 64
_MOST_TEXT = 20_000
_MOST_INPUTS = 64
Width = Annotated[int, Field(ge=1, le=65536)]
Relations = Annotated[int, Field(ge=0, le=1_000_000)]
Activation = Literal["none", "relu", "elu", "gelu", "tanh"]
Normalization = Literal["none", "layer", "batch"]
Jumping = Literal["none", "cat", "max"]
InputName = Annotated[
    str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]{0,63}|[0-9]{1,2}(\.[0-9]{1,2})?)$")
]
TableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]


class _Layer(Document):
    """What all layers have."""

    out_channels: Width
    # Left out of what is kept where there is none: it was not there in earlier versions.
    normalization: Annotated[Normalization, Field(exclude_if=lambda name: name == "none")] = "none"
    activation: Activation = "none"


class RgcnLayer(_Layer):
    """`hetune.nn.RGCN` with its options."""

    layer: RgcnName
    aggr: Literal["mean", "add"] = "mean"
    num_bases: Width | None = None
    num_blocks: Width | None = None
    self_loop: bool = True
    bias: bool = True
    residual: bool = False

    @property
    def width(self) -> int:
        """Of the rows that it gives out."""
        return self.out_channels


class RgatLayer(_Layer):
    """`hetune.nn.RGAT` with its options; gives out rows of `heads * out_channels`."""

    layer: RgatName
    heads: Width = 1
    softmax: Literal["across", "within"] = "across"
    attention: Literal["per_head", "shared"] = "per_head"
    relation_attention: bool = False
    negative_slope: float = 0.2
    num_bases: Width | None = None
    self_loop: bool = False
    bias: bool = True
    residual: bool = False

    @property
    def width(self) -> int:
        """Of the rows that it gives out."""
        return self.heads * self.out_channels


class HgtLayer(_Layer):
    """`hetune.nn.HGT` with its options; needs the model's metadata."""

    layer: HgtName
    heads: Positive = 1

    @property
    def width(self) -> int:
        """Of the rows that it gives out."""
        return self.out_channels


class ProgramDocument(_Layer):
    """A program of one's own, as `hetune.layers.show` prints it.

    `inputs` say what each of its features and constants is: an input of the model, such as "x", or
    what a layer before gives, such as "2", or "2.1" for that layer's second result. By default it
    takes in what the layer before gives. `loops` are what becomes of the graph's self loops.
    """

    layer: Literal["program"]
    program: Annotated[str, Field(max_length=_MOST_TEXT)]
    inputs: Annotated[
        tuple[InputName, ...] | None,
        Field(max_length=_MOST_INPUTS, exclude_if=lambda names: names is None),
    ] = None
    loops: Annotated[Loops, Field(exclude_if=lambda loops: loops == "given")] = "given"

    @field_validator("program")
    @classmethod
    def _is_program(cls, text: str) -> str:
        try:
            LabeledProgram.parse(text)
        except ProgramError as error:
            raise ValueError(str(error)) from None
        return text

    @property
    def width(self) -> int:
        """Of the rows that it gives out."""
        return LabeledProgram.parse(self.program).d_out


# Left out of what is kept where there are none: they were not there in earlier versions.
Names: TypeAlias = Annotated[tuple[str, ...] | None, Field(exclude_if=lambda names: names is None)]
Layer: TypeAlias = Annotated[
    RgcnLayer | RgatLayer | HgtLayer | ProgramDocument, Field(discriminator="layer")
]


class Metadata(Document):
    """Types of nodes and edges of the graphs that a model is for, in the graphs' order."""

    ntypes: tuple[str, ...]
    etypes: tuple[tuple[str, str, str], ...]


class ModelDescription(Document):
    """A stack of layers: what one gives out, normalized and activated, is what the next takes in.

    The model gives out the last layer's rows, or with jumping connections (Xu et al. 2018) what all
    layers give out, side by side ("cat") or the largest of each column ("max").

    Where it has names of types, its weights are in their order: a graph with the same names is met
    in its own order, one with others is refused.

    With a precision of "bf16" tables that edges read may be stored so.

    `tables` are inputs that belong to the model, such as embeddings: the number of their rows, one
    for each node of its graphs. Features by node type get an answer for `result_types` alone.

    `node_widths` are those of the features of each of the metadata's node types, where these
    differ; layers take rows of `in_channels`, with zeros behind narrower ones.
    """

    most_fields: ClassVar[int | None] = _MOST_LAYERS << 5
    in_channels: Width
    num_relations: Relations
    layers: Annotated[tuple[Layer, ...], Field(min_length=1, max_length=_MOST_LAYERS)]
    metadata: Metadata | None = None
    relations: Names = None
    node_types: Names = None
    jumping: Jumping = "none"
    precision: Annotated[Precision, Field(exclude_if=lambda name: name == "float32")] = "float32"
    tables: Annotated[
        dict[TableName, Positive],
        Field(max_length=_MOST_INPUTS, exclude_if=lambda tables: not tables),
    ] = Field(default_factory=dict)
    result_types: Names = None
    node_widths: Annotated[
        tuple[Width, ...] | None, Field(exclude_if=lambda widths: widths is None)
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.node_widths is not None:
            types = () if self.metadata is None else self.metadata.ntypes
            widest = max(self.node_widths, default=0)
            if len(self.node_widths) != len(types) or widest != self.in_channels:
                raise ValueError(
                    f"node_widths are {list(self.node_widths)}: give one for each of the "
                    f"metadata's {len(types)} ntypes, {self.in_channels} (in_channels) the largest"
                )
        if self.metadata is None:
            if typed := [layer for layer in self.layers if isinstance(layer, HgtLayer)]:
                raise ValueError(
                    f"a model with {typed[0].layer} layers needs metadata: ntypes and etypes"
                )
        elif len(self.metadata.etypes) != self.num_relations:
            raise ValueError(
                f"metadata has {len(self.metadata.etypes)} etypes but num_relations is "
                f"{self.num_relations}: make them equal"
            )
        if self.relations is not None and len(self.relations) != self.num_relations:
            raise ValueError(
                f"there are {len(self.relations)} relations but num_relations is "
                f"{self.num_relations}: make them equal"
            )
        if self.metadata and self.node_types not in (None, self.metadata.ntypes):
            raise ValueError("node_types are not the metadata's ntypes: leave node_types out")
        try:
            _ = self.vocabulary
        except GraphError as error:
            raise ValueError(str(error)) from None
        if self.jumping == "max" and len({layer.width for layer in self.layers}) > 1:
            raise ValueError(
                f"jumping is 'max' but the layers give out rows of {list(self.widths[1:])}: make "
                "them of one width, or take 'cat'"
            )
        return self

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """Names of the types that weights are for, in their order; None where none are known."""
        if self.metadata is not None:
            triples = self.metadata.etypes
            relations = self.relations or tuple(relation_names(triples))
            return Vocabulary(self.metadata.ntypes, relations, triples)
        if self.relations is None:
            return None
        return Vocabulary(self.node_types, self.relations)

    @property
    def widths_by_type(self) -> dict[str, int]:
        """Of the features of each node type, where these differ."""
        types = () if self.metadata is None else self.metadata.ntypes
        return dict(zip(types, self.node_widths or (), strict=False))

    @property
    def num_outputs(self) -> int:
        """Layers, and one more for what jumping connections join: the last is the model's."""
        return len(self.layers) + (self.jumping != "none")

    @property
    def out_channels(self) -> int:
        """Of the rows that the model gives out."""
        return sum(self.widths[1:]) if self.jumping == "cat" else self.widths[-1]

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the input and of each layer's output."""
        return (self.in_channels, *(layer.width for layer in self.layers))
