"""Whether a node's results depend on the edges into it and their sources' inputs alone."""

from __future__ import annotations

from hetune.variants.program.nodes import (
    Count,
    End,
    Program,
    Reduce,
    Softmax,
    Space,
    Take,
    operands,
)

_NEAR = (Space.NODE, Space.DST_PAIR, Space.EDGE)


def reads_near_nodes(program: Program) -> bool:
    """Whether results for some nodes follow from the edges into them, whatever else there is.

    What is counted or summed up at a node needs all edges into it, so a source must not bring it
    along; nor may sums go to sources, or to what all nodes share.
    """
    far: set[str] = set()
    for let in program.lets:
        op = let.op
        if isinstance(op, Reduce | Count) and op.end is End.SRC:
            return False
        if isinstance(op, Reduce | Count) and let.type.space not in _NEAR:
            return False
        is_far = not far.isdisjoint(operands(op)) or isinstance(op, Reduce | Count | Softmax)
        if not is_far:
            continue
        if isinstance(op, Take) and op.end is End.SRC:
            return False
        far.add(let.name)
    return True
