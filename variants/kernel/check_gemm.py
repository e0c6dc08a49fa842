"""The rules of a `Gemm` and of an `Outer`."""

from __future__ import annotations

from hetune.variants.kernel.check import NODE_ENDS, OPERAND_FUNCTIONS, Check
from hetune.variants.kernel.check_tail import TailCheck
from hetune.variants.kernel.nodes import Direct, Factor, Gather, Gemm, Outer, Rows, SegmentSum
from hetune.variants.kernel.text import show_type
from hetune.variants.kernel.walk import reads
from hetune.variants.program.nodes import End, Space, Type


class _ProductCheck(Check):
    """What holds of all products."""

    def extents(self, product: Gemm | Outer) -> None:
        """There is at least one of everything."""
        self.rows(product.rows)
        for name, extent in (("heads", product.heads), ("k", product.k), ("n", product.n)):
            if extent < 1:
                raise self.error(f"{name} is {extent}: it must be at least 1")

    def type_space(self, what: str, name: str, rows: Rows) -> None:
        """The rows know which row of the types is theirs."""
        typed, type = Space.NTYPE if rows.space is Space.NODE else Space.ETYPE, self.buffer(name)
        if type.space not in (typed, Space.SHARED):
            raise self.error(
                f"{what} {name!r} is {show_type(type)}: with {rows.space} rows it must be {typed} "
                "or shared"
            )

    def width(self, what: str, name: str, wanted: int, sizes: str) -> None:
        """The buffer is as wide as the product says."""
        width = self.buffer(name).width
        if width != wanted:
            raise self.error(f"{what} {name!r} has width {width}: it must be {sizes} = {wanted}")

    def factor(self, factor: Factor, k: str = "k") -> None:
        """The operand is there, of heads and their width, which is called ``k``."""
        space, wanted, sizes = factor.rows.space, factor.heads * factor.k, f"heads * {k}"
        match factor.x:
            case Direct(buffer, fn, const):
                self.own_row(buffer, factor.rows)
                self.width("operand", buffer, wanted, sizes)
                self._operand_function(fn, const)
            case Gather(buffer, end):
                self._node_operand(buffer)
                if end is End.NONE or end not in NODE_ENDS[space]:
                    raise self.error(
                        f"{space} rows have no node at {end!s}: gather at {_ends(space)}, or read "
                        "the rows directly"
                    )
                self.width("operand", buffer, wanted, sizes)
            case SegmentSum() as x:
                self._segment_sum(x, factor, sizes)

    def _node_operand(self, name: str) -> None:
        type = self.buffer(name)
        if type.space is not Space.NODE:
            raise self.error(
                f"operand {name!r} is {show_type(type)}: only node buffers can be gathered"
            )

    def _operand_function(self, fn: str, const: float | None) -> None:
        if not fn and const is None:
            return
        self.function(fn, 1, const)
        if fn not in OPERAND_FUNCTIONS:
            raise self.error(
                f"{fn} of padding is no number: use one of {', '.join(sorted(OPERAND_FUNCTIONS))}"
            )

    def _segment_sum(self, x: SegmentSum, factor: Factor, sizes: str) -> None:
        rows, wanted = factor.rows, factor.heads * factor.k
        if rows.space is not Space.DST_PAIR:
            raise self.error(f"sum(...) needs dst_pair rows, not {rows.space}: walk dst_pair rows")
        if x.end is End.NONE:
            self.own_row(x.buffer, Rows(Space.EDGE, rows.group))
        elif x.end is End.SRC:
            self._node_operand(x.buffer)
        else:
            raise self.error(
                f"sum(...) reads {x.buffer!r} at dst, where all its edges meet: read it at src"
            )
        if x.weight is None:
            self.width("operand", x.buffer, wanted, sizes)
            return
        shape = self.own_row(x.weight, Rows(Space.EDGE, rows.group)).shape
        if shape not in ((), (factor.heads,)):
            raise self.error(
                f"weight {x.weight!r} has row shape {shape}: it must be () or (heads,) = "
                f"({factor.heads},)"
            )
        if shape == () or self.buffer(x.buffer).width != factor.k:
            self.width("operand", x.buffer, wanted, sizes)


