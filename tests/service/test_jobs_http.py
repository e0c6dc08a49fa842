"""Profiling jobs over HTTP: what is accepted, what is shown, and what no request can reach."""

import json
import threading

import httpx
import pytest
from sqlalchemy import text
from tests.profiling._made_up import MACHINE, measured, some_units

from hetune.profiling.campaign import read
from hetune.profiling.campaign.workloads import gradient_stages
from hetune.profiling.jobs.leases import Leases
from hetune.profiling.workers.activity import Activity
from hetune.service.core.formats.documents import parse
from hetune.service.core.jobs.campaigns import _STAGES
from hetune.service.http.routes import jobs
from hetune.service.server.app import application
from hetune.variants.frontend.presets import HOMOGENEOUS, LAYERS, labeled_preset

from ._serving import LIMITS, asking, make_service, note_who_asks, serving
from .test_http import is_problem

JOBS = "/v1/profiling/jobs"
GRAPH = {"kind": "typed", "nodes": 30, "edges": 90}
CAMPAIGN = {"name": "tiny", "layers": ["rgcn"], "widths": [4], "threads": [1], "graphs": [GRAPH]}
FILE = {"kind": "file", "path": "/etc/hostname"}
JSON_TYPE = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    """A client of a service that gets no jobs."""
    app = application(make_service(tmp_path_factory.mktemp("data")))
    with asking(app, timeout=60) as client:
        yield client


@pytest.fixture
def own(service):
    """A client of a service of the test's own."""
    app = application(service)
    with asking(app, timeout=60) as client:
        yield client


@pytest.fixture
def queue(service):
    return service.measurements.queue


@pytest.fixture
def leases(service):
    """What a worker has."""
    return Leases(service.measurements.store)


def work(leases):
    """Does what is to be done next; whether there was something."""
    lease = leases.claim("a worker", MACHINE.digest)
    if lease is not None:
        leases.complete(lease, measured(lease), MACHINE)
    return lease is not None


def test_a_job_s_life(own, leases):
    asked = {"campaign": CAMPAIGN, "retrain": True, "machine": MACHINE.digest}
    created = own.post(JOBS, json=asked)
    assert created.status_code == 201
    job = created.json()
    path = f"{JOBS}/{job['id']}"
    assert created.headers["location"] == path
    assert (job["campaign"], job["state"], job["retrain"]) == ("tiny", "queued", True)
    assert (job["progress"]["problems"], job["progress"]["problems_done"]) == (1, 0)
    assert own.get(path).json() == job
    assert own.get(JOBS).json() == {"jobs": [job], "before": None}
    assert work(leases)
    assert own.get(path).json()["progress"]["problems_done"] == 1
    cancelled = own.delete(path)
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert own.delete(path).json() == cancelled.json()


def test_a_job_of_single_kernels(own, leases):
    campaign = {key: value for key, value in CAMPAIGN.items() if key != "layers"}
    asked = {"campaign": campaign | {"kernels": ["linear"]}, "machine": MACHINE.digest}
    created = own.post(JOBS, json=asked)
    assert created.status_code == 201
    path = created.headers["location"]
    assert work(leases)
    assert own.get(path).json()["state"] == "succeeded"
    [result] = own.get(f"{path}/results").json()["results"]
    assert (result["layer"], len(result["variants"])) == ("linear", 3)


def test_presets(own, monkeypatch):
    monkeypatch.setattr("hetune.profiling.jobs.queue.each_unit", lambda _: some_units(3))
    assert own.post(JOBS, json={"campaign": "smoke"}).json()["campaign"] == "smoke"


@pytest.mark.parametrize(
    ("header", "field"), [("monday", None), (None, "monday"), ("monday", "monday")]
)
def test_the_same_under_the_same_key_is_the_same_job(own, header, field):
    asked = {"campaign": CAMPAIGN, "idempotency_key": field}
    headers = {"Idempotency-Key": header} if header else {}
    first = own.post(JOBS, json=asked, headers=headers)
    again = own.post(JOBS, json=asked, headers=headers)
    assert first.json() == again.json()
    assert len(own.get(JOBS).json()["jobs"]) == 1
    other = own.post(JOBS, json=asked | {"retrain": True}, headers=headers)
    is_problem(other, 409, "ConflictError")


