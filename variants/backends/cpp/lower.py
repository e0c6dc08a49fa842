"""Lowers a launch with its schedule to the target IR."""

from __future__ import annotations

from dataclasses import replace

from hetune.variants.backends.cpp.abi import Arguments, ScratchSlot, Slot, TermsSlot
from hetune.variants.backends.cpp.flat_softmax import FlatSoftmax, softmax_across_edges
from hetune.variants.backends.cpp.folded_dots import FoldedDots, has_folded_dots
from hetune.variants.backends.cpp.gemm import GemmLowering
from hetune.variants.backends.cpp.one_pass import OnePass, softmax_in_one_pass
from hetune.variants.backends.cpp.outer import OuterLowering
from hetune.variants.backends.cpp.pieces import pointer_type
from hetune.variants.backends.cpp.rows import (
    CHUNK_ROWS,
    StaticChunks,
    block_range,
    is_chunked,
)
from hetune.variants.backends.cpp.target import (
    Assign,
    ChunksWithStealing,
    Comment,
    Declare,
    Do,
    Function,
    If,
    Statement,
    Struct,
    TranslationUnit,
)
from hetune.variants.backends.cpp.traversal import TraversalLowering
from hetune.variants.backends.slots import BufferSlot
from hetune.variants.kernel.blocks import is_node_blocked
from hetune.variants.kernel.nodes import Gemm, Kernel, Launch, Outer, Rows, Schedule, Traversal
from hetune.variants.kernel.passes.idle import leaves_out_idle
from hetune.variants.kernel.passes.softmax_forms import expanded, three_passes
from hetune.variants.program.nodes import Space


def lower(
    launch: Launch, schedule: Schedule, arguments: Arguments, comment: str
) -> TranslationUnit:
    """The launch as a translation unit; `arguments` learns what it is to be called with.

    Raises:
        KernelError: a kernel cannot be compiled as it stands.
    """
    if isinstance(launch.kernels[0], Outer):
        return _by_types(launch.kernels[0], launch, schedule, arguments, comment)
    functions, calls = _by_blocks(launch, schedule, arguments)
    chunks = StaticChunks(_blocks(launch, arguments))
    if is_node_blocked(launch):
        order, hubs = arguments.block_order(), arguments.count("hubs")
        chunks = replace(chunks, order=order, urgent=hubs)
    return TranslationUnit(
        comment, _context(launch, arguments), functions, _entry(launch, arguments, chunks, calls)
    )


def _by_types(
    outer: Outer, launch: Launch, schedule: Schedule, arguments: Arguments, comment: str
) -> TranslationUnit:
    """Sums of chunks, and then of these: a type is ended when all its chunks are there."""
    lowered = OuterLowering(outer, "kernel_0", launch, schedule, arguments)
    functions = lowered.functions()
    chunks = StaticChunks(arguments.count("chunk_blocks"))
    calls = (Do("kernel_0(c, block)"),)
    end = ChunksWithStealing("type", lowered.types, "0", (Do("kernel_0_end(c, type)"),), "ended")
    return TranslationUnit(
        comment,
        _context(launch, arguments),
        functions,
        _entry(launch, arguments, chunks, calls, (end, Do("return overflowed || ended"))),
    )


def _by_blocks(
    launch: Launch, schedule: Schedule, arguments: Arguments
) -> tuple[tuple[Function, ...], tuple[Statement, ...]]:
    """Functions of all kernels, and the calls that run a block."""
    given, launch = launch, expanded(launch, three_passes)
    node_blocked, idle = is_node_blocked(launch), leaves_out_idle(launch)
    functions: list[Function] = []
    calls: list[Statement] = []
    for i, kernel in enumerate(launch.kernels):
        name = f"kernel_{i}"
        calls.append(Do(f"{name}(c, block)"))
        original = given.kernels[i]
        form = _moderate_form(original, given, schedule.lanes)
        if isinstance(original, Traversal) and form is not None:
            functions += form(
                original,
                name,
                given,
                schedule,
                arguments,
                node_blocked,
                leaves_out_idle=i in idle,
            ).functions()
            calls[-1] = If(f"!{name}_moderate(c, block)", (calls[-1],))
        lowered: GemmLowering | TraversalLowering
        if isinstance(kernel, Gemm):
            lowered = GemmLowering(kernel, name, launch, schedule, arguments, node_blocked)
        else:
            assert isinstance(kernel, Traversal), "verified: an Outer has a launch of its own"
            folded = has_folded_dots(kernel, launch, schedule.lanes)
            lowered = (FoldedDots if folded else TraversalLowering)(
                kernel,
                name,
                launch,
                schedule,
                arguments,
                node_blocked,
                leaves_out_idle=i in idle,
            )
        functions += lowered.functions()
    return tuple(functions), (*_own_scratch(launch, arguments), *calls)


