"""Traces: the steps of a request, as a part of its client's trace; nothing where none is wanted."""

import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from hetune.clients.http import Client
from hetune.clients.http.endpoint import trace_headers
from hetune.service.server.app import application
from hetune.service.server.tracing import is_wanted, open_tracing
from hetune.variants.errors import InputError

from ._serving import serving, tiny_features, tiny_graph

pytest.importorskip("opentelemetry.sdk", reason="needs the extra 'tracing'")
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

PROBES = ("/healthz", "/readyz", "/v1/health/live", "/v2/health/ready")
X = tiny_features()
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTLP = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Begun(SpanProcessor):
    """Counts the spans that began."""

    count = 0

    def on_start(self, span, parent_context=None):
        self.count += 1


@pytest.fixture
def provider():
    return TracerProvider(shutdown_on_exit=False)


@pytest.fixture
def spans(provider):
    """What was traced. Spans end after the answers to their requests; they are waited for."""
    exporter, begun = InMemorySpanExporter(), Begun()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.add_span_processor(begun)

    def finished():
        deadline = time.monotonic() + 60
        while len(exporter.get_finished_spans()) < begun.count and time.monotonic() < deadline:
            time.sleep(0.005)
        return exporter.get_finished_spans()

    return finished


@pytest.fixture
def http(service, provider, spans):
    app = application(service, key="sesame", tracer=provider.get_tracer("test"))
    right = {"Authorization": "Bearer sesame"}
    with serving(app) as url, httpx.Client(base_url=url, headers=right, timeout=60) as client:
        yield client


def infer(http, id, **headers):
    asked = {"graph": id, "x": X.tolist()}
    return http.post("/v1/models/m/infer", json=asked, headers=headers)


def test_the_steps_of_a_request(http, service, spans):
    answer = infer(http, service.graphs.add(tiny_graph()), **{"x-request-id": "mine"})
    assert answer.is_success
    *steps, request = spans()
    assert request.name == "POST /v1/models/{name}/infer"
    assert dict(request.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/models/{name}/infer",
        "http.response.status_code": 200,
        "hetune.request_id": "mine",
    }
    assert [step.name for step in steps] == ["queue", "select", "compute", "compute"]
    assert all(step.parent.span_id == request.context.span_id for step in steps)
    assert all(
        request.start_time <= step.start_time <= step.end_time <= request.end_time for step in steps
    )
    assert dict(steps[1].attributes) == {"hetune.cost_model": "given"}
    layers = answer.json()["layers"]
    assert [dict(step.attributes) for step in steps[2:]] == [
        {"hetune.layer": found["layer"], "hetune.number": n, "hetune.variant": found["variant"]}
        for n, found in enumerate(layers)
    ]
    trace, span = f"{request.context.trace_id:032x}", f"{request.context.span_id:016x}"
    assert answer.headers["traceparent"].startswith(f"00-{trace}-{span}-")


def test_the_protocol_s_requests_have_the_same_steps(http, service, spans):
    id = service.graphs.add(tiny_graph())
    tensor = {"name": "x", "datatype": "FP32", "shape": [7, 4], "data": X.flatten().tolist()}
    body = {"inputs": [tensor], "parameters": {"graph_id": id}}
    assert http.post("/v2/models/m/infer", json=body).is_success
    assert [s.name for s in spans()][:-1] == ["queue", "select", "compute", "compute"]


def test_a_client_s_trace_goes_on(http, spans):
    answer = http.get("/v1/models", headers={"traceparent": PARENT, "tracestate": "a=b"})
    [span] = spans()
    _, trace, parent, _ = PARENT.split("-")
    assert f"{span.context.trace_id:032x}" == trace
    assert f"{span.parent.span_id:016x}" == parent
    assert answer.headers["traceparent"].startswith(f"00-{trace}-{span.context.span_id:016x}")
    assert answer.headers["tracestate"] == "a=b"


def test_a_client_may_ask_not_to_be_traced(http, spans):
    assert http.get("/v1/models", headers={"traceparent": PARENT[:-1] + "0"}).is_success
    assert spans() == ()


