"""What no backend compiles."""

from __future__ import annotations

from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Gemm, Launch, SegmentSum
from hetune.variants.program.nodes import Space


def check_gemm(gemm: Gemm, launch: Launch) -> None:
    """Checks that a Gemm's buffers are as wide as it says, and that its rows suit it.

    Raises:
        KernelError: they do not.
    """
    where = f"in the Gemm into {gemm.out!r}"
    if launch.type_of(gemm.w).width != gemm.heads * gemm.k * gemm.n:
        raise KernelError(f"{where} the weight {gemm.w!r} is not (heads, k, n) wide")
    if not gemm.tail and launch.type_of(gemm.out).width != gemm.heads * gemm.n:
        raise KernelError(f"{where} the output is not heads * n wide")
    if isinstance(gemm.x, SegmentSum) and gemm.rows.space is not Space.DST_PAIR:
        raise KernelError(f"{where} a segment sum needs dst_pair rows")
    if gemm.scatter and gemm.rows.space not in (Space.DST_PAIR, Space.EDGE):
        raise KernelError(f"{where} only edges and dst_pairs scatter to their destination")
    if gemm.scatter and (gemm.bias or not gemm.accumulate):
        raise KernelError(f"{where} scattered rows must accumulate and have no bias")
