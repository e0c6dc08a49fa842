"""What pages hold, without a browser: figures, nothing that could run, nothing of others."""

import html
import re
import shutil
import threading
from datetime import UTC, datetime
from html.parser import HTMLParser

import httpx
import pytest
import torch
from tests.service._serving import (
    make_service,
    note_who_asks,
    serving,
    tiny_features,
    tiny_graph,
)

from hetune.profiling.store.job_tables import log
from hetune.service.core.jobs.documents import JobRequest
from hetune.service.core.models.describe_traced import describe_traced
from hetune.service.pages import forms
from hetune.service.pages.edge_lines import graph_of_lines
from hetune.service.server.app import application
from hetune.variants.errors import DeviceError, FolderError, NotReadyError, StoreError

from ._world import HOSTILE, LIMITS, campaign, work

FORM = {"Content-Type": forms.MEDIA_TYPE}
NAMES = (
    *("overview", "graphs", "graph", "models", "model", "choice", "jobs", "done", "running"),
    *("cost models", "cost model", "playground"),
)


def tags(text):
    """Names and attributes of all elements."""
    found = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.append((tag, dict(attributes)))
    parser.feed(text)
    return found


def test_there_is_a_test_for_each_page(pages):
    assert set(NAMES) == set(pages)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_ours_alone(http, pages, name):
    found = http.get(pages[name])
    assert found.status_code == 200
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    policy = found.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["referrer-policy"] == "same-origin"
    assert found.headers["cache-control"] == "no-store"
    assert HOSTILE not in found.text
    for tag, attributes in tags(found.text):
        assert tag != "style"
        assert not [key for key in attributes if key == "style" or key.startswith("on")]
        assert tag != "script" or attributes["src"].startswith("/ui/static/")
        for key in ("src", "href", "action", "formaction"):
            assert re.match(r"/(?!/)|#", attributes.get(key, "/")), attributes


def test_names_are_shown_as_they_are(http, pages):
    shown = html.escape(HOSTILE, quote=False).replace('"', "&#34;").replace("'", "&#39;")
    assert shown in http.get(pages["graph"]).text
    assert shown in http.get(pages["jobs"]).text
    assert shown in http.get(pages["done"]).text
    assert "&#34; onload=&#34;alert(2)" in http.get(pages["graph"]).text


@pytest.mark.parametrize(
    "path",
    [
        f"/ui/graphs/{HOSTILE}",
        f"/ui/models/{HOSTILE}",
        f"/ui/models/m?graph={HOSTILE}",
        f"/ui/models/m?version={HOSTILE}",
        f"/ui/jobs/{HOSTILE}",
        f"/ui/jobs?state={HOSTILE}",
        f"/ui/cost-models/{HOSTILE}",
        f"/ui/{HOSTILE}",
    ],
)
def test_what_is_asked_for_in_vain_is_no_code(http, path):
    found = http.get(path)
    assert found.status_code in (400, 404), found.text
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script" not in found.text
    assert found.headers["x-request-id"] in found.text


def test_errors_of_the_api_are_no_pages(http):
    assert http.get("/v1/nothing").headers["content-type"] == "application/problem+json"
    assert http.get("/nothing").headers["content-type"] == "application/problem+json"
    assert "nothing at this path" in http.get("/v2/nothing").json()["error"]
    assert http.get("/ui/nothing").headers["content-type"].startswith("text/html")


def test_files_of_pages(http):
    text = http.get("/").text
    [style] = re.findall(r'href="(/ui/static/style\.css\?v=[0-9a-f]{12})"', text)
    found = http.get(style)
    assert found.headers["content-type"].startswith("text/css")
    assert "immutable" in found.headers["cache-control"]
    assert not re.search(r"url\(|@import", found.text)
    for name in ("nothing.css", "..%2Frender.py", "render.py", "__init__.py"):
        assert http.get(f"/ui/static/{name}").status_code == 404


