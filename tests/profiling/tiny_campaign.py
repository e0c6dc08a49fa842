"""Measures two variants on each of many tiny graphs, for each line into the store that it names.

Each time a fork measures, for importing takes seconds: its number is printed first, then its
progress, and ``ended`` with its exit code, or minus the signal that killed it.
"""

import os
import sys

from hetune.profiling.campaign.run import run_units
from hetune.profiling.corpus import recipe
from hetune.profiling.measure.problem import units_of
from hetune.profiling.store.store import Store
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.frontend.presets import labeled_preset

GRAPHS = 75


def units() -> list[Unit]:
    found = []
    for seed in range(GRAPHS):
        graph = recipe(f"g{seed}", "typed", options={"nodes": 30, "edges": 90, "seed": seed})
        found += units_of(ProblemSpec(graph, labeled_preset("rgcn", 4, 4, 1), 1))[:2]
    return found


def measure(path: str) -> None:
    """Measures what is not in a store yet."""
    with Store.open(path) as store:
        run_units(units(), "tiny", store, progress=lambda now: print(now.done, flush=True))


def main() -> None:
    """What the process does."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                print(os.getpid(), flush=True)
                measure(line.rstrip())
                os._exit(0)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(70)
        print("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
