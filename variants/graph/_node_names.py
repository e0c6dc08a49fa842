"""Names of nodes as flat arrays, as `.npz` files have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hetune.variants.errors import GraphError

ARRAYS = ("named_ntypes", "node_name_offsets", "node_name_utf8")


def packed(names: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
    """The types that have names, and the text of all names with where each of them begins.

    Args:
        names: By node type.
    """
    import pyarrow as pa  # seldom needed

    texts = pa.array([name for own in names.values() for name in own], pa.large_string())
    _, offsets, data = texts.buffers()
    count = len(texts) + 1
    return {
        "named_ntypes": np.array(list(names), dtype=np.str_),
        "node_name_offsets": np.frombuffer(offsets or bytes(8), np.int64, count),
        "node_name_utf8": np.frombuffer(data or b"", np.uint8),
    }


def unpacked(
    arrays: Mapping[str, np.ndarray], ntype_names: Sequence[str], counts: Sequence[int]
) -> dict[str, tuple[str, ...]] | None:
    """The names, by node type; None where there are none.

    Args:
        arrays: What `packed` gives, among others.
        ntype_names: Of all node types.
        counts: How many nodes each has.

    Raises:
        GraphError: The arrays do not fit together, or the nodes.
    """
    if not all(name in arrays for name in ARRAYS):
        return None
    import pyarrow as pa  # seldom needed

    named, offsets, data = (arrays[name] for name in ARRAYS)
    sizes = dict(zip(ntype_names, counts, strict=True))
    types = named.tolist() if named.ndim == 1 else []
    if len(set(types)) < len(types) or not set(types) <= set(sizes):
        raise GraphError(f"named_ntypes has {types}: give types of {list(ntype_names)}, each once")
    total = sum(sizes[name] for name in types)
    is_flat = (offsets.dtype, data.dtype) == (np.dtype(np.int64), np.dtype(np.uint8))
    if not is_flat or offsets.shape != (total + 1,) or data.ndim != 1:
        raise GraphError(
            f"node_name_offsets is {offsets.dtype} {list(offsets.shape)}: there are {total} nodes "
            "with names, so give int64 [that + 1], and node_name_utf8 as uint8"
        )
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    texts = pa.Array.from_buffers(pa.large_string(), total, buffers)
    texts.validate(full=True)
    found, first = {}, 0
    for name in types:
        found[name] = tuple(texts.slice(first, sizes[name]).to_pylist())
        first += sizes[name]
    return found
