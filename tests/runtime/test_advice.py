"""Messages say how to mend what is wrong, and it works: each one's advice is followed here."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import hetune
from hetune.variants.runtime.fallback import FallbackWarning

from . import _advice_of_calls, _advice_of_demands, _advice_of_layers  # noqa: F401  add cases
from ._advice import CASES, said_by

pytestmark = pytest.mark.usefixtures("no_grad")
SOURCE = Path(hetune.__file__).parent / "variants"


def matches(message: str, text: str) -> bool:
    pattern = ".*".join(map(re.escape, message.split("{}")))
    return re.search(pattern, text, re.DOTALL) is not None


@pytest.mark.parametrize("name", CASES)
def test_what_is_advised_works(name, x, edges, graph):
    message, steps = CASES[name]
    given = steps(x, edges, graph)
    assert matches(message, said_by(next(given)))
    follow = next(given)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        follow()


# Nothing is left out.

WITHOUT_ADVICE = {
    # What is supported, where nothing can be changed but the layer's kind; most of it is traced.
    "its result has {} rows: only node rows are supported",
    "aggr={}: 'add' and 'mean' are supported",
    "edge_dim={}: edge features are not supported",
    "aggr={}: only 'add' is supported",
    "in_channels={}: widths differ much between node types",
    "in_channels={}: source and destination widths differ",
    "{} is a {}: only a {} is supported",
    "{}={}: widths of at least 1 are supported",
    # Of types, as the next ones are of dtypes.
    "x is {}: only float tensors [N, width] are supported",
    "x_dict is {}: only dictionaries of tensors are supported",
    "x_dict[{}] is {}: only tensors are supported",
    "edge_index_dict is {}: only dictionaries are supported",
    # Python's own words, or those of another message.
    "{}: {}",
    "{} is no layer of hetune.nn: {}",
    "metadata has the edge type {}, but no node type {}: its node types are {}",
    # Of layers that are called past what checks a call.
    "{} is {} on {}: what is compiled for this graph takes float32 on {}; convert it with .float() "
    "and .to()",
    "{} has shape {} but the graph and the layer need {}: give one row for every row of the graph",
    "x is a tensor but the edges are a dictionary: give a HeteroGraph",
    # Two devices.
    "edge_type is on {} but edge_index is on {}: move one of them",
    # Followed in test_segments.py, test_dict_order.py and test_wrapper.py.
    "with pyg-lib, PyG takes aggr='mean' over the edges of all relations on such a graph, not of "
    "each: set torch_geometric.backend.use_segment_matmul = False for that of each, compiled",
    "x_dict or in_channels has its node types in another order than the layer's metadata, and with "
    "pyg-lib HGTConv takes another node type's weights then: give them in the metadata's order",
    "compiled code is not pickled: save the state dict, which has the module's names, or pickle "
    "the attribute `module`, and compile it again where it is loaded",
    "parametrizations of {} belong to the layer's class: call torch with the compiled layer's "
    "attribute `module`",
}
FILES = (
    *(
        f"frontend/{name}"
        for name in ("adapt", "adapter", "layer_arguments", "calls", "edge_errors")
    ),
    *(f"frontend/{name}" for name in ("from_pyg", "nn", "pyg", "pyg_order")),
    "frontend/type_order",
    *(f"runtime/{name}" for name in ("backends", "choice", "compiled", "executable", "fallback")),
    "frontend/wrapper",
    *(f"runtime/{name}" for name in ("layer_runner", "model_layers", "scored", "weights")),
)
RAISED = {"Unsupported", "InputError", "VariantError", "MemoryLimitError", "GraphError"}


def text_of(node: ast.expr) -> str:
    """A literal's text, with {} for what is put in."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(
                text_of(part) if isinstance(part, ast.Constant) else "{}" for part in values
            )
    return ""


def messages(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[text, *_]):
                if name in RAISED or name == "PicklingError":
                    yield text_of(text)
            case ast.Return(value=ast.Constant() | ast.JoinedStr() as text):
                yield text_of(text)


@pytest.mark.parametrize("file", FILES)
def test_every_advice_is_followed(file):
    tree = ast.parse((SOURCE / f"{file}.py").read_text(encoding="utf-8"))
    advice = {message for message in messages(tree) if re.search(r": \S", message)}
    assert advice <= {message for message, _ in CASES.values()} | WITHOUT_ADVICE