def test_pages_are_no_part_of_the_api_s_description(http):
    assert not [p for p in http.get("/v1/openapi.json").json()["paths"] if p.startswith("/ui")]


# The overview.


def test_the_overview_counts(own, service):
    first = own.get("/").text
    assert "This is the first one." in first
    own.get("/v1/models/nothing")
    service.graphs.add(tiny_graph())
    text = own.get("/").text
    assert re.search(r"<b>1</b> graph<", text)
    assert re.search(r"<b>1</b> model<", text)
    assert re.search(r"<b>2</b> requests<.*?1 failed", text, re.S)
    assert "GET /v1/models/{name}" in text
    assert "the roofline model chooses" in text


def test_the_overview_says_what_does_not_work(own, service, monkeypatch):
    def fail(*_args, **_options):
        raise FolderError("/a/secret/path is full")

    def away(*_args, **_options):
        raise StoreError("no database")

    monkeypatch.setattr(type(service), "check_ready", fail)
    monkeypatch.setattr(type(service.jobs), "list", away)
    text = own.get("/").text
    assert "not ready" in text
    assert "cannot be written" in text
    assert "their database cannot be used" in text
    assert "secret" not in text


@pytest.mark.parametrize(
    ("error", "says", "is_logged"),
    [
        (NotReadyError("the model m is being loaded"), "the model m is being loaded", False),
        (DeviceError("a secret of cuda:0"), "GPU that layers run on does not answer", True),
        (StoreError("a secret of a path"), "database of jobs and measurements fails", True),
    ],
)
def test_the_overview_says_why_it_is_not_ready(
    own, service, monkeypatch, caplog, error, says, is_logged
):
    def fail(*_args):
        raise error

    monkeypatch.setattr(type(service), "check_ready", fail)
    text = own.get("/").text
    assert "not ready" in text
    assert says in text
    assert "secret" not in text
    assert "cannot be written" not in text
    assert ("the service is not ready" in caplog.text) == is_logged


# Graphs and models.


def test_a_graph_s_figures(http, pages):
    text = http.get(pages["graph"]).text
    assert re.search(r"<b>7</b> nodes", text)
    assert re.search(r"<b>9</b> edges", text)
    # Three papers have three incoming edges each, all others none.
    assert re.search(r"2–3</th><td class=\"n\">3</td><td class=\"n\">42.9%", text)
    assert re.search(r">m</a> 1</th>\s*<td class=\"n\">0</td><td>rgcn</td>", text)


def test_a_graph_s_features(own, service):
    id = service.graphs.add(tiny_graph())
    assert "Features kept with it" not in own.get(f"/ui/graphs/{id}").text
    service.features.put(id, "base", tiny_features())
    text = own.get(f"/ui/graphs/{id}").text
    assert re.search(r">base</th><td class=\"n\">4</td><td>no</td>", text)


def test_a_graph_without_edges_has_a_page(own):
    graph = {"src": [], "dst": [], "num_nodes": 0}
    id = own.post("/v1/graphs", json=graph).json()["id"]
    found = own.get(f"/ui/graphs/{id}")
    assert found.status_code == 200
    assert "<figure>" not in found.text


def test_graphs_are_listed_beside_the_event_loop(own, service, monkeypatch):
    id, threads = service.graphs.add(tiny_graph()), []
    list_all = service.graphs.all

    def noted():
        threads.append(threading.current_thread().name)
        return list_all()

    monkeypatch.setattr(service.graphs, "all", noted)
    assert id in own.get("/ui/models/m").text
    assert [name.startswith("hetune-compute") for name in threads] == [True]


def test_predicted_stands_beside_measured(own, service):
    id = service.graphs.add(tiny_graph())
    path = f"/ui/models/m?version=1&graph={id}"
    before = own.get(path).text
    assert "least predicted time" in before
    assert "×</td>" not in before
    done = own.post("/ui/models/m/measure", data={"version": 1, "graph": id})
    assert done.status_code == 303
    assert done.headers["location"] == path
    after = own.get(path).text
    assert after.count("×</td>") > 4
    assert "chosen</span>" in after


