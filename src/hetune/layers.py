"""What a layer of one's own is written with: see `hetune.layer_program`."""

from hetune.variants.frontend.trace import (
    Graph,
    Value,
    constant,
    dot,
    edge,
    etype,
    exp,
    gelu,
    layer_program,
    leaky_relu,
    node,
    ntype,
    relu,
    shared,
    sigmoid,
    softmax,
    tanh,
)
from hetune.variants.program.text import show

__all__ = [
    "Graph",
    "Value",
    "constant",
    "dot",
    "edge",
    "etype",
    "exp",
    "gelu",
    "layer_program",
    "leaky_relu",
    "node",
    "ntype",
    "relu",
    "shared",
    "show",
    "sigmoid",
    "softmax",
    "tanh",
]