def test_two_keys_are_one_too_many(http):
    asked = {"campaign": CAMPAIGN, "idempotency_key": "monday"}
    found = http.post(JOBS, json=asked, headers={"Idempotency-Key": "tuesday"})
    is_problem(found, 422, "InputError")


@pytest.mark.parametrize(
    "graph",
    [
        FILE,
        {"kind": "subsample", "edges": 0.5, "of": FILE},
        {"kind": "subsample", "of": {"kind": "subsample", "of": FILE}},
        {"kind": "subsample", "of": "file", "of.path": FILE["path"]},
        {
            "kind": "subsample",
            "of": {"kind": "subsample", "of": GRAPH},
            "of.of": "file",
            "of.of.path": FILE["path"],
        },
    ],
    ids=range(5),
)
def test_no_request_reaches_a_file(http, monkeypatch, graph):
    opened = []
    monkeypatch.setattr(read, "digest_of", lambda path: opened.append(path) or "")
    monkeypatch.setattr("hetune.profiling.corpus.sources.load", lambda *_, **__: opened.append(1))
    found = http.post(
        JOBS, json={"campaign": CAMPAIGN | {"graphs": [GRAPH | {"name": "a"}, graph]}}
    )
    assert "graphs of files" in is_problem(found, 422, "CampaignError")
    assert opened == []


@pytest.mark.parametrize("name", ["/etc/hostname", "smoke.toml", "../presets/smoke", "", "file:x"])
def test_a_text_is_a_preset_s_name_and_never_a_path(http, monkeypatch, name):
    monkeypatch.setattr(read, "load", None)
    found = http.post(JOBS, json={"campaign": name})
    assert "take one of smoke" in is_problem(found, 422, "CampaignError")


def nested(depth):
    kinds = {".".join(["of"] * level): "subsample" for level in range(1, depth)}
    return {"kind": "subsample", **kinds, ".".join(["of"] * depth): "typed"}


@pytest.mark.parametrize(
    ("change", "status", "name"),
    [
        ({"graphs": []}, 422, "CampaignError"),
        ({"graphs": [GRAPH | {"kind": "unknown"}]}, 422, "CampaignError"),
        ({"graphs": [GRAPH | {"url": "http://127.0.0.1/"}]}, 422, "CampaignError"),
        ({"graphs": [GRAPH | {"edges": 1.5}]}, 422, "CampaignError"),
        ({"graphs": [GRAPH | {"edges": 10**400}]}, 400, "MalformedError"),
        ({"graphs": [GRAPH | {"edges": LIMITS.edges + 1}]}, 413, "TooLargeError"),
        ({"graphs": [GRAPH | {"nodes": LIMITS.nodes + 1}]}, 413, "TooLargeError"),
        (
            {"graphs": [{"kind": "subsample", "edges": 0.01, "of": GRAPH | {"edges": 9999}}]},
            413,
            "TooLargeError",
        ),
        ({"graphs": [GRAPH | {"name": "a" * 5000}]}, 413, "TooLargeError"),
        ({"graphs": [GRAPH | {"name": "zero\0"}]}, 422, "InputError"),
        ({"graphs": [GRAPH | {"name": "red\x1b[31m"}]}, 422, "InputError"),
        ({"graphs": [GRAPH | {"family": "two\nlines"}]}, 422, "InputError"),
        ({"graphs": [nested(60)]}, 422, "CampaignError"),
        ({"corpus": {"graphs": 10**9}}, 413, "TooLargeError"),
        ({"corpus": {"graphs": "many"}}, 422, "CampaignError"),
        ({"widths": [1 << 20]}, 413, "TooLargeError"),
        ({"widths": [1 << 15]}, 413, "TooLargeError"),
        ({"gradients": {"squared": [1 << 15]}}, 413, "TooLargeError"),
        ({"widths": list(range(1, 1000))}, 413, "TooLargeError"),
        ({"threads": [10**6]}, 413, "TooLargeError"),
        ({"widths": [4] * 3000, "threads": [1] * 3000}, 413, "TooLargeError"),
        ({"layers": ["gcn"]}, 422, "CampaignError"),
        ({"layers": ["linear"]}, 422, "CampaignError"),
        ({"kernels": ["rgcn"]}, 422, "CampaignError"),
        ({"kernels": ["attention"], "widths": [[4, 8]]}, 422, "CampaignError"),
        ({"limits": {"problem_seconds": 1e6}}, 413, "TooLargeError"),
        ({"limits": {"most_rounds": 10**6}}, 413, "TooLargeError"),
        ({"limits": {"memory_bytes": 2**62}}, 413, "TooLargeError"),
        ({"variants": "*a" * 200}, 413, "TooLargeError"),
        ({"variants": "none-of-them"}, 422, "CampaignError"),
        ({"unknown": 1}, 422, "CampaignError"),
    ],
    ids=range(31),
)
def test_campaigns_that_are_refused(http, change, status, name):
    found = http.post(JOBS, json={"campaign": CAMPAIGN | change})
    is_problem(found, status, name)
    assert http.get(JOBS).json()["jobs"] == []


