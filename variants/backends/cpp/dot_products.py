"""Products of few columns: vectors run along k, not along the columns."""

from __future__ import annotations

from hetune.variants.backends.cpp.pieces import cut
from hetune.variants.backends.cpp.target import Assign, Declare, Do, For, Statement
from hetune.variants.backends.cpp.tile_row import TileRow, sum_text
from hetune.variants.kernel.nodes import Element


def dot_products(row: TileRow, lanes: int) -> list[Statement]:
    """The statements of a tile: products along k, and one horizontal sum per output element.

    Args:
        row: Where row m of the tile lies.
        lanes: Of the widest vectors.
    """
    gemm = row.gemm
    head_x = f"h * {gemm.k}" if gemm.heads > 1 else ""
    head_w = f"(h * {gemm.n} + j) * {gemm.k}" if gemm.heads > 1 else f"j * {gemm.k}"
    pieces = cut(gemm.k, lanes)
    widest = pieces[0]
    whole = [p for p in pieces if p.lanes == widest.lanes]
    rest = pieces[len(whole) :]
    left, right = sum_text("x[m]", head_x), sum_text("w", head_w)
    body: list[Statement] = [
        Declare("const float*", "x_m", left),
        Declare("const float*", "w_j", right),
        Declare(widest.type, "products", f"{widest.type}{{}}"),
        For(
            "int",
            "k",
            "0",
            f"{len(whole) * widest.lanes}",
            (
                Assign(
                    "products",
                    f"load<{widest.type}>(x_m + k) * load<{widest.type}>(w_j + k)",
                    "+=",
                ),
            ),
            step=f"{widest.lanes}",
            unroll=8,
        ),
        Declare("float", "total", "hsum(products)"),
    ]
    body += [
        Assign(
            "total",
            f"hsum(load<{p.type}>(x_m + {p.offset}) * load<{p.type}>(w_j + {p.offset}))",
            "+=",
        )
        for p in rest
    ]
    head = f"h * {gemm.n}" if gemm.heads > 1 else ""
    column = sum_text(head, "j")
    if gemm.scale:
        body.append(Assign("total", row.scale, "*="))
    if gemm.bias:
        body.append(Assign("total", f"({row.bias})[{column}]", "+="))
    if row.element is Element.BFLOAT16:
        body.append(Do(f"store({row.out}, {column}, total)"))
    else:
        body.append(Assign(f"({row.out})[{column}]", "total", "+=" if gemm.accumulate else "="))
    loop: Statement = For("int", "j", "0", f"{gemm.n}", tuple(body))
    if gemm.heads > 1:
        loop = For("int", "h", "0", f"{gemm.heads}", (loop,))
    return [For("int", "m", "0", "M", (loop,))]
