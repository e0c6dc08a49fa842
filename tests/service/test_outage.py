"""A database that is away: one line when it goes and one when it is back, whatever is asked."""

import pytest

from hetune.profiling.jobs.queue import JobQueue
from hetune.service.core.storage import outage
from hetune.service.core.storage.outage import OutageLog, RecentErrors
from hetune.service.server.app import application
from hetune.variants.errors import StoreError

from ._logs import logged
from ._serving import asking
from .test_http import is_problem

JOBS = "/v1/profiling/jobs"


def test_it_is_told_once(service, monkeypatch):
    def fail(*_, **__):
        raise StoreError("cannot read the store: no route to host 7")

    with logged() as log, asking(application(service)) as http:
        assert http.get(JOBS).status_code == 200
        with monkeypatch.context() as away:
            for name in ("list", "get"):
                away.setattr(JobQueue, name, fail)
            for _ in range(3):
                answer = http.get(JOBS)
                told = is_problem(answer, 503, "StoreError")
                assert "try again later" in told
                assert "host 7" not in told
                assert answer.headers["retry-after"] == "1"
                assert http.get(f"{JOBS}/1/events").status_code == 503
                assert http.get("/").status_code == 200  # the overview goes without
                assert http.get("/ui/jobs").status_code == 503
        assert http.get("/readyz").status_code == 200
        assert http.get(JOBS).status_code == 200
        assert http.get("/").status_code == 200
    lines = [line for line in log.lines if line["logger"] != "hetune.access"]
    lines = [line["message"] for line in lines if line["level"].upper() in ("WARNING", "ERROR")]
    assert len(lines) == 2
    assert lines[0].endswith("cannot be used: cannot read the store: no route to host 7")
    assert "answers again" in lines[1]
    assert "in which it failed 12 times" in lines[1]
    assert "Traceback" not in log.text


def test_what_began_before_it_failed_does_not_say_that_it_is_back(caplog):
    outage = OutageLog(StoreError, "it cannot be used", "it answers again")
    outage.record(StoreError("gone"))
    outage.watched(lambda: outage.record(StoreError("gone")))
    assert "again" not in caplog.text
    with pytest.raises(StoreError):
        outage.watched(lambda: (_ for _ in ()).throw(StoreError("gone")))
    outage.watched(lambda: None)
    assert caplog.text.count("cannot be used") == 1
    assert caplog.text.count("failed 3 times") == 1


def test_an_error_is_new_again_after_a_minute_without_it(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(outage.time, "monotonic", lambda: now[0])
    errors = RecentErrors()
    assert errors.has_begun("a")
    for _ in range(5):
        now[0] += 30
        assert not errors.has_begun("a")
    assert errors.has_begun("b")
    now[0] += 61
    assert errors.has_begun("a")