@pytest.mark.parametrize("key", ["layers", "kernels", "widths", "squared", "heads", "threads"])
def test_lists_are_bounded_before_they_are_combined(http, monkeypatch, key):
    monkeypatch.setattr("hetune.profiling.campaign.parse", None)
    found = http.post(JOBS, json={"campaign": CAMPAIGN | {key: [1] * 1001}})
    assert f"1001 entries of {key} are more" in is_problem(found, 413, "TooLargeError")
    for table in ("homogeneous", "gradients"):
        inner = {table: {key: [1] * 1001}}
        found = http.post(JOBS, json={"campaign": CAMPAIGN | inner})
        assert f"1001 entries of {key} are more" in is_problem(found, 413, "TooLargeError")


@pytest.mark.parametrize("layer", [*LAYERS, *HOMOGENEOUS])
def test_no_gradient_has_more_stages_than_are_counted(layer):
    assert len(gradient_stages(labeled_preset(layer, 4, 4))) <= _STAGES


@pytest.mark.parametrize(
    "body", [{}, {"campaign": None}, {"campaign": []}, {"campaign": CAMPAIGN, "retrain": 1}, []]
)
def test_requests_that_are_none(http, body):
    is_problem(http.post(JOBS, json=body), 400, "MalformedError")


def test_content_types_are_strict(http):
    found = http.post(JOBS, content=b"{}", headers={"Content-Type": "text/plain"})
    is_problem(found, 415, None)


def test_a_key_that_is_none(http):
    found = http.post(JOBS, json={"campaign": CAMPAIGN, "idempotency_key": "a b"})
    is_problem(found, 422, "CampaignError")


@pytest.mark.parametrize("part", ["", "/log", "/results", "/events"])
@pytest.mark.parametrize("id", ["7", "0", "-1", "9" * 30])
def test_jobs_that_are_not_there(http, id, part):
    is_problem(http.get(f"{JOBS}/{id}{part}"), 404, "NotFoundError")
    if not part:
        is_problem(http.delete(f"{JOBS}/{id}"), 404, "NotFoundError")


@pytest.mark.parametrize(
    "path",
    [
        "/one",
        "?limit=0",
        "?limit=9999",
        "?before=0",
        "?state=lost",
        "/1/log?after=-1",
        f"/1/log?after={10**20}",
        "/1/results?limit=0",
    ],
)
def test_numbers_that_are_none(http, path):
    is_problem(http.get(f"{JOBS}{path}"), 400, "MalformedError")


def test_pages_of_jobs(own, queue):
    ids = [queue.submit_units("mine", some_units(1, start=n)).id for n in range(3)]
    queue.cancel(ids[0])
    first = own.get(JOBS, params={"limit": 2}).json()
    assert [job["id"] for job in first["jobs"]] == [ids[2], ids[1]]
    second = own.get(JOBS, params={"limit": 2, "before": first["before"]}).json()
    assert ([job["id"] for job in second["jobs"]], second["before"]) == ([ids[0]], None)
    cancelled = own.get(JOBS, params={"state": "cancelled"}).json()["jobs"]
    assert [job["id"] for job in cancelled] == [ids[0]]


