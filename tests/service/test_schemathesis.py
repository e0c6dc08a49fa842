"""What schemathesis asks of a service: all that its description allows, and what it does not.

Its findings are failures of this test; they are printed with a curl command for each.
"""

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from hetune.service.core.jobs.documents import JobRequest
from hetune.service.http.routes import events
from hetune.service.server.app import application

from ._serving import LIMITS, make_service, serving, tiny_graph

HERE = Path(__file__).parent
needs_schemathesis = pytest.mark.skipif(
    find_spec("schemathesis") is None, reason="no schemathesis: pip install '.[dev]'"
)


def run(url, description, config):
    """Runs schemathesis in a process of its own, and fails with what it says."""
    asked = ["--config-file", config, "run", description, "--url", url]
    found = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *asked, "--no-color"],
        cwd=HERE,
        env=os.environ | {"NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.fixture
def url(tmp_path, monkeypatch):
    """Of a service with a model, a graph and a job that has ended.

    It takes bodies as large as any that is sent: the protocol's authors describe no 413.
    """
    monkeypatch.setattr(events, "MOST_SECONDS", 0.1)  # jobs that wait are not watched for long
    service = make_service(tmp_path / "data", limits=replace(LIMITS, json_bytes=1 << 20))
    service.graphs.add(tiny_graph())
    service.jobs.cancel(service.jobs.submit(JobRequest(campaign="smoke")).id)
    with serving(application(service)) as found:
        yield found


@needs_schemathesis
def test_our_description(url):
    run(url, f"{url}/v1/openapi.json", "schemathesis.toml")


@needs_schemathesis
def test_the_protocol_s_own_description(url, tmp_path):
    """`HETUNE_TEST_OIP` is a copy of `open_inference_rest.yaml` of the protocol's authors.

    It writes `${MODEL_NAME}` for parameters in paths, which OpenAPI writes without the dollar.
    """
    published = os.environ.get("HETUNE_TEST_OIP")
    if not published:
        pytest.skip("no description by the protocol's authors: set HETUNE_TEST_OIP to a copy")
    copy = tmp_path / "protocol.yaml"
    copy.write_text(Path(published).read_text("utf-8").replace("${", "{"), "utf-8")
    run(url, str(copy), "schemathesis-protocol.toml")
