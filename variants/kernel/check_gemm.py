"""The rules of a `Gemm`."""

from __future__ import annotations

from hetune.variants.kernel.check import NODE_ENDS, OPERAND_FUNCTIONS, Check
from hetune.variants.kernel.check_tail import TailCheck
from hetune.variants.kernel.nodes import Direct, Gather, Gemm, Rows, SegmentSum
from hetune.variants.kernel.text import show_type
from hetune.variants.kernel.walk import reads
from hetune.variants.program.nodes import End, Space, Type


class GemmCheck(Check):
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
        self.rows(gemm.rows)
        for name, extent in (("heads", gemm.heads), ("k", gemm.k), ("n", gemm.n)):
            if extent < 1:
                raise self.error(f"{name} is {extent}: it must be at least 1")
        self._operand()
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

    def _width(self, what: str, name: str, wanted: int, sizes: str) -> None:
        width = self.buffer(name).width
        if width != wanted:
            raise self.error(f"{what} {name!r} has width {width}: it must be {sizes} = {wanted}")

    def _operand(self) -> None:
        gemm = self.gemm
        match gemm.x:
            case Direct(buffer, fn, const):
                self.own_row(buffer, gemm.rows)
                self._width("operand", buffer, gemm.heads * gemm.k, "heads * k")
                self._operand_function(fn, const)
            case Gather(buffer, end):
                self._node_operand(buffer)
                if end is End.NONE or end not in NODE_ENDS[gemm.rows.space]:
                    raise self.error(
                        f"{gemm.rows.space} rows have no node at {end!s}: gather at "
                        f"{_ends(gemm.rows.space)}, or read the rows directly"
                    )
                self._width("operand", buffer, gemm.heads * gemm.k, "heads * k")
            case SegmentSum():
                self._segment_sum(gemm.x)

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

    def _segment_sum(self, x: SegmentSum) -> None:
        gemm = self.gemm
        if gemm.rows.space is not Space.DST_PAIR:
            raise self.error(
                f"sum(...) needs dst_pair rows, not {gemm.rows.space}: walk dst_pair rows"
            )
        if x.end is End.NONE:
            self.own_row(x.buffer, Rows(Space.EDGE, gemm.rows.group))
        elif x.end is End.SRC:
            self._node_operand(x.buffer)
        else:
            raise self.error(
                f"sum(...) reads {x.buffer!r} at dst, where all its edges meet: read it at src"
            )
        if x.weight is None:
            self._width("operand", x.buffer, gemm.heads * gemm.k, "heads * k")
            return
        shape = self.own_row(x.weight, Rows(Space.EDGE, gemm.rows.group)).shape
        if shape not in ((), (gemm.heads,)):
            raise self.error(
                f"weight {x.weight!r} has row shape {shape}: it must be () or (heads,) = "
                f"({gemm.heads},)"
            )
        if shape == () or self.buffer(x.buffer).width != gemm.k:
            self._width("operand", x.buffer, gemm.heads * gemm.k, "heads * k")

    def _weight(self) -> None:
        gemm = self.gemm
        type = self.buffer(gemm.w)
        self._weight_space("weight", gemm.w, type)
        shapes: set[tuple[int, ...]] = {(gemm.heads, gemm.k, gemm.n)}
        if gemm.heads == 1 and type.shape[:1] == (gemm.k,) and type.width == gemm.k * gemm.n:
            shapes.add(type.shape)
        if type.shape not in shapes:
            raise self.error(
                f"weight {gemm.w!r} has row shape {type.shape}: it must be (heads, k, n) = "
                f"{(gemm.heads, gemm.k, gemm.n)}; with one head (k, *out) will do"
            )

    def _weight_space(self, what: str, name: str, type: Type) -> None:
        typed = Space.NTYPE if self.gemm.rows.space is Space.NODE else Space.ETYPE
        if type.space not in (typed, Space.SHARED):
            raise self.error(
                f"{what} {name!r} is {show_type(type)}: with {self.gemm.rows.space} rows it must "
                f"be {typed} or shared"
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
        self._width("out", gemm.out, gemm.heads * gemm.n, "heads * n")

    def _bias(self, name: str) -> None:
        gemm = self.gemm
        if gemm.scatter:
            raise self.error(
                "a bias would be added once per row that scatters: add it in a pass over nodes"
            )
        self._weight_space("bias", name, self.buffer(name))
        self._width("bias", name, gemm.heads * gemm.n, "heads * n")


def _ends(space: Space) -> str:
    return " or ".join(end for end in NODE_ENDS[space] if end is not End.NONE) or "no end"