def test_pages_of_the_log(own, queue, leases):
    job = queue.submit_units("mine", some_units(1))
    assert work(leases)
    texts, after = [], 0
    while (page := own.get(f"{JOBS}/{job.id}/log", params={"after": after, "limit": 1}).json())[
        "lines"
    ]:
        texts += [line["text"] for line in page["lines"]]
        after = page["after"]
    assert texts == [line.text for line in queue.log(job.id)]
    assert texts[-1] == "succeeded"


def test_results_page_by_page(own, queue, leases):
    job = queue.submit_units("mine", some_units(3))
    path = f"{JOBS}/{job.id}/results"
    assert [r["variants"] for r in own.get(path).json()["results"]] == [[], [], []]
    assert work(leases)
    assert work(leases)
    first = own.get(path, params={"limit": 2}).json()
    [one, two] = first["results"]
    assert (one["layer"], one["graph"], one["d_in"], one["state"]) == (
        "attentive",
        "g0",
        32,
        "succeeded",
    )
    assert [v["variant"] for v in one["variants"]] == ["v0", "v1"]
    assert all(v["seconds"] > 0 and v["status"] == "ok" for v in one["variants"] + two["variants"])
    second = own.get(path, params={"limit": 2, "after": first["after"]}).json()
    assert [(r["graph"], r["state"], r["variants"]) for r in second["results"]] == [
        ("g2", "queued", [])
    ]
    assert second["after"] is None


def test_a_machine_is_named_by_its_digest(http):
    for machine in ("red\x1b[31m", "another", "a" * 15, "a" * 16 + "\n"):
        asked = {"campaign": CAMPAIGN, "machine": machine}
        assert "machine" in is_problem(http.post(JOBS, json=asked), 422, "InputError")


@pytest.mark.parametrize("samples", ["[1e-320]", "so-so"])
def test_damaged_measurements_are_no_results(own, service, queue, leases, samples):
    job = queue.submit_units("mine", some_units(1))
    assert work(leases)
    change = text("UPDATE profiling_measurements SET samples = :samples WHERE id = 1")
    with service.measurements.store.transaction() as connection:
        connection.execute(change, {"samples": samples})
    [result] = own.get(f"{JOBS}/{job.id}/results").json()["results"]
    assert [variant["variant"] for variant in result["variants"]] == ["v1"]


def test_other_machines_measurements_are_no_results(own, queue, leases):
    done = queue.submit_units("mine", some_units(1))
    assert work(leases)
    other = queue.submit_units("yours", some_units(1), machine="another")
    for job, count in ((done, 2), (other, 0)):
        [result] = own.get(f"{JOBS}/{job.id}/results").json()["results"]
        assert len(result["variants"]) == count


# Events.


def events(lines):
    """Events of a stream: id, kind and document of each."""
    found = {}
    for line in lines:
        if not line and found:
            yield found.get("id"), found["event"], json.loads(found["data"])
            found = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            found[name] = value


def test_events_end_with_the_job(own, queue, leases):
    job = queue.submit_units("mi\u2028ne", some_units(2))  # where httpx ends lines, too
    path = f"{JOBS}/{job.id}/events"
    told = []
    with own.stream("GET", path) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for id, kind, document in events(stream.iter_lines()):
            told.append((id, kind, document))
            if kind == "job" and document["state"] != "succeeded":
                work(leases)
    texts = [document["text"] for _, kind, document in told if kind == "log"]
    assert texts == [line.text for line in queue.log(job.id)]
    assert {d["campaign"] for _, kind, d in told if kind == "job"} == {"mi\u2028ne"}
    assert [d["progress"]["problems_done"] for _, kind, d in told if kind == "job"][-1] == 2
    assert (told[-1][1], told[-1][2]["state"]) == ("job", "succeeded")
    last = max(int(id) for id, kind, _ in told if kind == "log")
    # Who goes on after the last line is told to stop; who missed some gets them.
    assert own.get(path, headers={"Last-Event-ID": str(last)}).status_code == 204
    missed = own.get(path, headers={"Last-Event-ID": str(last - 1)}).text
    assert [kind for _, kind, _ in events(missed.splitlines())] == ["log", "job"]
    is_problem(own.get(path, headers={"Last-Event-ID": "x"}), 400, "MalformedError")


