"""The clients' jobs and cost models, against a real server on loopback."""

import pytest
from tests.clients._both import KINDS, connected
from tests.profiling._made_up import MACHINE, measured, some_units
from tests.service._serving import make_service, serving

from hetune.profiling.jobs.leases import Leases
from hetune.service.core.jobs.documents import JobDocument, JobLine
from hetune.service.server.app import application
from hetune.variants import errors

CAMPAIGN = {
    "name": "tiny",
    "layers": ["rgcn"],
    "widths": [4],
    "threads": [1],
    "graphs": [{"kind": "typed", "nodes": 30, "edges": 90}],
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    return make_service(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def url(service):
    with serving(application(service, key="sesame")) as found:
        yield found


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def client(kind, url):
    with connected(kind, url, key="sesame") as found:
        yield found


def test_a_job_s_life(client, kind):
    job = client.jobs.submit(CAMPAIGN, retrain=True, idempotency_key=kind)
    assert client.jobs.submit(CAMPAIGN, retrain=True, idempotency_key=kind) == job
    with pytest.raises(errors.ConflictError, match=f"job {job.id}"):
        client.jobs.submit(CAMPAIGN, idempotency_key=kind)
    assert client.jobs.get(job.id) == job
    assert client.jobs.list(state="queued", limit=1).jobs == (job,)
    assert client.jobs.cancel(job.id).state == "cancelled"
    assert [line.text for line in client.jobs.log(job.id).lines][-1] == "cancelled"


@pytest.mark.parametrize(
    ("campaign", "error"),
    [
        ("no-such-preset", errors.CampaignError),
        (CAMPAIGN | {"graphs": [{"kind": "file", "path": "/etc/hostname"}]}, errors.CampaignError),
        (CAMPAIGN | {"widths": [1 << 20]}, errors.TooLargeError),
        (CAMPAIGN | {"widths": {4}}, errors.MalformedError),
    ],
    ids=range(4),
)
def test_what_cannot_be_submitted(client, campaign, error):
    with pytest.raises(error):
        client.jobs.submit(campaign)


def test_watching_a_job(client, service):
    job = service.measurements.queue.submit_units("mine", some_units(2))
    leases = Leases(service.measurements.store)
    lines, states = [], []
    for event in client.jobs.watch(job.id):
        if isinstance(event, JobLine):
            lines.append(event)
            continue
        assert isinstance(event, JobDocument)
        states.append(event.state)
        if (lease := leases.claim("a worker", MACHINE.digest)) is not None:
            leases.complete(lease, measured(lease), MACHINE)
    assert states[-1] == "succeeded"
    assert tuple(lines) == client.jobs.log(job.id).lines
    [first, second] = client.jobs.results(job.id).results
    assert [variant.variant for variant in first.variants] == ["v0", "v1"]
    assert client.jobs.results(job.id, after=first.task).results == (second,)
    with pytest.raises(errors.NotFoundError):
        next(client.jobs.watch(job.id + 1))


def test_an_empty_registry(client):
    found = client.cost_models.list()
    assert (found.models, found.candidate, found.champion) == ((), None, None)
    for do in (client.cost_models.get, client.cost_models.card, client.cost_models.promote):
        with pytest.raises(errors.NotFoundError, match="candidate"):
            do("candidate")
    with pytest.raises(errors.PromotionError, match="promote a model first"):
        client.cost_models.rollback()
