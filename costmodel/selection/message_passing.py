"""`hetune.dgl.message_passing`: functions of messages, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hetune.costmodel.selection.compile import compile
from hetune.variants.frontend.dgl.udfs import MessageFunctions


def message_passing(message: Any, reduce: Any, apply: Any = None) -> Callable[[Any], None]:
    """What ``g.update_all(message, reduce, apply)`` does, as a function of ``g``, compiled.

    What functions read of their modules, of closures and of globals are their weights.

    Args:
        message: A function of edges, or one of `dgl.function`.
        reduce: A function of nodes with a mailbox, or one of `dgl.function`.
        apply: A function of nodes; None for none.

    Returns:
        A function of a homogeneous DGL graph, whose fields of nodes it sets.
    """
    compiled = compile(MessageFunctions(message, reduce, apply))

    def send(g: Any) -> None:
        g.ndata.update(compiled(g))

    return send
