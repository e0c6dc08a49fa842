"""Makes elementwise walks over a product's rows part of the product.

Such a walk reads what the product has just written, or writes what it is about to read: on CPUs
in a cache, on GPUs in memory. A walk that reads a product's rows becomes its tail. One that does
nothing but apply a function to what only a product reads becomes that function of its operand, even
where the product reads it several times. Rows that nobody else reads are not stored.
"""

from __future__ import annotations

from dataclasses import replace

from hetune.variants.kernel.check import OPERAND_FUNCTIONS
from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    Direct,
    Gemm,
    Kernel,
    Launch,
    Read,
    Rows,
    Traversal,
    Write,
)
from hetune.variants.kernel.passes.aliases import independent, memory_of, names_of, with_kernels
from hetune.variants.kernel.passes.epilogue import with_tail, without_idle_stores
from hetune.variants.kernel.walk import reads, touched, writes
from hetune.variants.program.nodes import Space


def fuse_rows(launch: Launch) -> Launch:
    """The launch with as many elementwise walks as possible in its products."""
    if len(launch.kernels) == 1:
        return launch
    kernels: list[Kernel] = []
    for kernel in launch.kernels:
        place = _last_needed(kernel, kernels, launch)
        fused = None if place is None else with_tail(kernels[place], kernel, launch)
        if place is None or fused is None:
            kernels.append(kernel)
        else:
            kernels[place] = fused
    for kernel in tuple(kernels):
        if isinstance(kernel, Traversal):
            _fuse_function(kernel, kernels, launch)
    for i, kernel in enumerate(kernels):
        if isinstance(kernel, Gemm) and kernel.tail:
            others = {name for other in kernels if other is not kernel for name in touched(other)}
            kernels[i] = without_idle_stores(kernel, others, launch)
    return with_kernels(launch, kernels)


def _last_needed(kernel: Kernel, before: list[Kernel], launch: Launch) -> int | None:
    """The last kernel that this one cannot change places with."""
    places = reversed(range(len(before)))
    return next((i for i in places if not independent(before[i], kernel, launch)), None)


def _fuse_function(walk: Traversal, kernels: list[Kernel], launch: Launch) -> None:
    """Drop a walk that is a function of a product's operand, which applies it instead."""
    match walk.body:
        case (
            Def(raw, _, Read(source)),
            Def(active, _, Apply(fn, (arg,), const)),
            Write(stored, value, False),
        ) if (arg, value) == (raw, active) and fn in OPERAND_FUNCTIONS:
            pass
        case _:
            return
    memory = memory_of(stored, launch)
    first = next(i for i, kernel in enumerate(kernels) if kernel is walk)
    users = [i for i, k in enumerate(kernels) if k is not walk and memory & set(touched(k))]
    if len(users) != 1 or users[0] < first:
        return
    product = kernels[users[0]]
    if not isinstance(product, Gemm) or not _multiplies(product, memory, walk.rows):
        return
    type = launch.type_of(source)
    own = Rows(Space.EDGE) if walk.rows.space is Space.EDGE else walk.rows
    later = {name for k in kernels[first + 1 : users[0] + 1] for name in writes(k)}
    if Rows(type.space, type.group) != own or later & names_of(source, launch):
        return
    kernels[users[0]] = replace(product, x=Direct(source, fn, const))
    del kernels[first]


def _multiplies(product: Gemm, memory: set[str], rows: Rows) -> bool:
    """Whether a product of these rows multiplies what is in memory, and reads it nowhere else."""
    match product.x:
        case Direct(buffer, "") if buffer in memory and product.rows == rows:
            return sum(name in memory for name, _ in reads(product)) == 1
    return False
