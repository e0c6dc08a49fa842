"""A service with something on every page, and names that would be code if they were not escaped."""

from pathlib import Path

from tests.costmodel._synthetic import problems
from tests.profiling._made_up import MACHINE, measured
from tests.service._serving import make_service, tiny_graph

import hetune
from hetune.costmodel.evaluate.metrics import Chooser
from hetune.costmodel.evaluate.model_card import card_of, write_card
from hetune.costmodel.evaluate.report import MODEL, evaluate
from hetune.costmodel.registry.default_model import packaged
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.profiling.cost_model_training.train import cards_folder
from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.records import TrainTask
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.jobs.documents import JobRequest
from hetune.service.core.service import Service

HOSTILE = "<script>alert('&\"1')</script>"
LIMITS = ServiceLimits(json_bytes=20_000, body_bytes=200_000, nodes=20_000, edges=50_000, types=500)
GRAPH = {"kind": "typed", "nodes": 30, "edges": 90}


def campaign(name: str = "tiny") -> dict:
    """Two problems."""
    return {
        "name": name,
        "layers": ["rgcn"],
        "widths": [4, 8],
        "threads": [1],
        "graphs": [GRAPH],
    }


def hostile_graph() -> hetune.HeteroGraph:
    """The tiny graph with other names, so that the model m takes it."""
    graph = tiny_graph()
    return hetune.HeteroGraph(
        graph.src,
        graph.dst,
        graph.etype,
        graph.ntype,
        ntype_names=[HOSTILE, "paper"],
        etype_names=[HOSTILE, '" onload="alert(2)'],
    )


def register_model(folder: Path) -> str:
    """Puts the package's cost model on a service's registry, with a card; gives its id."""
    model, found, registry = (
        packaged(),
        problems(graph_families=2),
        ModelRegistry(folder / "registry"),
    )
    assert model is not None
    best: dict[str, Chooser] = {MODEL: lambda problem: problem.best.variant}
    report = evaluate(found, best, {"split": HOSTILE})
    key = registry.add(model)
    write_card(card_of(model, found, report), cards_folder(registry, key))
    (cards_folder(registry, key) / "report.json").write_text(report.as_json(), encoding="utf-8")
    return key


def world(folder: Path) -> tuple[Service, dict[str, str]]:
    """A service, and its pages by name."""
    folder.mkdir(parents=True, exist_ok=True)
    cost_model = register_model(folder)
    service = make_service(folder, limits=LIMITS)
    id = service.graphs.add(hostile_graph())
    done = service.jobs.submit(JobRequest(campaign=campaign(HOSTILE))).id
    work(service)
    running = service.jobs.submit(JobRequest(campaign=campaign("running"))).id
    work(service, most=1)
    return service, {
        "overview": "/",
        "graphs": "/ui/graphs",
        "graph": f"/ui/graphs/{id}",
        "models": "/ui/models",
        "model": "/ui/models/m",
        "choice": f"/ui/models/m?graph={id}",
        "jobs": "/ui/jobs",
        "done": f"/ui/jobs/{done}",
        "running": f"/ui/jobs/{running}",
        "cost models": "/ui/cost-models",
        "cost model": f"/ui/cost-models/{cost_model}",
        "playground": "/ui/playground",
    }


def work(service: Service, most: int = 100, model: str = "") -> int:
    """Does what a worker would, up to so many units; how many it did.

    Training makes a model of that id.
    """
    leases = Leases(service.measurements.store)
    for number in range(most):
        lease = leases.claim("a worker", MACHINE.digest)
        if lease is None:
            return number
        if isinstance(lease.work, TrainTask):
            leases.complete_training(lease, model)
        else:
            leases.complete(lease, measured(lease), MACHINE)
    return most
