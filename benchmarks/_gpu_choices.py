"""What the roofline model chooses on the graphs that a GPU timed all variants on; without a GPU."""

from collections.abc import Iterator, Mapping
from typing import Any

from _gpu_graphs import fresh_graph
from _measure import geometric_mean
from _peers.problem import Problem

from hetune.variants.frontend.adapt import adapt
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.choice import choose
from hetune.variants.runtime.cost_estimates import RooflineEstimator


def choice_lines(units: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The choice for each cell of `variants/`, with how many times as long as the best it takes.

    Of runs whose kernels the host starts, as they were timed.
    """
    regrets = []
    for key, unit in units.items():
        kind, _, cell = key.partition("/")
        if kind != "variants" or not unit.get("best_plan"):
            continue
        name, layer, width = cell.split("/")
        graph = fresh_graph(name, "cpu")
        program = adapt(Problem(layer, graph, int(width)).conv).program  # type: ignore[arg-type]
        times = {id: plan["median_ms"] for id, plan in unit["plans"].items() if "median_ms" in plan}
        measured = tuple(v for v in variants_of(program, "cuda") if v.id in times)
        chosen = choose(measured, graph, RooflineEstimator(), cuda_graph=False).id
        regrets.append(times[chosen] / times[unit["best_plan"]])
        yield f"{cell:<22}{regrets[-1]:>6.3f}x  {chosen}"
    if regrets:
        mean = geometric_mean(regrets)
        yield f"regret: geometric mean {mean:.3f}x, at worst {max(regrets):.3f}x"