def test_a_graph_that_is_none_for_the_model(own):
    id = own.post("/v1/graphs", json={"src": [0], "dst": [1]}).json()["id"]
    found = own.get(f"/ui/models/m?graph={id}")
    assert found.status_code == 200
    assert "1 edge type but the layers of the model were made for 2" in found.text


def test_loading_and_unloading(own, service):
    assert "on disk</span>" in own.get("/ui/models").text
    assert own.post("/ui/models/m/load", data={"version": 1}).status_code == 303
    assert service.models.is_loaded("m", 1)
    assert "in memory</span>" in own.get("/ui/models").text
    assert own.post("/ui/models/m/unload", content="", headers=FORM).status_code == 303
    assert not service.models.is_loaded("m", 1)


# Jobs.


def test_a_job_from_a_form(own, service):
    form = re.findall(r'name="(\w+)" value="([0-9a-f]+)"', own.get("/ui/jobs").text)
    asked = {**dict(form), "preset": "smoke", "retrain": "on"}
    first, again = (own.post("/ui/jobs", data=asked) for _ in range(2))
    assert first.status_code == 303
    assert first.headers["location"] == again.headers["location"] == "/ui/jobs/1"
    assert service.jobs.get(1).retrain
    text = own.get("/ui/jobs/1").text
    assert "live.js" in text
    assert '<noscript><meta http-equiv="refresh"' in text
    assert own.post("/ui/jobs/1/cancel").status_code == 303
    text = own.get("/ui/jobs/1").text
    assert "cancelled" in text
    assert "live.js" not in text
    assert "http-equiv" not in text
    assert "/ui/jobs/1" in own.get("/ui/jobs?state=cancelled").text
    assert "There are no running jobs" in own.get("/ui/jobs?state=running").text


def test_pages_ask_the_database_in_threads_for_that_alone(own, monkeypatch):
    names = note_who_asks(monkeypatch)
    job = own.post("/ui/jobs", data={"preset": "smoke"}).headers["location"]
    assert own.post(f"{job}/cancel").status_code == 303
    for path in ("/", "/ui/jobs", job, f"{job}/events"):
        assert own.get(path).status_code == 200
    assert {name.partition("_")[0] for name in names} == {"hetune-database"}


def test_events_of_a_job_are_those_of_the_api(own, service):
    job = own.post("/ui/jobs", data={"preset": "smoke"}).headers["location"]
    own.post(f"{job}/cancel")
    found = own.get(f"{job}/events").text
    assert found == own.get(job.replace("/ui/", "/v1/profiling/") + "/events").text
    # A page that comes again gets the lines that it has not, and in any case how the job ended.
    last = max(map(int, re.findall(r"^id: (\d+)$", found, re.M)))
    for told, lines in ((last - 1, 1), (last, 0)):
        again = own.get(f"{job}/events", headers={"Last-Event-ID": str(told)})
        assert again.status_code == 200
        assert re.findall(r"^event: (\w+)$", again.text, re.M) == ["log"] * lines + ["job"]
        assert found.endswith(again.text)


@pytest.mark.parametrize("count", [1300, 3])
def test_a_page_shows_how_a_log_ends(own, service, count):
    job = service.jobs.submit(JobRequest(campaign="smoke")).id
    lines = [f"line {number}" for number in range(count)]
    rows = [{"job": job, "moment": datetime.now(UTC), "line": line} for line in lines]
    with service.measurements.store.transaction() as connection:
        connection.execute(log.insert(), rows)
    text = own.get(f"/ui/jobs/{job}").text
    shown = re.findall(r"</time> (.+?)</li>", text)
    assert shown[-3:] == lines[-3:]
    assert len(shown) == min(count + 1, 200)
    assert ("The last 200 lines; 1,101 came before." in text) == (count > 200)
    assert f"events?after={service.jobs.log_end(job)[0].after}" in text


