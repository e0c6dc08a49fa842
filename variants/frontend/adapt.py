"""The adapter of any module that hetune may compile."""

from __future__ import annotations

from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from hetune.variants.frontend import pyg
from hetune.variants.frontend.adapter import Adapter, Arguments, Unsupported, refusal
from hetune.variants.frontend.calls import TRACED, read_call
from hetune.variants.frontend.dgl.on_edges import DglLayer, is_dgl_layer
from hetune.variants.frontend.dgl.udfs import MessageFunctions, OnFields
from hetune.variants.frontend.kge.layer import ScoreLayer
from hetune.variants.frontend.message_passing import adapt_call, is_message_passing
from hetune.variants.frontend.nn import HGT, FlatLayer, RelationalLayer
from hetune.variants.frontend.program_layer import ProgramLayer
from hetune.variants.frontend.score_call import adapt_score
from hetune.variants.frontend.tracing.adjacency import AdjacencyLayer, has_matrix
from hetune.variants.frontend.type_order import named_for
from hetune.variants.frontend.vertex.layer import OnVertices, VertexLayer
from hetune.variants.frontend.wrapper import unwrapped
from hetune.variants.graph.vocabulary import Vocabulary
from hetune.variants.program.limitation import limitation


def adapt(
    module: nn.Module, vocabulary: Vocabulary | None = None, call: Arguments | None = None
) -> Adapter | Unsupported:
    """The adapter of a layer of `hetune.nn` or of PyTorch Geometric, compiled or not.

    Args:
        module: The layer.
        vocabulary: Names of the types that its weights are for, in their order.
        call: What it is called with, if it is: some layers are traced for calls like that.

    Raises:
        InputError: The vocabulary is not for this layer, or it takes no such arguments.
    """
    found = _found(unwrapped(module), call)
    if vocabulary is not None and isinstance(found, Adapter):
        found.vocabulary = named_for(found, vocabulary)
    return found


def _found(module: nn.Module, call: Arguments | None) -> Adapter | Unsupported:
    if isinstance(module, RelationalLayer):
        if "forward" in vars(module) or type(module).forward not in (
            FlatLayer.forward,
            HGT.forward,
            ProgramLayer.forward,
        ):
            return Unsupported(f"{type(module).__name__} has a forward() of its own")
        if any(is_parametrized(part) for part in module.modules()):
            return Unsupported(
                "weights are parametrized: torch.nn.utils.parametrize.remove_parametrizations "
                "makes them parameters again"
            )
        reason = refusal(module)
        return Unsupported(reason) if reason else _adapt(module)
    found = pyg.adapt(module, call)
    if not _may_be_traced(found, call):
        return found
    if isinstance(module, ScoreLayer):
        return adapt_score(module, call)
    if isinstance(module, VertexLayer):
        module = OnVertices(module)
    elif isinstance(module, MessageFunctions):
        module = OnFields(module)
    elif is_dgl_layer(module):
        module = DglLayer(module)
    elif not is_message_passing(module):
        return found
    elif call is not None and has_matrix(*call):
        module = AdjacencyLayer(module)
    if call is None:
        return Unsupported("it is traced by its first call", needs_call=True)
    return adapt_call(module, *call)


def _may_be_traced(found: Adapter | Unsupported, call: Arguments | None) -> bool:
    """Whether a module, or a call of it, is not what PyG's adapters by hand are for."""
    if isinstance(found, Unsupported):
        return not found.is_layer or (call is not None and found.needs_call)
    refused = None if call is None else read_call(found, *call)
    return isinstance(refused, Unsupported) and refused.kind == TRACED


def _adapt(module: RelationalLayer) -> Adapter | Unsupported:
    adapter = module.adapter()
    reason = limitation(adapter.program)
    return Unsupported(reason) if reason else adapter