def test_events_end_with_the_service(service, queue):
    job = queue.submit_units("mine", some_units(1))
    stopping = threading.Event()
    with serving(application(service, stopping=stopping)) as url:
        with httpx.stream("GET", f"{url}{JOBS}/{job.id}/events", timeout=60) as stream:
            for _, kind, _ in events(stream.iter_lines()):
                if kind == "job":
                    stopping.set()
        assert queue.get(job.id).state == "queued"


def test_only_so_many_watch(service, queue, monkeypatch):
    monkeypatch.setattr("hetune.service.http.dispatcher._WATCHING", 0)
    job = queue.submit_units("mine", some_units(1))
    with serving(application(service)) as url:
        is_problem(httpx.get(f"{url}{JOBS}/{job.id}/events", timeout=60), 429, "BusyError")


# What the worker beside the service sees.


def test_what_is_computed_can_be_seen(service):
    activity = Activity()
    seen, select = [], service.selection.select

    def look(*args, **options):
        seen.append(activity.read().running)
        return select(*args, **options)

    object.__setattr__(service.selection, "select", look)
    with serving(application(service, activity=activity)) as url:
        before = activity.read()
        asked = {"graph": {"src": [0, 1], "dst": [1, 2], "etype": [0, 1]}}
        assert httpx.post(f"{url}/v1/models/m/select", json=asked, timeout=60).status_code == 200
        assert httpx.get(f"{url}/v1/models", timeout=60).status_code == 200
    assert (seen, activity.read().running) == ([1], 0)
    assert activity.read().changes == before.changes + 2


# The database.


def test_it_is_asked_in_threads_for_that_alone(own, monkeypatch):
    """So that nothing else waits where it hangs."""
    names = note_who_asks(monkeypatch)
    job = own.post(JOBS, json={"campaign": CAMPAIGN}).headers["location"]
    paths = (JOBS, job, f"{job}/log", f"{job}/results")
    assert [own.get(path).status_code for path in paths] == [200] * 4
    assert own.delete(job).status_code == own.get(f"{job}/events").status_code == 200
    assert len(names) >= 8
    assert {name.partition("_")[0] for name in names} == {"hetune-database"}


def test_a_job_is_read_beside_the_event_loop(own, monkeypatch):
    names = []

    def noted(*given):
        names.append(threading.current_thread().name)
        return parse(*given)

    monkeypatch.setattr(jobs, "parse", noted)
    assert own.post(JOBS, json={"campaign": CAMPAIGN}).status_code == 201
    is_problem(own.post(JOBS, content="[", headers=JSON_TYPE), 400, "MalformedError")
    assert [name.partition("_")[0] for name in names] == ["hetune-database"] * 2


def test_a_store_that_is_away_keeps_nobody_from_running(tmp_path):
    service = make_service(tmp_path / "data")
    (tmp_path / "data" / "measurements.db").mkdir()
    with serving(application(service)) as url:
        detail = is_problem(httpx.get(f"{url}{JOBS}", timeout=60), 503, "StoreError")
        assert str(tmp_path) not in detail
        assert httpx.get(f"{url}/v1/health/ready", timeout=60).status_code == 200


def test_programs_of_models_are_measured(own, leases):
    campaign = {"threads": [1], "graphs": [GRAPH]}
    asked = {"campaign": campaign | {"programs": []}, "models": ["m"]}
    job = own.post(JOBS, json=asked)
    assert job.status_code == 201, job.text
    assert job.json()["progress"]["problems"] == 2
    assert work(leases)
    assert work(leases)
    found = own.get(f"{JOBS}/{job.json()['id']}/results").json()["results"]
    assert {result["layer"] for result in found} == {"m/0", "m/1"}
    unknown = own.post(JOBS, json=asked | {"models": ["other"]})
    is_problem(unknown, 404, "NotFoundError")
    preset = own.post(JOBS, json={"campaign": "smoke", "models": ["m"]})
    assert "campaign of their own" in is_problem(preset, 422, "CampaignError")


def test_programs_of_campaigns_are_bounded(own):
    wide = "program p(x: node[99999] feature)\n  y: node[99999] = relu x\n  return y\n"
    campaign = {"graphs": [GRAPH], "programs": [{"name": "p", "text": wide}]}
    is_problem(own.post(JOBS, json={"campaign": campaign}), 413, "TooLargeError")