def test_results_of_a_job(http, pages):
    text = http.get(pages["done"]).text
    assert text.count("<details") == 2
    assert "1.020" in text
    assert "4 of 4" not in text  # variants, of which there are more than problems


def test_only_cost_models_that_are_here_are_linked(tmp_path, registry, pages):
    """A GPU's are in a model registry of their own, and others may be with other services."""
    shutil.copytree(registry, tmp_path / "registry")
    here, elsewhere = pages["cost model"].rpartition("/")[2], "0" * 16
    service = make_service(tmp_path)
    ids = []
    for model in (here, elsewhere):
        asked = JobRequest(campaign=campaign("trained"), retrain=True)
        ids.append(service.jobs.submit(asked).id)
        work(service, model=model)
    with (
        serving(application(service)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
    ):
        for path in ("/ui/jobs", *(f"/ui/jobs/{id}" for id in ids)):
            text = http.get(path).text
            assert (f'href="/ui/cost-models/{here}"' in text) == (path != f"/ui/jobs/{ids[1]}")
            assert (elsewhere in text) == (path != f"/ui/jobs/{ids[0]}")
            assert f"/ui/cost-models/{elsewhere}" not in text


# Cost models.


def test_promoting_and_rolling_back(tmp_path, registry, pages):
    shutil.copytree(registry, tmp_path / "registry")
    id = pages["cost model"].rpartition("/")[2]
    with (
        serving(application(make_service(tmp_path))) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60, headers={"Origin": url}) as http,
    ):
        assert "candidate</span>" in http.get("/ui/cost-models").text
        promoted = http.post("/ui/cost-models/candidate/promote", data={"machine": ""})
        assert promoted.status_code == 303
        assert "champion</span>" in http.get(promoted.headers["location"]).text
        again = http.post(f"/ui/cost-models/{id}/promote", data={"machine": "another"})
        assert again.status_code == 409
        assert "on machine another nothing was measured" in html.unescape(again.text)
        assert http.post("/ui/cost-models/rollback").status_code == 303
        assert "champion</span>" not in http.get("/ui/cost-models").text
        none = http.post("/ui/cost-models/rollback")
        assert none.status_code == 409
        assert "there is no champion to roll back" in none.text


def test_a_card(http, pages):
    card = http.get(pages["cost model"]).text
    assert "<td><strong>cost model</strong></td>" in card
    assert "<h2>Training data</h2>" in card
    [picture] = set(re.findall(r'src="(/ui/cost-models/[^"]+/regret\.png)"', card))
    assert http.get(picture).content.startswith(b"\x89PNG")
    assert http.get(picture.replace("regret", "..%2F..%2Fregret")).status_code == 404


# The playground.

FIELDS = {
    "source": "typed",
    "edges": "a knows b\nb knows c\n",
    "shape": "aifb",
    "size": "1,000",
    "model": "rgcn",
    "width": "16",
    "layers": "2",
    "heads": "1",
}


@pytest.mark.parametrize("kind", ["rgcn", "rgat", "hgt"])
def test_the_playground_runs(own, kind):
    found = own.post("/ui/playground", data=FIELDS | {"model": kind, "heads": "2"})
    assert found.status_code == 200, found.text
    assert f"drawn {kind} on 3 nodes, 2 edges and 1 relation, which is not kept" in found.text
    assert "3 of 3 rows, 8 of 16 columns" in found.text
    assert own.get("/v1/graphs").json()["graphs"] == []


def test_the_playground_keeps_what_it_shall_keep(own):
    drawn = FIELDS | {"source": "drawn", "keep": "on"}
    found = own.post("/ui/playground", data=drawn)
    assert found.status_code == 200, found.text
    [kept] = own.get("/v1/graphs").json()["graphs"]
    assert f"/ui/graphs/{kept['id']}" in found.text


