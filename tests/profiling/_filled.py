"""Stores that hold times of a known law."""

import dataclasses

from tests.profiling._made_up import MACHINE, measurement

from hetune.profiling.records import LaunchRecord
from hetune.profiling.store.store import Store


def fill(path, found, prefix="", **facts):
    """Keeps problems in a store, as if they had been measured; `facts` are the measurements'."""
    with Store.open(path) as store:
        for number, problem in enumerate(found):
            store.add(
                [
                    dataclasses.replace(
                        measurement(0, device=problem.device, **facts),
                        unit=f"{prefix}{problem.family}-{number}-{candidate.variant}",
                        graph=problem.graph,
                        graph_fingerprint=f"{prefix}{problem.graph}",
                        family=prefix + problem.family,
                        graph_features=problem.graph_features,
                        program=problem.program,
                        variant=candidate.variant,
                        samples=(candidate.seconds,) * 7,
                        launches=tuple(
                            LaunchRecord("k", launch.family, launch.columns, (launch.seconds,) * 7)
                            for launch in candidate.launches
                        ),
                    )
                    for candidate in problem.candidates
                ],
                MACHINE,
            )
