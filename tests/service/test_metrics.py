"""What is counted and timed; that labels stay few; that documents and dashboard agree with it."""

import json
import math
import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hetune.costmodel.selection.selector import LEARNED, Selector
from hetune.profiling.jobs.records import State
from hetune.service.core.inference import gauges as told
from hetune.service.core.jobs.documents import JobRequest
from hetune.service.core.models.stack import describe
from hetune.service.core.service import Service
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.server.app import application, routes
from hetune.variants.errors import CompileError, FolderError, MemoryLimitError
from hetune.variants.registry.default import default_registry, override_default_registry
from hetune.variants.registry.records import KernelSource
from hetune.variants.registry.store import Registry

from ._serving import LIMITS, make_service, serving, tiny_features, tiny_graph, tiny_layers

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "deploy" / "grafana" / "hetune.json"
GRAPH = {"src": [0, 1], "dst": [1, 2], "etype": [0, 1], "num_nodes": 3}
INFER = {"graph": GRAPH, "x": [[0.0, 1.0, 2.0, 3.0]] * 3}
X = tiny_features()


def value(service, name, **labels):
    """A sample of a service's metrics; 0 if there is none."""
    return service.metrics.registry.get_sample_value(name, labels) or 0


def labels_of(service, name, label):
    """The values of a label that there are."""
    return {
        sample.labels[label]
        for metric in service.metrics.registry.collect()
        for sample in metric.samples
        if metric.name == name
    }


def called(url, *requests, **options):
    """Sends requests, each a method and a path; gives the answers."""
    with httpx.Client(base_url=url, trust_env=False, timeout=60, **options) as http:
        return [http.request(method, path) for method, path in requests]


