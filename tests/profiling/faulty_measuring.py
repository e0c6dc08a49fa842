"""A worker with variants that crash, hang or hunger, as the name of the graph says.

``"segfault,-,hang"``: a fault for each of the first variants, in order; a dash for none.
``"setup:exit"``: before any variant runs.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from multiprocessing.connection import Connection

import numpy as np

from hetune.profiling.measure.problem import SETUP, graph_facts, promoted_for
from hetune.profiling.measure.record import record
from hetune.profiling.process.measuring import main
from hetune.profiling.units import Unit
from hetune.variants.errors import CompileError


def refuse() -> None:
    raise CompileError("there is no compiler: install one")


def abort() -> None:
    sys.stderr.write("terminate called after throwing an instance of 'std::bad_alloc'\n")
    sys.stderr.flush()
    os.abort()


def damage() -> None:
    """Sends a pickle that would end whoever loads it."""
    parent = Connection(os.dup(int(sys.argv[2])))
    parent.send_bytes(b"cos\nabort\n(tR.")
    time.sleep(600)


# A core of a process with torch takes as long to write as a step may take.
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

FAULTS = {
    "-": lambda: None,
    "segfault": lambda: ctypes.string_at(0),
    "hang": lambda: time.sleep(600),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "abort": abort,
    "exit": lambda: os._exit(3),
    "damage": damage,
    "refuse": refuse,
    "raise": lambda: [][1],
    "hunger": lambda: np.ones(1 << 34, dtype=np.float64),
    "print": lambda: print('{"measurements": []}', flush=True),
}


def measure(problem, graph, variants, stamp, *, limits, bench, seed, beat):
    where, _, faults = problem.graph.name.rpartition(":")
    if where:
        FAULTS[faults]()
    names = (variant.id for variant in promoted_for(problem))
    chosen = dict(zip(names, faults.split(","), strict=False))
    found = []
    for variant in variants:
        beat(variant.id)
        FAULTS[chosen.get(variant.id, "-")]()
        unit = Unit(problem, variant.id, variant.key)
        found.append(record(unit, stamp, graph_facts(graph), samples=(1.0,) * 7))
    beat(SETUP)
    return found


if __name__ == "__main__":
    main(measure)
