"""Which kernels `gpu_parts.py` tries: data alone, for who compiles them and who starts them."""

from dataclasses import dataclass
from typing import Any

CUDA = ("_gpu_parts.cu", "_gpu_parts_softmax.cu")
"""Files of the kernels in CUDA C++; one after the other they are one."""


@dataclass(frozen=True)
class Kernel:
    """A kernel to compile.

    Attributes:
        module: Where it is: a module with Triton's, or "cuda".
        name: Its name there.
        types: Of its arguments, as Triton calls them.
        constants: What it is specialized on, by name.
        warps: Of a program.
    """

    module: str
    name: str
    types: str
    constants: tuple[tuple[str, Any], ...] = ()
    warps: int = 4

    @property
    def label(self) -> str:
        """A name for its file."""
        values = "-".join(str(value) for _, value in self.constants)
        return f"{self.module.removeprefix('_gpu_parts_')}-{self.name}-{values}-w{self.warps}"


@dataclass(frozen=True)
class Candidate:
    """A way of summing over parts of edges.

    Attributes:
        name: What it is called in results.
        kernel: What walks edges.
        join: What walks partial rows.
        most: Edges of a part.
        each: Parts of a program.
        elements: Parts of one edge of a program; 0: as many as of others.
        blocks: Blocks for each multiprocessor, which take programs in turns; 0: one a program.
    """

    name: str
    kernel: Kernel
    join: Kernel
    most: int = 64
    each: int = 8
    elements: int = 0
    blocks: int = 0


SUM_TYPES = "*fp32 " + "*i32 " * 7 + "*fp32 *fp32 i32"
SOFTMAX_TYPES = "*fp32 " * 5 + "*i32 " * 7 + "*fp32 " * 4 + "i32"
PRODUCT_TYPES = "*fp32 *fp32 *i32 *i32 *i32 *i32 *fp32 i32"
_TRITON = {
    "sum": ("_gpu_parts_triton", "summed", SUM_TYPES),
    "softmax": ("_gpu_parts_softmax", "attended", SOFTMAX_TYPES),
}