# What documents and dashboard say.


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """Kind and labels of each metric of a service that has done some of everything."""
    service = make_service(tmp_path_factory.mktemp("data"))
    service.regret.rate = 1.0
    with serving(application(service)) as url, httpx.Client(base_url=url, timeout=60) as http:
        id = http.post("/v1/graphs", json=GRAPH).json()["id"]
        for _ in range(2):
            assert http.post("/v1/models/m/infer", json=INFER | {"graph": id}).is_success
        assert http.get("/nothing").is_error
        deadline = time.monotonic() + 60
        while not labels_of(service, "hetune_regret_sample", "layer"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    return {
        metric.name + "_total" * (metric.type == "counter"): (
            metric.type,
            {label for sample in metric.samples for label in sample.labels} - {"le"},
        )
        for metric in service.metrics.registry.collect()
    }


def test_every_metric_is_in_the_documents(metrics):
    page = (ROOT / "docs" / "service-reference.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| `hetune_")
    ]
    assert all(text for *_, text in rows)
    assert metrics == {
        name.strip("`"): (kind, set(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels, _ in rows
    }


def expressions():
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    variables = dashboard["templating"]["list"]
    yield from (v["definition"] for v in variables if v["type"] == "query")
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def test_the_dashboard_s_metrics_are_those_that_there_are(metrics):
    samples = {}
    for name, (kind, labels) in metrics.items():
        if kind == "histogram":
            samples[f"{name}_bucket"] = name, labels | {"le"}
            samples |= {f"{name}{end}": (name, labels) for end in ("_sum", "_count")}
        else:
            samples[name] = name, labels
    shown = set()
    for expression in expressions():
        [sample] = set(re.findall(r"hetune_\w+", expression))
        name, labels = samples[sample]
        shown.add(name)
        for group in re.findall(r"by \((.*?)\)", expression):
            assert set(group.split(", ")) <= labels, expression
    assert shown == set(metrics)


def test_the_dashboard_s_panels_have_names_and_places_of_their_own():
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    for what in ("id", "title"):
        assert len({panel[what] for panel in panels}) == len(panels)
    places = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24


# Requests.


def test_every_route_is_counted_under_its_template(service):
    found = [
        (method.upper(), path)
        for path, methods in routes(Dispatcher.of(service)).openapi()["paths"].items()
        for method in methods
    ]
    with serving(application(service)) as url:
        called(url, *((method, re.sub("{.*?}", "1", path)) for method, path in found))
    counted = labels_of(service, "hetune_request_seconds", "route")
    assert counted == {f"{method} {path}" for method, path in found}


def test_what_clients_make_up_is_no_label(service):
    made_up = [("GET", f"/{n}") for n in range(3)] + [("GET", f"/v1/graphs/{n}") for n in range(3)]
    with serving(application(service)) as url:
        called(url, *made_up, ("MKCOL", "/v1/graphs"), ("LOCK", "/v1/graphs"), ("GET", "/metrics"))
    assert labels_of(service, "hetune_request_seconds", "route") == {
        "none",
        "GET /v1/graphs/{id}",
        "other /v1/graphs",
        "GET /metrics",
    }
    assert value(service, "hetune_request_seconds_count", route="none", status="404") == 3


def test_failures_by_reason(service):
    with serving(application(service, key="sesame")) as url:
        right = {"Authorization": "Bearer sesame"}
        requests = [
            ("GET", "/v1/models"),
            ("GET", "/v1/graphs/1"),
            ("GET", "/v2/models/none"),
            ("GET", "/nothing"),
            ("PUT", "/metrics"),
            ("GET", "/v1/models/m/versions/one"),
        ]
        statuses = [answer.status_code for answer in called(url, *requests, headers=right)]
        called(url, ("GET", "/v1/models"), ("GET", "/metrics"))
    assert statuses == [200, 404, 404, 404, 405, 400]
    reasons = labels_of(service, "hetune_failures", "reason")
    counts = {r: value(service, "hetune_failures_total", reason=r) for r in reasons}
    assert counts == {
        "NotFoundError": 2,
        "http_404": 1,
        "http_405": 1,
        "MalformedError": 1,
        "AccessError": 2,
    }


def test_what_waits_is_told(service):
    entered, leave = threading.Event(), threading.Event()
    select = service.selection.select

    def slow(*args, **options):
        entered.set()
        assert leave.wait(30)
        return select(*args, **options)

    object.__setattr__(service.selection, "select", slow)
    with serving(application(service)) as url:
        path = f"{url}/v1/models/m/select"
        first = threading.Thread(target=lambda: httpx.post(path, json={"graph": GRAPH}, timeout=60))
        first.start()
        assert entered.wait(30)
        assert value(service, "hetune_queue_length", queue="computations") == 1
        leave.set()
        first.join()
    assert value(service, "hetune_queue_length", queue="computations") == 0
    assert value(service, "hetune_queue_seconds_count") == 1


def test_metrics_are_read_with_the_key(service, metrics):
    with serving(application(service, key="sesame")) as url:
        right = {"Authorization": "Bearer sesame"}
        [refused] = called(url, ("GET", "/metrics"))
        assert refused.status_code == 401
        assert "hetune_" not in refused.text
        [found] = called(url, ("GET", "/metrics"), headers=right)
    assert found.headers["content-type"].startswith("text/plain; version=")
    names = {family.name for family in text_string_to_metric_families(found.text)}
    assert names == {name.removesuffix("_total") for name in metrics}


# Layers.


def test_each_layer_of_a_run_is_counted(service):
    id = service.graphs.add(tiny_graph())
    reports = [service.inference.run("m", id, X).report for _ in range(2)]
    for layers in zip(*(report.layers for report in reports), strict=True):
        kind, variant = layers[0].layer, layers[0].variant
        seconds = sum(layer.measured_seconds for layer in layers)
        found = value(service, "hetune_compute_seconds_sum", layer=kind)
        assert found == pytest.approx(seconds)
        assert value(service, "hetune_compute_seconds_count", layer=kind) == 2
        assert value(service, "hetune_variant_chosen_total", layer=kind, variant=variant) == 2
    assert value(service, "hetune_select_seconds_count") == 2


def test_predictions_are_compared_with_runs_that_prepared_nothing(service):
    id = service.graphs.add(tiny_graph())
    service.inference.run("m", id, X)
    assert value(service, "hetune_prediction_error_count", layer="rgcn") == 0
    warm = service.inference.run("m", id, X).report.layers
    for layer in warm:
        error = abs(math.log(layer.predicted_seconds / layer.measured_seconds))
        found = value(service, "hetune_prediction_error_sum", layer=layer.layer)
        assert found == pytest.approx(error)
    others = service.selection.select("m", id, explain=True).layers[0].explanation.candidates
    other = next(c.variant for c in others if c.variant != warm[0].variant)
    service.inference.run("m", id, X, variants=[other, None])
    assert value(service, "hetune_prediction_error_count", layer="rgcn") == 1
    assert value(service, "hetune_prediction_error_count", layer="rgat") == 2


def test_graphs_that_come_with_their_requests_are_always_prepared(service):
    for _ in range(2):
        service.inference.run("m", tiny_graph(), X)
    assert value(service, "hetune_compute_seconds_count", layer="rgcn") == 2
    assert value(service, "hetune_prediction_error_count", layer="rgcn") == 0


def test_what_is_not_run_is_not_counted(service):
    id = service.graphs.add(tiny_graph())
    service.selection.select("m", id)
    with pytest.raises(MemoryLimitError):
        service.inference.run("m", id, X, memory_limit=1)
    assert value(service, "hetune_select_seconds_count") == 2
    assert value(service, "hetune_compute_seconds_count", layer="rgcn") == 0


class Learned(Selector):
    """As if a cost model predicted."""

    def estimate(self, table, domain, threads):
        return replace(super().estimate(table, domain, threads), source=LEARNED)


@pytest.mark.parametrize(("selector", "count"), [(Selector(), 1), (Learned(), 0)], ids=range(2))
def test_choices_of_the_roofline_model_are_fallbacks(tmp_path, selector, count):
    service = Service.open(tmp_path, limits=LIMITS, selector=selector, backend="torch")
    service.models.add("m", 1, *describe(tiny_layers()))
    service.selection.select("m", tiny_graph())
    for layer in ("rgcn", "rgat"):
        assert value(service, "hetune_fallbacks_total", layer=layer) == count


# What is kept.


def test_what_is_kept_is_told(service):
    assert value(service, "hetune_graphs") == 0
    id = service.graphs.add(tiny_graph())
    [stored] = service.graphs.all()
    assert value(service, "hetune_graphs") == 1
    assert value(service, "hetune_graph_bytes") == stored.bytes > 0
    service.models.add("m", 2, *describe(tiny_layers()))
    assert value(service, "hetune_models") == 2
    service.graphs.remove(id)
    assert value(service, "hetune_graph_bytes") == 0


def test_a_folder_that_cannot_be_read_hides_no_other_metric(service):
    def fail():
        raise FolderError("gone")

    service.graphs.all = fail
    service.selection.select("m", tiny_graph())
    assert math.isnan(value(service, "hetune_graphs"))
    assert value(service, "hetune_select_seconds_count") == 1


# The registry, and jobs.


def test_kernels_by_where_they_came_from(service, tmp_path):
    def loads():
        return [
            value(service, "hetune_registry_loads_total", result=result)
            for result in ("memory", "disk", "compiled", "failed")
        ]

    source = KernelSource("answer", 'extern "C" int answer() { return 42; }', "test/1")
    with override_default_registry(Registry(tmp_path / "kernels")):
        default_registry().load(source)
        assert loads() == [0, 0, 1, 0]
        default_registry().load(source)
        assert loads() == [1, 0, 1, 0]
        assert value(service, "hetune_registry_kernels") == 1
        [entry] = default_registry().entries()
        assert value(service, "hetune_registry_bytes") == entry.bytes
    with override_default_registry(Registry(tmp_path / "kernels")):
        default_registry().load(source)
        with pytest.raises(CompileError):
            default_registry().load(KernelSource("bad", "no C++", "test/1"))
        assert loads() == [0, 1, 0, 1]


def test_jobs_by_state(service):
    campaign = {
        "name": "mine",
        "layers": ["rgcn"],
        "widths": [4],
        "graphs": [{"kind": "typed", "nodes": 20, "edges": 40}],
    }
    for _ in range(2):
        service.jobs.submit(JobRequest(campaign=campaign))
    service.jobs.cancel(1)
    found = {state: value(service, "hetune_jobs", state=state) for state in State}
    assert found == {
        "queued": 1,
        "running": 0,
        "succeeded": 0,
        "failed": 0,
        "cancelled": 1,
    }


def test_a_database_that_is_away_hides_no_other_metric(tmp_path):
    (tmp_path / "store.db").write_bytes(b"no database" * 100)
    service = Service.open(
        tmp_path / "data", selector=Selector(), backend="torch", store=tmp_path / "store.db"
    )
    assert math.isnan(value(service, "hetune_jobs", state="queued"))
    assert value(service, "hetune_cost_model_info", model="given") == 1


def test_what_takes_long_to_look_up_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(told, "_PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(told, "_FRESH_SECONDS", math.inf)
    answer, asked = threading.Event(), []

    def look():
        asked.append(None)
        assert answer.wait(30)
        return 7

    found = told.CachedValue(look)
    assert [found.get(), found.get()] == [None, None]
    answer.set()
    monkeypatch.setattr(told, "_PATIENCE_SECONDS", 30)
    assert [found.get(), found.get()] == [7, 7]
    assert len(asked) == 1


def test_what_is_found_while_it_is_asked_for_is_not_looked_up_again(monkeypatch):
    """The look-up ends between two looks at whether it has."""
    monkeypatch.setattr(told, "_PATIENCE_SECONDS", 0.0)
    answer, asked = threading.Event(), []

    def look():
        asked.append(None)
        assert answer.wait(30)
        return 7

    found = told.CachedValue(look)
    assert found.get() is None
    thread = found._looking

    def then_it_ends(seen):
        answer.set()
        thread.join(30)
        return seen

    class Moment(float):
        def __lt__(self, other):
            return then_it_ends(float(self) < other)

    clock = SimpleNamespace(monotonic=lambda: Moment(time.monotonic()))
    monkeypatch.setattr(told, "time", clock)
    found._looking = SimpleNamespace(
        is_alive=lambda: then_it_ends(thread.is_alive()), join=thread.join
    )
    assert found.get() == 7
    assert len(asked) == 1


def test_services_in_one_process_do_not_share_metrics(service, tmp_path):
    other = make_service(tmp_path / "other")
    other.selection.select("m", tiny_graph())
    assert value(other, "hetune_select_seconds_count") == 1
    assert value(service, "hetune_select_seconds_count") == 0