@pytest.mark.parametrize(
    "headers",
    [
        [("traceparent", "no trace")],
        [("traceparent", PARENT.replace("00-", "ff-", 1))],
        [("traceparent", PARENT + "-" + "f" * 9000)],
        [("traceparent", PARENT), ("traceparent", PARENT)],
        [("traceparent", "00-" + "0" * 32 + "-b7ad6b7169203331-01")],
        [("tracestate", "a=" + "b" * 5000)],
    ],
    ids=range(6),
)
def test_what_names_no_trace_begins_a_new_one(http, spans, headers):
    assert http.get("/v1/models", headers=headers).is_success
    [span] = spans()
    assert span.parent is None


def test_failures_are_named_and_nothing_made_up_is_kept(http, spans):
    assert http.get("/v1/graphs/secret").status_code == 404
    assert http.get("/secret?secret=1").status_code == 404
    assert http.get("/v1/models", headers={"Authorization": "Bearer secret"}).status_code == 401
    requests = [span for span in spans() if span.parent is None]
    assert [span.name for span in requests] == ["GET /v1/graphs/{id}", "GET", "GET"]
    errors = [span.attributes["error.type"] for span in requests]
    assert errors == ["NotFoundError", "http_404", "AccessError"]
    assert "secret" not in "".join(span.to_json() for span in spans())


def test_the_service_s_own_failures_are_errors(http, service, spans):
    def fail(*_, **__):
        raise RuntimeError("odd")

    object.__setattr__(service.selection, "layers", fail)
    assert infer(http, service.graphs.add(tiny_graph())).status_code == 500
    [request] = [span for span in spans() if span.parent is None]
    assert request.status.status_code is StatusCode.ERROR


def test_probes_are_left_out(http, spans):
    assert all(http.get(path).is_success for path in PROBES)
    assert spans() == ()


def test_our_client_passes_its_trace_on(http, provider, spans):
    with provider.get_tracer("mine").start_as_current_span("program") as mine:
        with Client(str(http.base_url), key="sesame") as client:
            client.models()
        given = dict(trace_headers())[b"traceparent"].decode()
        assert given.split("-")[2] == f"{mine.context.span_id:016x}"
    assert trace_headers() == []
    program, request = sorted(spans(), key=lambda span: span.name != "program")
    assert (program.name, request.parent.span_id) == ("program", program.context.span_id)


# Whether, and where to.


@pytest.mark.parametrize(
    ("asked", "environment", "wanted"),
    [
        (None, {}, False),
        (None, {OTLP: "http://c:4318"}, True),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        (None, {"OTEL_TRACES_EXPORTER": "console"}, True),
        (None, {"OTEL_TRACES_EXPORTER": "none", OTLP: "http://c:4318"}, False),
        (None, {"OTEL_SDK_DISABLED": "true", OTLP: "http://c:4318"}, False),
        (None, {"OTEL_SERVICE_NAME": "mine"}, False),
        (False, {OTLP: "http://c:4318"}, False),
        (True, {}, True),
        (True, {"OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_whether_traces_are_wanted(asked, environment, wanted):
    assert is_wanted(asked, environment) is wanted


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "otlp, console or none"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "only http/protobuf"),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "only http/protobuf"),
    ],
)
def test_what_is_not_supported_is_said(environment, reason):
    with pytest.raises(InputError, match=reason):
        open_tracing(environment)


def test_spans_go_where_the_environment_says(monkeypatch):
    received = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            length = int(self.headers["Content-Length"])
            received.append((self.path, self.rfile.read(length)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        environment = {OTLP: f"http://127.0.0.1:{collector.server_port}"}
        for name, text in environment.items():
            monkeypatch.setenv(name, text)
        provider = open_tracing(environment)
        provider.get_tracer("test").start_span("a step").end()
        provider.shutdown()
        collector.shutdown()
        thread.join()
    [(path, body)] = received
    assert path == "/v1/traces"
    assert b"a step" in body
    assert b"hetune" in body


def test_nothing_is_imported_where_no_traces_are_wanted(tmp_path):
    code = """
import sys
from pathlib import Path
import hetune.clients.cli.serve
from hetune.clients.http.endpoint import trace_headers
from hetune.costmodel.selection.selector import Selector
from hetune.service.core.service import Service
from hetune.service.server.app import application
application(Service.open(Path(sys.argv[1]), selector=Selector(), backend="torch"))
assert trace_headers() == []
# FastAPI imports the API by itself, if it is there; without the SDK that does nothing.
parts = ("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.proto")
assert not [name for name in sys.modules if name.startswith(parts)]
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=300)
