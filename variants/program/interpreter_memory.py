"""What the interpreter holds at most, known before it runs."""

from __future__ import annotations

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.nodes import Linear, Program, Space, Type, operands

_FLOAT_BYTES, _ID_BYTES = 4, 8
_IDS_OF_EDGES = 16
"""For each edge: its ends, type, pairs, and what sorting those takes."""
_IDS_OF_ROWS = 4
"""For each row of a value: which row it reads, and the order by types."""
_COPIES = 3
"""Of a value and of what it is computed from, while it is: gathered, ordered, multiplied."""


def interpreter_bytes(program: Program, graph: HeteroGraph) -> int:
    """Most bytes that `interpret` holds on a graph in float32, parameters included."""
    rows = {
        Space.NODE: graph.num_targets,
        Space.SOURCE: graph.num_sources,
        Space.EDGE: graph.num_edges,
        Space.SRC_PAIR: graph.num_edges,
        Space.DST_PAIR: graph.num_edges,
        Space.NTYPE: graph.num_ntypes,
        Space.ETYPE: graph.num_etypes,
        Space.SHARED: 1,
    }

    def size(type_: Type) -> int:
        return rows[type_.space] * type_.width * _FLOAT_BYTES

    types = program.types
    last_read = {name: let.name for let in program.lets for name in operands(let.op)}
    held = sum(size(param.type) for param in program.params)
    most = held
    for let in program.lets:
        read = operands(let.op)
        gathered = read[:1] if isinstance(let.op, Linear) else read  # others get a row of weights
        count = max(rows[let.type.space], *(rows[types[name].space] for name in gathered), 0)
        width = let.type.width + sum(types[name].width for name in gathered)
        working = count * (_COPIES * width * _FLOAT_BYTES + _IDS_OF_ROWS * _ID_BYTES)
        most = max(most, held + working)
        held += size(let.type)
        held -= sum(size(types[name]) for name in set(read) if last_read[name] == let.name)
    return most + graph.num_edges * _IDS_OF_EDGES * _ID_BYTES
