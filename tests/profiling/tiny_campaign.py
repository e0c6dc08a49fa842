"""Measures two variants on each of many tiny graphs: python tiny_campaign.py STORE."""

import sys

from hetune.profiling.corpus import recipe
from hetune.profiling.measure.problem import units_of
from hetune.profiling.runner import run_units
from hetune.profiling.store.store import Store
from hetune.profiling.units import ProblemSpec, Unit

GRAPHS = 100


def units() -> list[Unit]:
    found = []
    for seed in range(GRAPHS):
        graph = recipe(f"g{seed}", "typed", options={"nodes": 30, "edges": 90, "seed": seed})
        found += units_of(ProblemSpec(graph, "rgcn", 4, 4, 1, 1))[:2]
    return found


if __name__ == "__main__":
    with Store.open(sys.argv[1]) as store:
        run_units(units(), "tiny", store, progress=lambda now: print(now.done, flush=True))
