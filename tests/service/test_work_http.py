"""Work over HTTP: what a worker on another machine may ask, what is refused, and lost answers."""

import json
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import httpx
import pytest
from tests.profiling._made_up import MACHINE, PROGRAM, measured, some_units, units_of_job

import hetune
from hetune.clients.http import retries
from hetune.clients.http.leases import HttpLeases
from hetune.profiling.corpus import recipe
from hetune.profiling.jobs.records import State
from hetune.profiling.records import Status
from hetune.profiling.store.store import AddedCounts
from hetune.profiling.units import GraphRecipe, ProblemSpec, Unit
from hetune.profiling.workers.job_worker import JobWorker
from hetune.service.core.formats.documents import parse
from hetune.service.core.jobs import work_leases as work
from hetune.service.core.jobs.work_documents import LeaseDocument, MeasuredUnit, WantedDocument
from hetune.service.core.jobs.work_leases import WorkLeases
from hetune.service.http.routes import leases
from hetune.service.server.app import application
from hetune.variants.errors import AccessError, InputError, LeaseError, UnreachableError

from ._serving import make_service, serving
from .test_http import is_problem

LEASES = "/v1/leases"
CLAIM = {"owner": "me", "machine": MACHINE.digest, "version": hetune.__version__}
GIVEN = {"fingerprint": MACHINE.as_dict(), "measurements": []}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One for all tests, which end what they begin."""
    return make_service(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def url(service):
    with serving(application(service, key="sesame")) as url:
        yield url


@pytest.fixture
def http(url):
    headers = {"Authorization": "Bearer sesame"}
    with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture
def lender(url):
    with HttpLeases(url, key="sesame") as lender:
        yield lender


@pytest.fixture
def queue(service):
    queue = service.measurements.queue
    yield queue
    for job in queue.list():
        queue.cancel(job.id)


class Faulty(httpx.HTTPTransport):
    """A network that plays what it is given, one request after the other, and then works."""

    def __init__(self, *faults):
        super().__init__()
        self.faults, self.requests = list(faults), []

    def handle_request(self, request):
        self.requests.append(request.url.path)
        return (self.faults.pop(0) if self.faults else type(self).deliver)(self, request)

    def deliver(self, request):
        return super().handle_request(request)

    def lose_answer(self, request):
        self.deliver(request).read()
        raise httpx.ReadError("the connection was reset")

    def refuse(self, request):
        raise httpx.ConnectError("connection refused")

    def be_busy(self, request):
        return httpx.Response(503)


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """Waits take no time, and are kept."""
    found = []
    monkeypatch.setattr("hetune.clients.http.sender.sleep", found.append)
    return found


def leased(queue, http, start, problems=1):
    job = queue.submit_units("mine", some_units(problems, start=start))
    lease = http.post(LEASES, json=CLAIM).json()
    assert lease["job"] == job.id
    return job, lease, f"{LEASES}/{lease['unit']}/{lease['token']}"


def test_every_request_needs_the_key(url):
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        for path in ("", "/1/1/heartbeat", "/1/1/measurements", "/1/1/failure", "/1/1/release"):
            is_problem(client.post(f"{LEASES}{path}", json=CLAIM), 401, "AccessError")
    with HttpLeases(url, key="wrong") as lender, pytest.raises(AccessError):
        lender.claim("me", MACHINE.digest)


def test_nothing_to_do(http, lender, queue):
    found = http.post(LEASES, json=CLAIM)
    assert (found.status_code, found.content) == (204, b"")
    assert lender.claim("me", MACHINE.digest) is None


def test_a_lease_s_life(http, queue):
    job, lease, path = leased(queue, http, 100)
    assert lease["problem"]["graph"]["options"] == [["nodes", 30], ["seed", 100]]
    assert http.post(f"{path}/heartbeat").json() == {"wanted": True}
    queue.cancel(job.id)
    assert http.post(f"{path}/heartbeat").json() == {"wanted": False}
    assert http.post(f"{path}/release", json={"why": "it was cancelled"}).status_code == 204
    is_problem(http.post(f"{path}/release", json={}), 409, "LeaseError")
    is_problem(http.post(f"{path}/measurements", json=GIVEN), 409, "LeaseError")
    assert queue.get(job.id).state is State.CANCELLED
    assert any("given back: it was cancelled" in line.text for line in queue.log(job.id))


@pytest.mark.parametrize("of", ["0/1", "1/0", "x/1", f"1/{2**63}", f"{2**80}/1", "-1/1"])
def test_what_is_no_lease(http, of):
    is_problem(http.post(f"{LEASES}/{of}/heartbeat"), 400, "MalformedError")


def test_leases_that_never_were(http, queue):
    _, lease, _ = leased(queue, http, 110)
    for of in (f"{lease['unit']}/{lease['token'] + 1}", f"{2**62}/1", f"1/{2**62}"):
        is_problem(http.post(f"{LEASES}/{of}/heartbeat"), 409, "LeaseError")


@pytest.mark.parametrize(
    "change",
    [
        {"owner": ""},
        {"owner": "x" * 201},
        {"machine": 7},
        {"version": None},
        {"more": 1},
    ],
    ids=str,
)
def test_what_is_no_claim(http, change):
    found = http.post(LEASES, json=CLAIM | change)
    is_problem(found, 400, "MalformedError")


def test_another_release_gets_no_work(http, queue):
    job = queue.submit_units("mine", some_units(1, start=120))
    found = http.post(LEASES, json=CLAIM | {"version": "0.0.1"})
    assert "install the same release" in is_problem(found, 422, "InputError")
    assert queue.get(job.id).state is State.QUEUED


def test_graphs_of_files_are_not_lent(http, queue, tmp_path):
    path = tmp_path / "graph.npz"
    path.touch()
    options = {"path": str(path)}
    graphs = [
        recipe("f", "file", options=options),
        recipe("s", "subsample", options={"of": "file", "of.path": str(path)}),
    ]
    units = [Unit(ProblemSpec(graph, PROGRAM, 1), "v", "p") for graph in graphs]
    job = queue.submit_units("mine", [*units, *some_units(1, start=130)])
    found = http.post(LEASES, json=CLAIM).json()
    assert found["problem"]["graph"]["name"] == "g130"
    states = [unit.state for unit in units_of_job(queue, job.id)]
    assert states == [State.FAILED, State.FAILED, State.RUNNING]
    assert "the graph is a file" in units_of_job(queue, job.id)[0].error


def test_a_worker_reads_no_file_that_a_service_names(service, queue, lender, monkeypatch):
    monkeypatch.setattr("hetune.service.core.jobs.work_leases.reads_a_file", lambda lease: False)
    graph = GraphRecipe("f", "f", "file", (("path", "/etc/hostname"),))
    job = queue.submit_units("mine", [Unit(ProblemSpec(graph, PROGRAM, 1), "v", "p")])
    with pytest.raises(InputError, match="lends graphs of files"):
        lender.claim("me", MACHINE.digest)
    assert queue.get(job.id).state is State.FAILED


def test_bodies_are_bounded(http, queue, monkeypatch):
    _, _, path = leased(queue, http, 140)
    claim = CLAIM | {"owner": "x" * (64 << 10)}
    is_problem(http.post(LEASES, json=claim), 413, "TooLargeError")
    is_problem(http.post(f"{path}/failure", json={"error": "x" * 70_000}), 413, "TooLargeError")
    is_problem(http.post(f"{path}/failure", json={"error": "x" * 11_000}), 400, "MalformedError")
    monkeypatch.setattr(work, "MOST_BYTES", 100)
    is_problem(http.post(f"{path}/measurements", json=GIVEN), 413, "TooLargeError")
    assert http.post(f"{path}/measurements", content=b"{}").status_code == 415


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "x"},
        {"samples": [1.0, "2"]},
        {"samples": [math.inf]},
        {"status": "good"},
        {"drift": "much"},
        {"peak_bytes": 2**63},
        {"measured_at": "2026-01-01T00:00:00"},
        {"campaign": "another"},
    ],
    ids=str,
)
def test_what_is_no_measurement(http, queue, change):
    _, lease, path = leased(queue, http, 150)
    good = MeasuredUnit.of(measured_of(lease)[0]).model_dump(mode="json")
    given = {"fingerprint": MACHINE.as_dict(), "measurements": [good | change]}
    headers = {"Content-Type": "application/json"}
    found = http.post(f"{path}/measurements", content=json.dumps(given), headers=headers)
    is_problem(found, 400, "MalformedError")


def test_a_clock_that_is_wrong_is_said(http, queue):
    _, lease, path = leased(queue, http, 155)
    found = MeasuredUnit.of(measured_of(lease)[0]).model_dump(mode="json")
    found["measured_at"] = "0001-01-01T00:00:00+14:00"
    given = {"fingerprint": MACHINE.as_dict(), "measurements": [found]}
    is_problem(http.post(f"{path}/measurements", json=given), 422, "InputError")


@pytest.mark.parametrize(
    "facts",
    [{}, MACHINE.as_dict() | {"cores": "2"}, MACHINE.as_dict() | {"memory_gib": -1.0}],
    ids=range(3),
)
def test_what_is_no_machine(http, queue, facts):
    _, _, path = leased(queue, http, 160)
    found = http.post(f"{path}/measurements", json=GIVEN | {"fingerprint": facts})
    is_problem(found, 422, "InputError")


def measured_of(document):
    """Measurements of a lease that came as JSON."""
    return measured(parse(LeaseDocument, json.dumps(document)).lease())


def test_measurements_arrive_as_they_are(service, queue, lender):
    """To the last bit, and what no JSON number can say."""
    graph = recipe(
        "odd", "typed", options={"nodes": 30, "edges": 90, "src_hub": 0.1 + 0.2, "isolated": 0.0}
    )
    unit = Unit(ProblemSpec(graph, PROGRAM, 1), "v", "p")
    queue.submit_units("mine", [unit])
    lease = lender.claim("me", MACHINE.digest)
    assert lease is not None
    assert lease.work.units == (unit,)
    assert [type(value) for _, value in lease.work.units[0].problem.graph.options] == [
        type(value) for _, value in graph.options
    ]
    numbers = {"relative_error": math.inf, "drift": math.nan, "prepare_seconds": 1 / 3}
    [found] = measured(lease, status=Status.WRONG, error="it is \u00e4\U0001f600", **numbers)
    found = replace(found, program=unit.problem.program, threads=1, graph="odd", family="typed")
    assert lender.complete(lease, [found], MACHINE) == AddedCounts(1, 0)
    [kept] = [m for m in service.measurements.store.measurements() if m.unit == unit.key]
    assert math.isnan(kept.drift)
    assert asdict(replace(kept, drift=0.0)) == asdict(replace(found, drift=0.0))


def test_an_answer_that_is_lost_is_asked_for_again(service, url, queue, waits):
    network = Faulty()
    with HttpLeases(url, key="sesame", transport=network) as lender:
        queue.submit_units("mine", some_units(1, start=170))
        lease = lender.claim("me", MACHINE.digest)
        network.faults = [Faulty.lose_answer, Faulty.be_busy, Faulty.refuse]
        assert lender.complete(lease, measured(lease), MACHINE) == AddedCounts(0, 2)
        assert len(waits) == 3
        assert len({*network.requests[1:]}) == 1
        network.faults = [Faulty.lose_answer]
        with pytest.raises(LeaseError, match="the lease of me on unit"):
            lender.release(lease)


def test_a_claim_whose_answer_is_lost_is_sent_again(url, queue):
    """The same unit is leased, once."""
    network = Faulty(Faulty.lose_answer)
    job = queue.submit_units("mine", some_units(2, start=180))
    with HttpLeases(url, key="sesame", transport=network) as lender:
        lease = lender.claim("me", MACHINE.digest)
        assert (len(network.requests), lease.attempt) == (2, 1)
        states = [unit.state for unit in units_of_job(queue, job.id)]
        assert states == [State.RUNNING, State.QUEUED]
        assert lender.claim("me", MACHINE.digest).unit != lease.unit


def test_a_service_that_stays_away_is_given_up(url, queue, monkeypatch, waits):
    """After a minute, when the lease has ended."""
    now = [0.0]
    monkeypatch.setattr(retries, "monotonic", lambda: now[0] + sum(waits))
    network = Faulty()
    with HttpLeases(url, key="sesame", transport=network) as lender:
        queue.submit_units("mine", some_units(1, start=190))
        lease = lender.claim("me", MACHINE.digest)
        network.faults = [Faulty.refuse] * 1000
        with pytest.raises(UnreachableError, match="tried"):
            lender.complete(lease, measured(lease), MACHINE)
        assert sum(waits) <= retries.TOTAL_SECONDS
        assert max(waits) <= retries.LONGEST_SECONDS


def test_a_worker_waits_for_its_service(url, queue, tmp_path):
    """And works on when it is back."""
    from tests.profiling.test_jobs_worker import Fake, units

    job = queue.submit_units("mine", units())
    network = Faulty(Faulty.refuse, Faulty.be_busy)
    with HttpLeases(url, key="sesame", transport=network) as lender:
        worker = JobWorker(lender, Fake(), lock=tmp_path / "lock", machine=MACHINE)
        turns = iter([False] * 6)
        worker.run(lambda seconds: next(turns, True))
    assert queue.get(job.id).state is State.SUCCEEDED


def test_a_database_that_hangs_keeps_no_upload_waiting(service, http, monkeypatch):
    over = threading.Event()

    def hang(*_):
        over.wait(60)
        return WantedDocument(wanted=True)

    monkeypatch.setattr(WorkLeases, "heartbeat", hang)
    most = leases._MOST_ASKING
    length = ("hetune_queue_length", {"queue": "requests of workers"})
    with ThreadPoolExecutor(most) as pool:
        try:
            asked = [pool.submit(http.post, f"{LEASES}/1/1/heartbeat") for _ in range(most)]
            until = time.monotonic() + 60
            while service.metrics.registry.get_sample_value(*length) != most:
                assert time.monotonic() < until
                time.sleep(0.01)
            created = http.post("/v1/graphs", json={"src": [0], "dst": [1]}, timeout=10)
        finally:
            over.set()
    assert created.status_code == 201
    assert {found.result().status_code for found in asked} == {200}