def _moderate_form(
    kernel: Kernel, launch: Launch, lanes: int
) -> type[FlatSoftmax] | type[OnePass] | None:
    """How a softmax and its sums run if no score is large; None for three passes in any case."""
    if not isinstance(kernel, Traversal):
        return None
    if softmax_across_edges(kernel, launch, lanes):
        return FlatSoftmax
    return OnePass if softmax_in_one_pass(kernel, lanes) else None


def _own_scratch(launch: Launch, arguments: Arguments) -> list[Statement]:
    """A context of the thread's own, in which scratch buffers begin at the block's first row.

    Kernels find a row where they would in a buffer of all rows, so they need not know.
    """
    if not any(buffer.scratch for buffer in launch.buffers):
        return []
    stride = arguments.count("scratch_stride")
    statements: list[Statement] = [
        Comment("scratch of this thread, as if it held the rows of all blocks"),
        Declare("Context", "c", "shared"),
        Declare("float*", "own", f"{arguments.scratch()} + omp_get_thread_num() * {stride}"),
    ]
    for buffer in launch.buffers:
        if buffer.scratch:
            group = "" if buffer.type.space is Space.EDGE else buffer.type.group
            first, _ = block_range(arguments, Rows(buffer.type.space, group), True)
            start = f"own + {arguments.scratch_start(buffer.scratch)}"
            shift = f"int64_t({first}) * {buffer.type.width}"
            statements.append(Assign(arguments.buffer(buffer.name), f"{start} - {shift}"))
    return statements


def _blocks(launch: Launch, arguments: Arguments) -> str:
    if is_node_blocked(launch):
        return arguments.count("blocks")
    if is_chunked(launch):
        rows = arguments.count(launch.kernels[0].rows)
        return f"({rows} + {CHUNK_ROWS - 1}) / {CHUNK_ROWS}"
    return arguments.count("row_blocks")


def _context(launch: Launch, arguments: Arguments) -> Struct:
    fields = [(_pointer_type(slot, launch), name) for slot, name in arguments.pointers]
    fields += [("int64_t", name) for _, name in arguments.counts]
    return Struct("what the launch is called with", "Context", tuple(fields))


def _pointer_type(slot: Slot, launch: Launch) -> str:
    match slot:
        case BufferSlot(name):
            return pointer_type(launch.buffer(name).element)
        case ScratchSlot() | TermsSlot():
            return "float*"
    return "const int32_t*"


def _entry(
    launch: Launch,
    arguments: Arguments,
    chunks: StaticChunks,
    calls: tuple[Statement, ...],
    end: tuple[Statement, ...] = (Do("return overflowed || has_overflowed()"),),
) -> Function:
    body: list[Statement] = [Declare("Context", "c")]
    shared = any(isinstance(slot, ScratchSlot) for slot, _ in arguments.pointers)
    for i, (slot, name) in enumerate(arguments.pointers):
        pointer = f"static_cast<{_pointer_type(slot, launch)}>(pointers[{i}])"
        body.append(Assign(f"c.{name}", pointer))
    for i, (_, name) in enumerate(arguments.counts):
        body.append(Assign(f"c.{name}", f"counts[{i}]"))
    body.append(Declare("int64_t", "blocks", chunks.blocks))
    if shared:
        body.append(Declare("const Context&", "shared", "c"))
    turn = "block"
    if chunks.order:
        turn = "turn"
        calls = (Declare("const int64_t", "block", f"{chunks.order}[turn]"), *calls)
    body.append(ChunksWithStealing(turn, "blocks", chunks.urgent, calls))
    body += end
    return Function(
        "the launch; see its slots for the order of the arguments",
        "EXPORT int hetune_launch",
        ("void* const* pointers", "const int64_t* counts", "int threads"),
        tuple(body),
    )