class OuterCheck(_ProductCheck):
    """Checks one `Outer`."""

    def __init__(self, place: str, types: dict[str, Type], outer: Outer) -> None:
        super().__init__(place, types)
        self.outer = outer

    def run(self) -> None:
        """Check it all.

        Raises:
            KernelError: A rule is broken.
        """
        outer = self.outer
        self.extents(outer)
        if outer.x is None and outer.k != 1:
            raise self.error(f"k is {outer.k} without a left operand: it must be 1")
        for factor, extent in zip(reversed(outer.factors), "nk", strict=False):
            if isinstance(factor.x, Direct) and factor.x.fn:
                raise self.error(f"operands of `outer` go through no function: drop {factor.x.fn}")
            self.factor(factor, extent)
        if outer.scale is not None:
            self._scale(outer.scale)
        self.type_space("out", outer.out, outer.rows)
        self.width("out", outer.out, outer.heads * outer.k * outer.n, "heads * k * n")
        if outer.out in {name for name, _ in reads(outer)}:
            raise self.error(f"{outer.out!r} is both read and written: write another buffer")

    def _scale(self, name: str) -> None:
        heads, n = self.outer.heads, self.outer.n
        shape = self.own_row(name, self.outer.rows).shape
        if shape and (len(shape) > 1 or shape[0] % heads or heads * n % shape[0]):
            raise self.error(
                f"scale {name!r} has row shape {shape}: it must be (), or have factors of equal "
                f"parts of each of {heads} heads of {n}"
            )


class GemmCheck(_ProductCheck):
    """Checks one `Gemm`."""

    def __init__(self, place: str, types: dict[str, Type], gemm: Gemm) -> None:
        super().__init__(place, types)
        self.gemm = gemm

    def run(self) -> None:
        """Check it all.

        Raises:
            KernelError: A rule is broken.
        """
        gemm = self.gemm
        self.extents(gemm)
        self.factor(gemm.factor)
        self._weight()
        if gemm.tail:
            TailCheck(self.place, self.types, gemm).run()
        else:
            self._out()
        if gemm.scale is not None:
            shape = self.own_row(gemm.scale, gemm.rows).shape
            if shape not in ((), (gemm.heads,)):
                raise self.error(
                    f"scale {gemm.scale!r} has row shape {shape}: it must be () or "
                    f"(heads,) = ({gemm.heads},)"
                )
        if gemm.bias is not None:
            self._bias(gemm.bias)
        if gemm.only is not End.NONE and gemm.rows.space is not Space.NODE:
            raise self.error(f"only={gemm.only} is for node rows, not {gemm.rows.space}: drop it")
        if gemm.fill and (gemm.only is End.NONE or gemm.accumulate):
            raise self.error("fill is for rows that only= leaves out, and not with `+=`: drop it")
        if not gemm.tail and gemm.out in {name for name, _ in reads(gemm)}:
            raise self.error(f"{gemm.out!r} is both read and written: write another buffer")

    def _weight(self) -> None:
        gemm = self.gemm
        type = self.buffer(gemm.w)
        self.type_space("weight", gemm.w, gemm.rows)
        shapes: set[tuple[int, ...]] = {(gemm.heads, gemm.k, gemm.n)}
        if gemm.heads == 1 and type.shape[:1] == (gemm.k,) and type.width == gemm.k * gemm.n:
            shapes.add(type.shape)
        if type.shape not in shapes:
            raise self.error(
                f"weight {gemm.w!r} has row shape {type.shape}: it must be (heads, k, n) = "
                f"{(gemm.heads, gemm.k, gemm.n)}; with one head (k, *out) will do"
            )

    def _out(self) -> None:
        gemm = self.gemm
        if gemm.scatter:
            if gemm.rows.space not in (Space.EDGE, Space.DST_PAIR):
                raise self.error(
                    f"{gemm.rows.space} rows cannot scatter: use edge or dst_pair rows"
                )
            if not gemm.accumulate:
                raise self.error("scatters without adding up: set accumulate (`+=`)")
            self.own_row(gemm.out, Rows(Space.NODE))
        else:
            self.own_row(gemm.out, gemm.rows)
        self.width("out", gemm.out, gemm.heads * gemm.n, "heads * n")

    def _bias(self, name: str) -> None:
        gemm = self.gemm
        if gemm.scatter:
            raise self.error(
                "a bias would be added once per row that scatters: add it in a pass over nodes"
            )
        self.type_space("bias", name, gemm.rows)
        self.width("bias", name, gemm.heads * gemm.n, "heads * n")


def _ends(space: Space) -> str:
    return " or ".join(end for end in NODE_ENDS[space] if end is not End.NONE) or "no end"
