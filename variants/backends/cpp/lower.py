"""Lowers a launch with its schedule to the target IR."""

from __future__ import annotations

from hetune.variants.backends.cpp.abi import Arguments, BufferSlot, Slot
from hetune.variants.backends.cpp.gemm import GemmLowering
from hetune.variants.backends.cpp.rows import CHUNK_ROWS, is_chunked, is_node_blocked
from hetune.variants.backends.cpp.target import (
    Assign,
    Do,
    For,
    Function,
    If,
    Let,
    Statement,
    Struct,
    Unit,
)
from hetune.variants.backends.cpp.traversal import TraversalLowering
from hetune.variants.kernel.nodes import Gemm, Launch, Schedule


def lower(launch: Launch, schedule: Schedule, arguments: Arguments, comment: str) -> Unit:
    """The launch as a translation unit; `arguments` learns what it is to be called with.

    Raises:
        KernelError: a kernel cannot be compiled as it stands.
    """
    node_blocked = is_node_blocked(launch)
    functions: list[Function] = []
    calls: list[Statement] = []
    for i, kernel in enumerate(launch.kernels):
        name = f"kernel_{i}"
        lowered: GemmLowering | TraversalLowering
        if isinstance(kernel, Gemm):
            lowered = GemmLowering(kernel, name, launch, schedule, arguments, node_blocked)
        else:
            lowered = TraversalLowering(kernel, name, launch, schedule, arguments, node_blocked)
        functions += lowered.functions()
        calls.append(Do(f"{name}(c, block)"))
    blocks = _blocks(launch, arguments)
    functions.append(
        Function(
            "all kernels on one block",
            "static inline void run_block",
            ("const Context& c", "int64_t block"),
            tuple(calls),
        )
    )
    return Unit(comment, _context(arguments), tuple(functions), _entry(arguments, blocks))


def _blocks(launch: Launch, arguments: Arguments) -> str:
    if is_node_blocked(launch):
        return arguments.count("blocks")
    if is_chunked(launch):
        rows = arguments.count(launch.kernels[0].rows)
        return f"({rows} + {CHUNK_ROWS - 1}) / {CHUNK_ROWS}"
    return arguments.count("row_blocks")


def _context(arguments: Arguments) -> Struct:
    fields = [(_pointer_type(slot), name) for slot, name in arguments.pointers]
    fields += [("int64_t", name) for _, name in arguments.counts]
    return Struct("what the launch is called with", "Context", tuple(fields))


def _pointer_type(slot: Slot) -> str:
    return "float*" if isinstance(slot, BufferSlot) else "const int32_t*"


def _entry(arguments: Arguments, blocks: str) -> Function:
    body: list[Statement] = [Let("Context", "c")]
    for i, (slot, name) in enumerate(arguments.pointers):
        body.append(Assign(f"c.{name}", f"static_cast<{_pointer_type(slot)}>(pointers[{i}])"))
    for i, (_, name) in enumerate(arguments.counts):
        body.append(Assign(f"c.{name}", f"counts[{i}]"))
    run = (Do("run_block(c, block)"),)
    together = "omp parallel for schedule(dynamic, 1) num_threads(threads)"
    body += [
        Let("const int64_t", "blocks", blocks),
        If(
            "threads == 1 || blocks == 1",
            (For("int64_t", "block", "0", "blocks", run),),
            (For("int64_t", "block", "0", "blocks", run, pragma=together),),
        ),
    ]
    return Function(
        "the launch; see its slots for the order of the arguments",
        'extern "C" __attribute__((visibility("default"))) void hetune_launch',
        ("void* const* pointers", "const int64_t* counts", "int threads"),
        tuple(body),
    )