def test_the_playground_runs_what_the_service_keeps(own, service):
    edges = "\n".join(["author:a writes paper:x", "author:b reads paper:x"])
    found = own.post("/ui/playground", data=FIELDS | {"edges": edges, "model": "model:m"})
    assert found.status_code == 200, found.text
    assert "m on 3 nodes" in found.text
    out = service.inference.run("m", _same(edges), _features(3)).out
    assert f"{out[0, 0].item():+.4g}" in found.text


def test_the_playground_runs_models_of_several_widths(own, service):
    pyg = pytest.importorskip("torch_geometric.nn")
    kinds = [("author", "writes", "paper"), ("paper", "by", "author")]
    relations = pyg.HeteroConv({kind: pyg.SAGEConv((-1, -1), 3) for kind in kinds})
    x = {"author": torch.ones(2, 6), "paper": torch.ones(1, 5)}
    edges = {kind: torch.zeros(2, 1, dtype=torch.int64) for kind in kinds}
    relations(x, edges)
    service.models.add("wide", 1, *describe_traced(relations.eval(), (x, edges)))
    lines = "author:a writes paper:x\nauthor:b writes paper:x\npaper:x by author:a"
    found = own.post("/ui/playground", data=FIELDS | {"edges": lines, "model": "model:wide"})
    assert found.status_code == 200, found.text
    assert "3 of 3 rows, 3 of 3 columns" in found.text
    for name in ("author:a", "author:b", "paper:x"):
        assert f"{name}</th>" in found.text


def _same(edges):
    return graph_of_lines(edges, LIMITS).graph


def _features(nodes):
    return torch.randn(nodes, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"edges": ""}, 400, "there are no edges"),
        ({"edges": "a"}, 400, "line 1 has 1 words"),
        ({"edges": f"a {HOSTILE} b c"}, 400, "line 1 has 4 words"),
        ({"model": "model:m"}, 422, "the layers of the model were made for 2"),
        ({"model": "model:../m"}, 400, "no name of a model"),
        ({"model": "model:other"}, 404, "there is no model other"),
        ({"model": HOSTILE}, 400, "model: take one of"),
        ({"width": "1000000"}, 400, "width: take one of"),
        ({"source": "drawn", "size": "100,000"}, 413, "edges"),
        ({"source": "drawn", "shape": "nothing"}, 400, "shape: take one of"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, dict) else None,
)
def test_what_the_playground_cannot_run(own, changes, status, says):
    found = own.post("/ui/playground", data=FIELDS | changes)
    assert found.status_code == status, found.text
    assert says in html.unescape(found.text)
    assert "<script>" not in found.text
    assert "<textarea" in found.text  # with what was sent, to be mended


# Forms.


@pytest.mark.parametrize(
    ("body", "type", "status"),
    [
        (b"{}", "application/json", 415),
        (b"version=1", "", 415),
        (b"version=" + b"1" * 30_000, forms.MEDIA_TYPE, 413),
        (b"a=1&" * 100, forms.MEDIA_TYPE, 400),
        (b"version=\xff", forms.MEDIA_TYPE, 400),
        (b"version=%ff", forms.MEDIA_TYPE, 400),
        (b"version=-1", forms.MEDIA_TYPE, 400),
        (b"version=1e3", forms.MEDIA_TYPE, 400),
        (b"version=99999999999999999999", forms.MEDIA_TYPE, 400),
        (b"", forms.MEDIA_TYPE, 400),
    ],
)
def test_forms_that_are_none(http, body, type, status):
    found = http.post("/ui/models/m/load", content=body, headers={"Content-Type": type})
    assert found.status_code == status
    assert found.headers["content-type"].startswith("text/html")


def test_a_job_goes_on_under_its_page(own, service):
    job = own.post("/ui/jobs", data={"preset": "smoke"}).headers["location"]
    assert "0</b> of" in own.get(job).text
    work(service, most=1)
    assert not re.search(r">0</b> of", own.get(job).text)
