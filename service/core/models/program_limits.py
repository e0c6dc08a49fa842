"""What programs that somebody sent may be: counted before memory or time is taken for them."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping, Sequence

from hetune.service.core.formats.limits import check_limit
from hetune.variants.passes.pipeline import clean
from hetune.variants.plan.lower import lower
from hetune.variants.program.columns import by_columns
from hetune.variants.program.limitation import limitation
from hetune.variants.program.nodes import (
    Concat,
    Einsum,
    Let,
    Linear,
    Param,
    Program,
    Space,
    operands,
)

MOST_VALUES = 256
MOST_MODEL_VALUES = 2_048
MOST_AXES = 8
MOST_ROW = 65_536
MOST_WEIGHT = 1 << 28
MOST_TYPED_PRODUCTS = 6
MOST_PARTS = 1_024
MOST_KERNELS = 256
MOST_COMPILE_SECONDS = 600


def check_program(program: Program) -> None:
    """Checks a program by itself.

    Raises:
        TooLargeError: It has more values, wider rows, or more ways to be run than any layer.
    """
    values: tuple[Param | Let, ...] = (*program.params, *program.lets)
    check_limit("values of a program", len(values), MOST_VALUES)
    for value in values:
        where, type_ = f"of {value.name[:64]}", value.type
        check_limit(f"axes {where}", len(type_.shape), MOST_AXES)
        most = MOST_WEIGHT if type_.space.is_weight else MOST_ROW
        check_limit(f"elements in a row {where}", type_.width, most)
    check_limit("parts of rows side by side", _parts(program), MOST_PARTS)
    typed = {let.op.w for let in program.lets if isinstance(let.op, Linear)}
    typed = {name for name in typed if program.type_of(name).space is Space.ETYPE}
    check_limit("weights by edge type in products", len(typed), MOST_TYPED_PRODUCTS)


def _parts(program: Program) -> int:
    """Parts of all values that have rows side by side, each of which is computed by itself."""
    counts = {param.name: 1 for param in program.params}
    for let in program.lets:
        found = [counts[name] for name in operands(let.op)]
        counts[let.name] = sum(found) if isinstance(let.op, Concat) else max(found, default=1)
        if counts[let.name] > MOST_PARTS:
            return counts[let.name]
    return sum(count for count in counts.values() if count > 1)


def check_weights(program: Program, rows: Mapping[Space, int]) -> None:
    """Checks what follows from weights alone, all of which is held.

    Args:
        program: The program.
        rows: How many a weight has, where that is not one.

    Raises:
        TooLargeError: It has too many elements.
    """
    types, elements = program.types, 0
    for let in program.lets:
        if not let.type.space.is_weight:
            continue
        count = let.type.width
        if isinstance(let.op, Einsum) and len(let.op.args) > 2:  # what it holds in between
            axes = zip(
                "".join(re.findall(r"[A-Za-z]", let.op.spec.partition("->")[0])),
                (n for arg in let.op.args for n in types[arg].shape),
                strict=True,
            )
            count = math.prod(dict(axes).values())
        elements += rows.get(let.type.space, 1) * count
        check_limit(f"elements of weights up to {let.name[:64]}", elements, MOST_WEIGHT)


def check_kernels(programs: Sequence[Program]) -> None:
    """Checks how many kernels a model has.

    Raises:
        TooLargeError: More than are compiled for one.
    """
    count = 0
    values = sum(len(program.lets) for program in programs)
    check_limit("values of a model", values, MOST_MODEL_VALUES)
    for program in programs:
        if limitation(program) is None:
            plan = lower(clean(by_columns(program)))
            count += sum(len(launch.kernels) for launch in plan.launches)
            check_limit("kernels of a model", count, MOST_KERNELS)


class CompileTime:
    """How long a model's layers took in runs that compiled kernels. Safe with several threads."""

    def __init__(self) -> None:
        self._seconds, self._mutex = 0.0, threading.Lock()

    def add(self, seconds: float) -> None:
        """Counts a run."""
        with self._mutex:
            self._seconds += seconds

    def check(self) -> None:
        """Checks that another layer may be compiled.

        Raises:
            TooLargeError: It took too long so far.
        """
        check_limit("seconds of compiling a model", int(self._seconds), MOST_COMPILE_SECONDS)
