"""Sums of outer products, as texts with gaps for their extents."""

from hetune.variants.kernel.nodes import Launch
from hetune.variants.kernel.parse import parse

_BUFFERS = {
    "x": "node[{h},{k}]",
    "y": "node[{h},{n}]",
    "e": "edge[{h},{n}]",
    "f": "edge[{h},{k}]",
    "row": "node[{k}]",
    "q": "dst_pair[{h},{n}]",
    "t": "src_pair@a[{h},{n}]",
    "c": "edge[]",
    "heads_c": "edge[{h}]",
    "parts_c": "edge[{m}]",
    "p": "dst_pair[{h}]",
    "w": "etype[{h},{k},{n}]",
    "v": "ntype[{h},{k},{n}]",
    "u": "shared[{h},{k},{n}]",
}

OUTERS = {
    "edges": "w[edge] = x[src], y[dst]",
    "scaled edges": "w[edge@a] += c * x[src], e",
    "scaled heads": "w[edge@b] = heads_c * x[dst], y[src]",
    "scaled parts": "w[edge@a] = parts_c * x[src], y[dst]",
    "source pairs": "w[src_pair@a] = x[src], t",
    "nodes": "v[node] = x, y",
    "all nodes": "u[node] += x, y",
    "all edges": "u[edge@a] = x[src], y[dst]",
    "rows": "w[edge@b] = y[src]",
    "weighted rows": "w[edge] += heads_c * y[src]",
    "rows of nodes": "v[node] = y",
}
"""What all backends compute."""
OUTERS_OF_SUMS = {
    "sums": "w[dst_pair@a] = sum(x[src]), y[dst]",
    "weighted sums": "w[dst_pair] += p * sum(heads_c * row[src]), q",
    "sums on the right": "w[dst_pair@b] = x[dst], sum(c * y[src])",
    "sums of edges": "u[dst_pair] = sum(f), sum(heads_c * e)",
}
"""What CPUs compute."""


def outer(line: str, heads: int, k: int, n: int) -> Launch:
    """The launch of a line of a table."""
    k = k if "," in line else 1
    words = "".join(c if c.isalnum() or c == "_" else " " for c in line).split()
    used = [name for name in _BUFFERS if name in words]
    buffers = "".join(f"  buffer {name}: {_BUFFERS[name]}\n" for name in used)
    sizes = {"h": heads, "k": k, "n": n, "m": heads * (2 if n % 2 == 0 else n)}
    return parse(f"launch\n{buffers}  outer {line} heads={{h}} k={{k}} n={{n}}\n".format(**sizes))
