"""Runs layers of the hetune on its path, one run at a time, as `revisions.py` asks on its stdin."""

import functools
import hashlib
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from _graphs import load_graph
from _machine import set_threads
from _peers.problem import Problem

import hetune

_REST = 0.01
"""Seconds before each run, in which the threads of the other process go to sleep."""


def main() -> None:
    """Answers each line of JSON by one."""
    answers, sys.stdout = sys.stdout, sys.stderr
    run: Callable[[], object] | None = None
    with torch.inference_mode():
        for line in sys.stdin:
            asked = json.loads(line)
            if "layer" in asked:
                answer, run = _prepared(**asked)
            else:
                assert run is not None
                time.sleep(_REST)
                run()  # wakes this process's threads, which on some machines takes milliseconds
                start = time.perf_counter()
                run()
                answer = {"seconds": time.perf_counter() - start}
            print(json.dumps(answer), file=answers, flush=True)


def _prepared(
    layer: str, graph: str, width: int, threads: int, variant: str
) -> tuple[dict[str, Any], Callable[[], object]]:
    """What ran, and a digest of its bits; and the run."""
    set_threads(threads)
    problem = Problem(layer, load_graph(graph, canonical=layer == "hgt"), width)
    compiled = hetune.compile(problem.conv, expected_runs=math.inf)
    x = problem.x_dict if layer == "hgt" else problem.x
    if variant not in compiled.variants:
        variant = compiled.explain(x, problem.graph).chosen.id

    run = functools.partial(compiled, x, problem.graph, variant=variant)
    bits = problem.flatten(run()).contiguous().numpy().tobytes()
    run()
    return {"variant": variant, "bits": hashlib.sha256(bits).hexdigest()}, run


if __name__ == "__main__":
    main()