def _triton(
    op: str, width: int, u: int, p: int, warps: int, *, stages: int = 1, short: bool = True,
    most: int = 64, stream: bool = False,
) -> Candidate:  # fmt: skip
    def of(warps: int, **named: Any) -> Kernel:
        module, kernel, types = _TRITON[op]
        named |= {"STREAM": stream} if op == "sum" else {}
        return Kernel(module, kernel, types, tuple(named.items()), warps)

    name = f"triton u{u} p{p} w{warps}"
    name += {0: " ahead", 1: ""}.get(stages, f" s{stages}")
    name += "" if short else " plain"
    name += f" k{most}" if most != 64 else ""
    name += " stream" if stream else ""
    kernel = of(warps, U=u, P=p, W=width, GATHER=True, STAGES=stages, SHORT=short)
    join = of(4, U=8, P=512 // width, W=width, GATHER=False, STAGES=1, SHORT=False)
    return Candidate(name, kernel, join, most, p, u * p if short else 0)


def _cuda(
    op: str, width: int, name: str, *, each: int = 0, most: int = 64, blocks: int = 0
) -> Candidate:
    types = _TRITON[op][2]
    groups = 512 // width
    elements = 8 * groups if op == "sum" else 0
    text = f"cuda {name}" + (f" k{most}" if most != 64 else "")
    kernel, join = (Kernel("cuda", f"{op}_{n}_{width}", types) for n in (name, "join"))
    return Candidate(text, kernel, join, most, each or groups, elements, blocks)


def _sums_64() -> list[Candidate]:
    return [
        _triton("sum", 64, 8, 8, 4),
        _triton("sum", 64, 8, 16, 4),
        _triton("sum", 64, 16, 8, 4),
        _triton("sum", 64, 4, 8, 4),
        _triton("sum", 64, 4, 16, 4),
        _triton("sum", 64, 8, 2, 1),
        _triton("sum", 64, 8, 4, 1),
        _triton("sum", 64, 8, 16, 8),
        _triton("sum", 64, 8, 8, 4, stages=0),
        _triton("sum", 64, 4, 8, 4, stages=0),
        _triton("sum", 64, 8, 8, 4, stages=3),
        _triton("sum", 64, 4, 8, 4, stages=4),
        _triton("sum", 64, 8, 8, 4, short=False),
        _triton("sum", 64, 8, 8, 4, stream=True),
        _triton("sum", 64, 4, 8, 4, short=False),
        _triton("sum", 64, 8, 8, 4, most=32),
        _triton("sum", 64, 8, 8, 4, most=128),
        _cuda("sum", 64, "half"),
        _cuda("sum", 64, "stream"),
        _cuda("sum", 64, "half4"),
        _cuda("sum", 64, "half16"),
        _cuda("sum", 64, "warp", each=4),
        _cuda("sum", 64, "async"),
        _cuda("sum", 64, "bulk", each=4),
        _cuda("sum", 64, "persistent", blocks=8),
        _cuda("sum", 64, "half", most=128),
    ]


def _softmaxes() -> list[Candidate]:
    return [
        _triton("softmax", 64, 4, 8, 4),
        _triton("softmax", 64, 8, 8, 4),
        _triton("softmax", 64, 4, 16, 4),
        _triton("softmax", 64, 8, 2, 1),
        _triton("softmax", 64, 4, 4, 1),
        _triton("softmax", 64, 8, 16, 8),
        _triton("softmax", 64, 4, 4, 2),
        _triton("softmax", 64, 4, 8, 4, stages=3),
        _triton("softmax", 64, 4, 8, 4, short=False),
        _triton("softmax", 64, 4, 8, 4, most=32),
        _triton("softmax", 64, 4, 8, 4, most=128),
        _cuda("softmax", 64, "half4"),
        _cuda("softmax", 64, "half"),
        _cuda("softmax", 64, "persistent", blocks=8),
        _cuda("softmax", 64, "half4", most=128),
    ]


CANDIDATES: dict[tuple[str, int], list[Candidate]] = {
    ("sum", 64): _sums_64(),
    ("sum", 32): [
        _triton("sum", 32, 8, 16, 4),
        _triton("sum", 32, 8, 4, 1),
        _triton("sum", 32, 8, 16, 4, most=128),
        _cuda("sum", 32, "half"),
    ],
    ("sum", 128): [
        _triton("sum", 128, 8, 4, 4),
        _triton("sum", 128, 4, 8, 4),
        _triton("sum", 128, 8, 8, 4),
        _cuda("sum", 128, "half"),
    ],
    ("softmax", 64): _softmaxes(),
}
"""By operation and width; Triton's first."""


def product(rows: int, piece: int, precision: str, warps: int) -> Kernel:
    """A product of rows 64 wide."""
    named = {"ROWS": rows, "W": 64, "PIECE": piece, "PRECISION": precision}
    items = tuple(named.items())
    return Kernel("_gpu_parts_products", "multiplied", PRODUCT_TYPES, items, warps)


PRODUCTS: dict[str, Kernel] = {
    f"{precision} k{piece} rows{rows} w{warps}": product(rows, piece, precision, warps)
    for precision, piece, rows, warps in (
        ("ieee", 64, 64, 4),
        ("ieee", 32, 64, 4),
        ("ieee", 32, 128, 4),
        ("ieee", 32, 128, 8),
        ("ieee", 16, 64, 4),
        ("tf32x3", 64, 64, 4),
        ("tf32x3", 32, 64, 4),
        ("tf32x3", 64, 128, 4),
        ("tf32x3", 32, 128, 4),
        ("tf32x3", 64, 128, 8),
        ("tf32x3", 32, 128, 8),
        ("bf16x6", 64, 128, 8),
        ("tf32", 64, 128, 4),
    )
}
NOTHING = Kernel("_gpu_parts_products", "nothing", "*fp32", (), 1)


def kernels() -> list[Kernel]:
    """All that there are, each once."""
    every = [c for candidates in CANDIDATES.values() for c in candidates]
    found = [kernel for c in every for kernel in (c.kernel, c.join)]
    return list(dict.fromkeys([NOTHING, *found, *PRODUCTS.values()]))
